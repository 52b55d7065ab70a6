"""What a disk may have after a power cut: all that was synced, and of the rest anything.

A write may be there or not, or in part by sectors of 512 bytes; a change of names likewise, each as a whole; neither says anything about the other. Names of a folder become durable when that folder is synced, and
only then. So strict is no file system that people use, and less strict than one of them is none of the promises that POSIX makes.
"""

import os
from dataclasses import dataclass, field

BLOCK = 4096
SECTOR = 512


class Bytes:
    """A file's content, by blocks; what is not there is zeros."""

    def __init__(self, size=0, blocks=None):
        self.size, self.blocks = size, blocks if blocks is not None else {}

    def copy(self):
        return Bytes(self.size, dict(self.blocks))

    @staticmethod
    def read(path):
        whole = Bytes()
        with open(path, "rb") as file:
            whole.write(0, file.read())
        return whole

    def write(self, at, data):
        done = 0
        while done < len(data):
            number, offset = divmod(at + done, BLOCK)
            part = data[done : done + BLOCK - offset]
            old = self.blocks.get(number, bytes(BLOCK))
            self.blocks[number] = old[:offset] + part + old[offset + len(part) :]
            done += len(part)
        self.size = max(self.size, at + len(data))

    def cut(self, size):
        if size < self.size:
            number, offset = divmod(size, BLOCK)
            for block in [block for block in self.blocks if block > number or block == number and offset == 0]:
                del self.blocks[block]
            if number in self.blocks:
                self.blocks[number] = self.blocks[number][:offset] + bytes(BLOCK - offset)
        self.size = size

    def save(self, path):
        with open(path, "wb") as file:
            for number, block in self.blocks.items():
                file.seek(number * BLOCK)
                file.write(block)
            file.truncate(self.size)


@dataclass
class File:
    durable: Bytes
    #: What was done since, as events.
    pending: list = field(default_factory=list)

    @staticmethod
    def apply(to, event, keeps=None):
        """`keeps`: which sectors of a write reach the disk; all without it."""
        if event.what == "cut":
            to.cut(event.at)
        elif event.what == "grow":
            to.size = max(to.size, event.at)
        elif event.what == "hole":
            # It makes no file longer.
            if event.at < to.size:
                to.write(event.at, event.data[: to.size - event.at])
        elif keeps is None:
            to.write(event.at, event.data)
        else:
            begin = event.at
            while begin < event.at + len(event.data):
                end = min(begin - begin % SECTOR + SECTOR, event.at + len(event.data))
                if keeps():
                    to.write(begin, event.data[begin - event.at : end - event.at])
                begin = end


class Folder:
    """Entries by name: what is durable, what was changed since, and what there is now."""

    def __init__(self):
        self.durable, self.pending, self.now = {}, [], {}

    @staticmethod
    def enter(names, entries):
        for name, entry in entries:
            if entry is None:
                names.pop(name, None)
            else:
                names[name] = entry

    def change(self, event, *entries):
        """Entries that change together."""
        self.pending.append((event, entries))
        self.enter(self.now, entries)


class Disk:
    """The disk under a folder. `deaf`: of files and folders whose path it says yes to, syncs do nothing."""

    def __init__(self, root, deaf=lambda path: False):
        self.place, self.deaf = os.path.realpath(root), deaf
        #: By number; the first time a file is met by its name.
        self.known = {}
        self.told = b""
        self.root = self.load(self.place)

    def load(self, path):
        folder = Folder()
        for entry in os.scandir(path):
            folder.durable[entry.name] = self.load(entry.path) if entry.is_dir() else File(Bytes.read(entry.path))
        folder.now = dict(folder.durable)
        return folder

    def above(self, path):
        """The folder that a path is in, and its name there."""
        folder = self.root
        *above, name = path[len(self.place) + 1 :].split("/")
        for part in above:
            folder = folder.now[part]
        return folder, name

    def at(self, path):
        if path == self.place:
            return self.root
        folder, name = self.above(path)
        return folder.now.get(name)

    def found(self, event):
        """What an event is about, whatever it is called now."""
        if event.file not in self.known:
            self.known[event.file] = self.at(event.path)
        return self.known[event.file]

    def follow(self, event):
        """What happens next."""
        if event.what == "told":
            self.told += event.data
            return
        if event.what in ("write", "cut", "grow", "hole"):
            self.found(event).pending.append(event)
            return
        folder, name = self.above(event.path)
        if event.what in ("create", "open"):
            if event.what == "create" and name not in folder.now:
                folder.change(event, (name, File(Bytes())))
            self.found(event)
        elif event.what == "mkdir":
            folder.change(event, (name, Folder()))
        elif event.what == "unlink":
            folder.change(event, (name, None))
        elif event.what == "sync" and not self.deaf(event.path):
            self.sync(event)
        elif event.what in ("link", "rename", "exchange"):
            other, to = self.above(event.to)
            assert other is folder, event
            left = {"link": self.found(event), "rename": None, "exchange": folder.now.get(to)}[event.what]
            folder.change(event, (name, left), (to, folder.now[name]))

    def sync(self, sync):
        def is_done(event):
            return event.ended < sync.begun

        found = self.found(sync)
        if isinstance(found, Folder):
            for event, entries in found.pending:
                if is_done(event):
                    found.enter(found.durable, entries)
            found.pending = [(event, entries) for event, entries in found.pending if not is_done(event)]
            return
        for event in found.pending:
            if is_done(event):
                File.apply(found.durable, event)
        found.pending = [event for event in found.pending if not is_done(event)]

    def after_a_cut(self, r):
        """What may be there: contents by path, relative to the folder, None for folders."""
        contents, kept = {}, {}
        ways = r.choice(["nothing", "everything", "each", "each"])

        def look(folder, path):
            for name, entry in sorted(self.of_folder(folder, r).items()):
                if isinstance(entry, Folder):
                    contents[path + name] = None
                    look(entry, f"{path}{name}/")
                else:
                    # It may have several names.
                    if id(entry) not in kept:
                        kept[id(entry)] = self.of_file(entry, r, ways)
                    contents[path + name] = kept[id(entry)]

        look(self.root, "")
        return contents

    @staticmethod
    def of_folder(folder, r):
        names, way, changes = dict(folder.durable), r.choice(["nothing", "everything", "first", "any"]), folder.pending
        if way == "nothing":
            return names
        if way == "first":
            changes = changes[: r.randrange(len(changes) + 1)]
        for _, entries in changes:
            if way != "any" or r.random() < 0.5:
                folder.enter(names, entries)
        return names

    @staticmethod
    def of_file(file, r, ways):
        content = file.durable.copy()
        way = ways if ways != "each" else r.choice(["nothing", "everything", "first", "most", "half", "sectors"])
        if way == "nothing":
            return content
        pending = file.pending
        if way == "first":
            pending = pending[: r.randrange(len(pending) + 1)]
        share = {"most": 0.95, "half": 0.5}.get(way, 1)
        for event in pending:
            if share == 1 or r.random() < share:
                File.apply(content, event, (lambda: r.random() < 0.7) if way == "sectors" else None)
        return content


def save(contents, folder):
    """Makes a folder of what [`Disk.after_a_cut`] answered. SQLite's shared memory does not outlive the system."""
    for path, content in sorted(contents.items()):
        if content is None:
            os.makedirs(f"{folder}/{path}", exist_ok=True)
        elif not path.endswith("-shm"):
            content.save(f"{folder}/{path}")

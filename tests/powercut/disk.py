"""Possible states of a disk after a power cut: everything synced, and any part of the rest.

Each unsynced write is on the disk, missing, or there in part by sectors of 512 bytes. Each unsynced
change of names is there or missing as a whole. All are independent. Names in a folder become
durable only when that folder is synced. POSIX guarantees no more than this; common file systems do.
"""

import os
from dataclasses import dataclass, field

BLOCK = 4096
SECTOR = 512


class Bytes:
    """The content of a file, by blocks. Missing blocks are zeros."""

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
    #: Events since then.
    pending: list = field(default_factory=list)

    @staticmethod
    def apply(to, event, keeps=None):
        """Applies an event to the bytes of a file. `keeps` decides for each sector of a write
        whether it reaches the disk; without it all do."""
        if event.what == "cut":
            to.cut(event.at)
        elif event.what == "grow":
            to.size = max(to.size, event.at)
        elif event.what == "hole":
            # A hole does not extend the file.
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
    """Entries by name: the durable ones, the changes since then, and the present ones."""

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
        """Changes several entries at once."""
        self.pending.append((event, entries))
        self.enter(self.now, entries)


class Disk:
    """The disk with a folder. Syncs of paths for which `deaf` returns true are ignored."""

    def __init__(self, root, deaf=lambda path: False):
        self.path, self.deaf = os.path.realpath(root), deaf
        #: Files by number. They are found by name at their first event.
        self.known = {}
        #: The output of the program.
        self.output = b""
        self.root = self.load(self.path)

    def load(self, path):
        folder = Folder()
        for entry in os.scandir(path):
            folder.durable[entry.name] = self.load(entry.path) if entry.is_dir() else File(Bytes.read(entry.path))
        folder.now = dict(folder.durable)
        return folder

    def above(self, path):
        """The parent folder of a path, and the name in it."""
        folder = self.root
        *above, name = path[len(self.path) + 1 :].split("/")
        for part in above:
            folder = folder.now[part]
        return folder, name

    def at(self, path):
        if path == self.path:
            return self.root
        folder, name = self.above(path)
        return folder.now.get(name)

    def target(self, event):
        """The file or folder of an event, also if it was renamed."""
        if event.file not in self.known:
            self.known[event.file] = self.at(event.path)
        return self.known[event.file]

    def apply(self, event):
        """Applies the next event."""
        if event.what == "output":
            self.output += event.data
            return
        if event.what in ("write", "cut", "grow", "hole"):
            self.target(event).pending.append(event)
            return
        folder, name = self.above(event.path)
        if event.what in ("create", "open"):
            if event.what == "create" and name not in folder.now:
                folder.change(event, (name, File(Bytes())))
            self.target(event)
        elif event.what == "mkdir":
            folder.change(event, (name, Folder()))
        elif event.what == "unlink":
            folder.change(event, (name, None))
        elif event.what == "sync" and not self.deaf(event.path):
            self.sync(event)
        elif event.what in ("link", "rename", "exchange"):
            other, to = self.above(event.to)
            assert other is folder, event
            remaining = {"link": self.target(event), "rename": None, "exchange": folder.now.get(to)}[event.what]
            folder.change(event, (name, remaining), (to, folder.now[name]))

    def sync(self, sync):
        def is_done(event):
            return event.ended < sync.begun

        target = self.target(sync)
        if isinstance(target, Folder):
            for event, entries in target.pending:
                if is_done(event):
                    target.enter(target.durable, entries)
            target.pending = [(event, entries) for event, entries in target.pending if not is_done(event)]
            return
        for event in target.pending:
            if is_done(event):
                File.apply(target.durable, event)
        target.pending = [event for event in target.pending if not is_done(event)]

    def after_a_cut(self, r):
        """A possible state after a power cut: contents by path relative to the folder, None for
        folders."""
        contents, kept = {}, {}
        ways = r.choice(["nothing", "everything", "each", "each"])

        def add(folder, path):
            for name, entry in sorted(self.of_folder(folder, r).items()):
                if isinstance(entry, Folder):
                    contents[path + name] = None
                    add(entry, f"{path}{name}/")
                else:
                    # A file with several names has one content.
                    if id(entry) not in kept:
                        kept[id(entry)] = self.of_file(entry, r, ways)
                    contents[path + name] = kept[id(entry)]

        add(self.root, "")
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
    """Writes the result of `Disk.after_a_cut` to a folder, without SQLite's shared memory, which a
    power cut removes."""
    for path, content in sorted(contents.items()):
        if content is None:
            os.makedirs(f"{folder}/{path}", exist_ok=True)
        elif not path.endswith("-shm"):
            content.save(f"{folder}/{path}")

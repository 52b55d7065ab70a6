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
        elif keeps is None:
            to.write(event.at, event.data)
        else:
            begin = event.at
            while begin < event.at + len(event.data):
                end = min(begin - begin % SECTOR + SECTOR, event.at + len(event.data))
                if keeps():
                    to.write(begin, event.data[begin - event.at : end - event.at])
                begin = end


class Disk:
    """The disk under a folder. `deaf`: of files and folders whose path it says yes to, syncs do nothing."""

    def __init__(self, root, deaf=lambda path: False):
        self.root, self.deaf = os.path.realpath(root), deaf
        self.files, self.numbers = {}, 0
        #: By path: a file, or "folder".
        self.names, self.changes = {}, []
        self.told = b""
        for above, folders, files in os.walk(self.root):
            for name in folders:
                self.names[f"{above}/{name}"] = "folder"
            for name in files:
                self.names[f"{above}/{name}"] = File(Bytes.read(f"{above}/{name}"))
        self.now = dict(self.names)

    def file(self, event):
        """By its number, whatever it is called now; the first time by its name."""
        return self.files.get(event.file) or self.files.setdefault(event.file, self.now[event.path])

    def follow(self, event):
        """What happens next."""
        if event.what == "told":
            self.told += event.data
        elif event.what in ("write", "cut", "grow"):
            self.file(event).pending.append(event)
        elif event.what in ("create", "open"):
            if event.what == "create" and event.path not in self.now:
                self.change(event, [(event.path, File(Bytes()))])
            if isinstance(self.now.get(event.path), File):
                self.file(event)
        elif event.what == "mkdir":
            self.change(event, [(event.path, "folder")])
        elif event.what == "unlink":
            self.change(event, [(event.path, None)])
        elif event.what == "link":
            self.change(event, [(event.to, self.file(event))])
        elif event.what == "rename":
            self.rename(event)
        elif event.what == "sync" and not self.deaf(event.path):
            self.sync(event)

    def rename(self, event):
        entry = self.now[event.path]
        assert entry != "folder" and os.path.dirname(event.path) == os.path.dirname(event.to), event
        self.change(event, [(event.path, None), (event.to, entry)])

    def change(self, event, entries):
        """Entries of one folder that change together."""
        self.changes.append((event, entries))
        self.enter(self.now, entries)

    @staticmethod
    def enter(names, entries):
        for path, entry in entries:
            if entry is None:
                names.pop(path, None)
            else:
                names[path] = entry

    def sync(self, sync):
        def is_done(event):
            return event.ended < sync.begun

        if sync.path == self.root or self.now.get(sync.path) == "folder":
            done = [c for c in self.changes if os.path.dirname(c[0].path) == sync.path and is_done(c[0])]
            for change in done:
                self.enter(self.names, change[1])
            self.changes = [c for c in self.changes if c not in done]
            return
        file = self.file(sync)
        for event in [e for e in file.pending if is_done(e)]:
            File.apply(file.durable, event)
        file.pending = [e for e in file.pending if not is_done(e)]

    def after_a_cut(self, r):
        """What may be there: contents by path, relative to the folder, None for folders."""
        names = dict(self.names)
        for _, entries in self.of_names(r):
            self.enter(names, entries)
        contents, kept = {}, {}
        ways = r.choice(["nothing", "everything", "each", "each"])
        for path in sorted(names):
            entry = names[path]
            above = os.path.dirname(path)
            if above != self.root and names.get(above) != "folder":
                continue
            if entry == "folder":
                contents[path[len(self.root) + 1 :]] = None
                continue
            if id(entry) not in kept:
                kept[id(entry)] = self.of_file(entry, r, ways)
            contents[path[len(self.root) + 1 :]] = kept[id(entry)]
        return contents

    def of_names(self, r):
        way, changes = r.choice(["nothing", "everything", "first", "any"]), self.changes
        if way == "nothing":
            return []
        if way == "first":
            return changes[: r.randrange(len(changes) + 1)]
        return [c for c in changes if way == "everything" or r.random() < 0.5]

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

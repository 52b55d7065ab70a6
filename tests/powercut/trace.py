"""What a process did to the files of a folder, and what it said, read from strace.

The calls of all threads are brought into one order. A write counts as under way from its beginning, for the disk may have some of it then; a sync has done its work at its end, for what had ended before it began.
"""

import itertools
import os
import re
import subprocess
from dataclasses import dataclass, field

CALLS = (
    "open openat creat close dup dup2 dup3 fcntl lseek write pwrite64 writev pwritev pwritev2 ftruncate truncate fallocate fsync fdatasync sync_file_range "
    "rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat mkdir mkdirat rmdir copy_file_range sendfile splice ioctl io_uring_enter syncfs sync"
)

LINE = re.compile(rb"^(\d+) +(.*)$")
CALL = re.compile(rb"^(\w+)\((.*)\) += (-?\d+|\?)(?: .*)?$", re.S)
RESUMED = re.compile(rb"^<\.\.\. (\w+) resumed>(.*)$", re.S)
UNFINISHED = b" <unfinished ...>"
STRING = rb'"((?:\\x[0-9a-f]{2})*)"'
PIECE = re.compile(rb"iov_base=" + STRING)


@dataclass
class Event:
    """A call, or what of it matters, at its place in the order."""

    what: str
    #: Line at which it began, and at which it had ended.
    begun: int
    ended: int
    path: str = ""
    to: str = ""
    #: Which file that path led to.
    file: int = 0
    at: int = 0
    data: bytes = field(default=b"", repr=False)


def record(arguments, folder, **options):
    """Runs a program under strace; its events in `folder`, in their order, and how it ended."""
    trace = folder.rstrip("/") + ".strace"
    command = ["strace", "-f", "-qq", "-xx", "-s", str(1 << 26), "-e", "signal=none", "-e", "trace=" + ",".join(CALLS.split()), "-o", trace, "--", *arguments]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False, **options)
    with open(trace, "rb") as file:
        events = Reader(os.path.realpath(folder), options.get("cwd", os.getcwd())).read(file)
    os.remove(trace)
    return events, ran


def text(escaped):
    return bytes.fromhex(escaped.replace(b"\\x", b"").decode())


class Reader:
    """Follows descriptors through a trace. `root`: what happens elsewhere is of no interest, but for standard output."""

    def __init__(self, root, cwd):
        self.root, self.cwd = root, cwd
        #: By descriptor: path, file, place.
        self.open = {1: ["<stdout>", 0, 0]}
        #: By path.
        self.names, self.numbers = {}, itertools.count(1)
        self.events = []

    def read(self, lines):
        begun = {}
        for number, line in enumerate(lines):
            found = LINE.match(line.rstrip(b"\n"))
            assert found, line[:200]
            process, said = found[1], found[2]
            if said.endswith(UNFINISHED):
                begun[process] = (number, said[: -len(UNFINISHED)])
                if said.startswith(b"close("):
                    # Others may be given the number before this one has returned.
                    self.open.pop(int(said[6 : -len(UNFINISHED)].rstrip(b")")), None)
                continue
            first = number
            resumed = RESUMED.match(said)
            if resumed:
                first, before = begun.pop(process)
                said = before + resumed[2]
            call = CALL.match(said)
            if call and call[3] != b"?" and int(call[3]) >= 0 and not (resumed and call[1] == b"close"):
                self.call(call[1].decode(), call[2], int(call[3]), first, number)
        # Stable, so that calls of one thread stay in their order.
        self.events.sort(key=lambda e: e.ended if e.what in ("sync", "told") else e.begun)
        return self.events

    def add(self, what, begun, ended, **more):
        self.events.append(Event(what, begun, ended, **more))

    def path(self, folder, name):
        name = os.fsdecode(text(name))
        above = self.cwd if folder == b"AT_FDCWD" else self.open[int(folder)][0]
        return os.path.normpath(os.path.join(above, name))

    def is_ours(self, path):
        return path == self.root or path.startswith(self.root + "/")

    def number(self, path):
        if path not in self.names:
            self.names[path] = next(self.numbers)
        return self.names[path]

    def ours(self, fd):
        """Of an open file in the folder: path and number, as an event has them."""
        path, file, _ = self.open.get(int(fd), ("", 0, 0))
        return {"path": path, "file": file} if self.is_ours(path) else None

    def call(self, name, given, result, *when):
        does = getattr(self, "do_" + name, None)
        if does:
            return does(given, result, *when)
        # Whatever it is, it must not be about our files.
        first = re.match(rb"(\d+)", given)
        assert not (first and self.ours(first[1])) or name == "ioctl", f"{name} of {self.open[int(first[1])]} is not understood"
        return None

    # Names

    def do_openat(self, given, result, *when):
        found = re.match(rb"(\w+), " + STRING + rb", ([\w|]+)", given)
        path, flags = self.path(found[1], found[2]), found[3].split(b"|")
        self.open[result] = [path, self.number(path), 0]
        if not self.is_ours(path):
            return
        self.add("create" if b"O_CREAT" in flags else "open", *when, **self.ours(result))
        if b"O_TRUNC" in flags:
            self.add("cut", *when, at=0, **self.ours(result))

    def do_open(self, given, result, *when):
        self.do_openat(b"AT_FDCWD, " + given, result, *when)

    def do_close(self, given, _result, *_when):
        self.open.pop(int(given), None)

    def do_dup(self, given, result, *_when):
        self.open[result] = self.open.get(int(given.split(b",")[0]), ["", 0, 0])

    do_dup2 = do_dup3 = do_dup

    def do_fcntl(self, given, result, *when):
        if b"F_DUPFD" in given:
            self.do_dup(given, result, *when)

    def do_renameat2(self, given, _result, *when):
        found = re.match(rb"(\w+), " + STRING + rb", (\w+), " + STRING, given)
        path, to = self.path(found[1], found[2]), self.path(found[3], found[4])
        if not self.is_ours(path):
            return
        file = self.number(path)
        if b"EXCHANGE" in given:
            other = self.number(to)
            self.moved(path, "\0")
            self.moved(to, path)
            self.moved("\0", to)
            self.names[path], self.names[to] = other, file
        else:
            self.moved(path, to)
        self.add("exchange" if b"EXCHANGE" in given else "rename", *when, path=path, to=to, file=file)

    def moved(self, path, to):
        """What is known by names: a file's or folder's own, and those in it."""
        for name in [name for name in self.names if name == path or name.startswith(path + "/")]:
            self.names[to + name[len(path) :]] = self.names.pop(name)
        for place in self.open.values():
            if place[0].startswith(path + "/"):
                place[0] = to + place[0][len(path) :]

    do_renameat = do_renameat2

    def do_rename(self, given, result, *when):
        first, second = given.split(b", ")
        self.do_renameat2(b"AT_FDCWD, " + first + b", AT_FDCWD, " + second, result, *when)

    def do_linkat(self, given, _result, *when):
        found = re.match(rb"(\w+), " + STRING + rb", (\w+), " + STRING, given)
        path, to = self.path(found[1], found[2]), self.path(found[3], found[4])
        if self.is_ours(path):
            self.names[to] = file = self.number(path)
            self.add("link", *when, path=path, to=to, file=file)

    def do_link(self, given, result, *when):
        first, second = given.split(b", ")
        self.do_linkat(b"AT_FDCWD, " + first + b", AT_FDCWD, " + second, result, *when)

    def do_unlinkat(self, given, _result, *when):
        found = re.match(rb"(\w+), " + STRING, given)
        path = self.path(found[1], found[2])
        if self.is_ours(path):
            self.add("unlink", *when, path=path)
            self.names.pop(path, None)

    def do_unlink(self, given, result, *when):
        self.do_unlinkat(b"AT_FDCWD, " + given, result, *when)

    do_rmdir = do_unlink

    def do_mkdirat(self, given, _result, *when):
        found = re.match(rb"(\w+), " + STRING, given)
        path = self.path(found[1], found[2])
        if self.is_ours(path):
            self.add("mkdir", *when, path=path)

    def do_mkdir(self, given, result, *when):
        self.do_mkdirat(b"AT_FDCWD, " + given, result, *when)

    # Bytes

    def writes(self, fd, at, data, *when):
        if self.open.get(fd, [""])[0] == "<stdout>":
            self.add("told", *when, data=data)
        elif self.ours(fd):
            self.add("write", *when, at=at, data=data, **self.ours(fd))

    def do_pwrite64(self, given, result, *when):
        found = re.match(rb"(\d+), " + STRING + rb", \d+, (\d+)$", given)
        self.writes(int(found[1]), int(found[3]), text(found[2])[:result], *when)

    def do_write(self, given, result, *when):
        found = re.match(rb"(\d+), " + STRING, given)
        fd = int(found[1])
        place = self.open.setdefault(fd, ["", 0, 0])
        self.writes(fd, place[2], text(found[2])[:result], *when)
        place[2] += result

    def do_pwritev(self, given, result, *when):
        found = re.match(rb"(\d+), \[(.*)\], \d+, (\d+)", given, re.S)
        data = b"".join(text(piece) for piece in PIECE.findall(found[2]))
        self.writes(int(found[1]), int(found[3]), data[:result], *when)

    do_pwritev2 = do_pwritev

    def do_lseek(self, given, result, *_when):
        self.open.setdefault(int(given.split(b",")[0]), ["", 0, 0])[2] = result

    def do_ftruncate(self, given, _result, *when):
        fd, at = (int(n) for n in given.split(b", "))
        if self.ours(fd):
            self.add("cut", *when, at=at, **self.ours(fd))

    def do_fallocate(self, given, _result, *when):
        fd, mode, at, many = given.split(b", ")
        file = self.ours(fd)
        if not file:
            return
        at, many = int(at), int(many)
        if b"PUNCH_HOLE" in mode:
            self.add("hole", *when, at=at, data=bytes(many), **file)
        elif b"KEEP_SIZE" not in mode:
            assert mode == b"0", given
            self.add("grow", *when, at=at + many, **file)

    def do_fsync(self, given, _result, *when):
        if self.ours(given):
            self.add("sync", *when, **self.ours(given))

    do_fdatasync = do_fsync

    def do_sync_file_range(self, *_):
        """Promises nothing."""


"""The changes of a process to files in a folder, and its output, read from strace.

The calls of all threads get one order. A write counts from its beginning, because the disk can have
a part of it from then on. A sync counts from its end, for writes that ended before it began.
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
    """A system call, or a part of it, in the order of all calls."""

    what: str
    #: The lines of the trace at which it began and ended.
    begun: int
    ended: int
    path: str = ""
    to: str = ""
    #: The number of the file that the path led to.
    file: int = 0
    at: int = 0
    data: bytes = field(default=b"", repr=False)


def record(arguments, folder, **options):
    """Runs a program under strace. Returns its events in `folder`, in order, and the ended
    process."""
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
    """Follows descriptors through a trace. Only events below `root` and standard output are
    kept."""

    def __init__(self, root, cwd):
        self.root, self.cwd = root, cwd
        #: By descriptor: path, file, position.
        self.open = {1: ["<stdout>", 0, 0]}
        #: Numbers of files by path.
        self.names, self.numbers = {}, itertools.count(1)
        self.events = []

    def read(self, lines):
        begun = {}
        for number, line in enumerate(lines):
            parts = LINE.match(line.rstrip(b"\n"))
            assert parts, f"line {number + 1} of the trace is not understood: {line[:200]}"
            process, rest = parts[1], parts[2]
            if rest.endswith(UNFINISHED):
                begun[process] = (number, rest[: -len(UNFINISHED)])
                if rest.startswith(b"close("):
                    # Another call can get the descriptor before this one has returned.
                    self.open.pop(int(rest[6 : -len(UNFINISHED)].rstrip(b")")), None)
                continue
            first = number
            resumed = RESUMED.match(rest)
            if resumed:
                first, before = begun.pop(process)
                rest = before + resumed[2]
            call = CALL.match(rest)
            if call and call[3] != b"?" and int(call[3]) >= 0 and not (resumed and call[1] == b"close"):
                self.call(call[1].decode(), call[2], int(call[3]), first, number)
        # The sort is stable, so calls of one thread stay in order.
        self.events.sort(key=lambda e: e.ended if e.what in ("sync", "output") else e.begun)
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
        """The path and number of an open file in the folder, as fields of an event."""
        path, file, _ = self.open.get(int(fd), ("", 0, 0))
        return {"path": path, "file": file} if self.is_ours(path) else None

    def call(self, name, given, result, *when):
        handler = getattr(self, "do_" + name, None)
        if handler:
            return handler(given, result, *when)
        # A call without a handler must not concern files in the folder.
        first = re.match(rb"(\d+)", given)
        assert not (first and self.ours(first[1])) or name == "ioctl", f"{name} of {self.open[int(first[1])]} is not understood"
        return None

    # Names

    def do_openat(self, given, result, *when):
        parts = re.match(rb"(\w+), " + STRING + rb", ([\w|]+)", given)
        path, flags = self.path(parts[1], parts[2]), parts[3].split(b"|")
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
        parts = re.match(rb"(\w+), " + STRING + rb", (\w+), " + STRING, given)
        path, to = self.path(parts[1], parts[2]), self.path(parts[3], parts[4])
        if not self.is_ours(path):
            return
        file = self.number(path)
        if b"EXCHANGE" in given:
            other = self.number(to)
            self.rename(path, "\0")
            self.rename(to, path)
            self.rename("\0", to)
            self.names[path], self.names[to] = other, file
        else:
            self.rename(path, to)
        self.add("exchange" if b"EXCHANGE" in given else "rename", *when, path=path, to=to, file=file)

    def rename(self, path, to):
        """Changes the known names of a file or folder, and of the files in it."""
        for name in [name for name in self.names if name == path or name.startswith(path + "/")]:
            self.names[to + name[len(path) :]] = self.names.pop(name)
        for descriptor in self.open.values():
            if descriptor[0].startswith(path + "/"):
                descriptor[0] = to + descriptor[0][len(path) :]

    do_renameat = do_renameat2

    def do_rename(self, given, result, *when):
        first, second = given.split(b", ")
        self.do_renameat2(b"AT_FDCWD, " + first + b", AT_FDCWD, " + second, result, *when)

    def do_linkat(self, given, _result, *when):
        parts = re.match(rb"(\w+), " + STRING + rb", (\w+), " + STRING, given)
        path, to = self.path(parts[1], parts[2]), self.path(parts[3], parts[4])
        if self.is_ours(path):
            self.names[to] = file = self.number(path)
            self.add("link", *when, path=path, to=to, file=file)

    def do_link(self, given, result, *when):
        first, second = given.split(b", ")
        self.do_linkat(b"AT_FDCWD, " + first + b", AT_FDCWD, " + second, result, *when)

    def do_unlinkat(self, given, _result, *when):
        parts = re.match(rb"(\w+), " + STRING, given)
        path = self.path(parts[1], parts[2])
        if self.is_ours(path):
            self.add("unlink", *when, path=path)
            self.names.pop(path, None)

    def do_unlink(self, given, result, *when):
        self.do_unlinkat(b"AT_FDCWD, " + given, result, *when)

    do_rmdir = do_unlink

    def do_mkdirat(self, given, _result, *when):
        parts = re.match(rb"(\w+), " + STRING, given)
        path = self.path(parts[1], parts[2])
        if self.is_ours(path):
            self.add("mkdir", *when, path=path)

    def do_mkdir(self, given, result, *when):
        self.do_mkdirat(b"AT_FDCWD, " + given, result, *when)

    # Bytes

    def writes(self, fd, at, data, *when):
        if self.open.get(fd, [""])[0] == "<stdout>":
            self.add("output", *when, data=data)
        elif self.ours(fd):
            self.add("write", *when, at=at, data=data, **self.ours(fd))

    def do_pwrite64(self, given, result, *when):
        parts = re.match(rb"(\d+), " + STRING + rb", \d+, (\d+)$", given)
        self.writes(int(parts[1]), int(parts[3]), text(parts[2])[:result], *when)

    def do_write(self, given, result, *when):
        parts = re.match(rb"(\d+), " + STRING, given)
        fd = int(parts[1])
        descriptor = self.open.setdefault(fd, ["", 0, 0])
        self.writes(fd, descriptor[2], text(parts[2])[:result], *when)
        descriptor[2] += result

    def do_pwritev(self, given, result, *when):
        parts = re.match(rb"(\d+), \[(.*)\], \d+, (\d+)", given, re.S)
        data = b"".join(text(piece) for piece in PIECE.findall(parts[2]))
        self.writes(int(parts[1]), int(parts[3]), data[:result], *when)

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
        """Is not an event: the call makes nothing durable."""


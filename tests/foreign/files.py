"""The files that programs are let loose on: a Densite database in a journal mode, live or killed."""

import hashlib
import os
import shutil
import signal
import subprocess
import time

from . import content
from .application import Application

MODES = ("wal", "delete", "persist", "truncate")
#: Whether the application is alive, and whether it is in the midst of a transaction.
STATES = ("live, idle", "live, writing", "killed, idle", "killed, writing")
#: Names that stock SQLite looks for beside the database and that no Densite file has.
NAMES_OF_SQLITE = ("-wal", "-journal")


def fingerprint(folder):
    """Of each file its inode, its mode, the time of its last change, and its bytes. Only the name of
    the shared memory: SQLite of any kind is allowed to lock it."""
    found = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        stat = os.lstat(path)
        if name.endswith("-shm"):
            found[name] = "shared memory"
        elif os.path.isfile(path):
            with open(path, "rb") as file:
                found[name] = (stat.st_ino, stat.st_mode, stat.st_mtime_ns, stat.st_size, hashlib.sha256(file.read()).hexdigest())
        else:
            found[name] = "not a file"
    return found


def differences(before, after):
    """What changed, one short text for each file."""
    texts = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if old is None:
            texts.append(f"{name} is new")
        elif new is None:
            texts.append(f"{name} is gone")
        else:
            what = [word for word, a, b in zip(("inode", "mode", "time", "size", "bytes"), old, new) if a != b]
            texts.append(f"{name}: another {', '.join(what)}")
    return texts


def _is_stopped(stat):
    with open(stat, encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0] in "TtZX"


class Files:
    """A database in a folder of its own. `transactions`: how many are committed."""

    def __init__(self, folder, mode, state):
        self.folder, self.mode, self.state = folder, mode, state
        self.path = os.path.join(folder, "app.db")
        self.live, self.writing = state.startswith("live"), state.endswith("writing")
        self.application, self.transactions = None, 0
        self.make()

    def make(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.application, self.transactions = Application(self.path, self.mode), content.COMMITTED
        self.application.do("create")
        for n in range(content.COMMITTED):
            if n == content.COMMITTED // 2:
                self.application.do("checkpoint")
            self.application.transaction(n)
        if self.writing:
            self.application.do("begin", self.transactions)
        self.check_companions()
        if not self.live:
            self.application.end()

    def check_companions(self):
        """The files are what their state says: otherwise this test would test nothing."""
        sizes = {name: os.path.getsize(f"{self.folder}/{name}") for name in os.listdir(self.folder)}
        logs = [size for name, size in sizes.items() if name.endswith(("-wal", "-dwal"))]
        journals = [name for name in sizes if name.endswith("journal")]
        with open(self.path, "rb") as file:
            assert file.read(15) == b"Densite format\r", f"{self.path} is not a Densite file"
        if self.mode == "wal":
            assert len(logs) == 1 and logs[0] > 100_000, sizes
        elif self.writing:
            assert len(journals) == 1 and sizes[journals[0]] > 10_000, sizes
            with open(f"{self.folder}/{journals[0]}", "rb") as file:
                assert file.read(12)[8:] != bytes(4), f"{journals[0]} is not hot"
        else:
            assert len(journals) == (0 if self.mode == "delete" else 1), sizes

    def copy(self, folder):
        """A copy of killed files."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        return os.path.join(folder, "app.db")

    def stop(self):
        """From here on the application writes nothing. Its locks stay."""
        self.application.signal(signal.SIGSTOP)
        # A thread, the background worker's too, first ends the call that it is in.
        tasks = f"/proc/{self.application.process.pid}/task"
        while any(not _is_stopped(f"{tasks}/{task}/stat") for task in os.listdir(tasks)):
            time.sleep(0.001)

    def go_on(self):
        """The application goes on and writes a transaction. Returns what is wrong, or None."""
        self.application.signal(signal.SIGCONT)
        application, n = self.application, self.transactions
        steps = [("commit", 0)] if self.writing else [("begin", n), ("commit", 0)]
        if self.mode == "wal" and n % 8 == 0:
            steps.insert(0 if not self.writing else 1, ("checkpoint", 0))
        self.transactions += 1
        steps.append(("check", self.transactions))
        if self.writing:
            steps.append(("begin", self.transactions))
        for word, number in steps:
            error = application.ask(word, number)
            if error:
                return f"the application's {word}: {error}"
        return None

    def end(self):
        if self.application:
            self.application.end()


def verify(path, transactions, command=None):
    """Densite opens the database and recovers it; then the command checks it. Returns what is wrong,
    or None."""
    try:
        con = content.connect(path)
        try:
            wrong = content.wrong(con, transactions)
        finally:
            con.close()
    except Exception as error:  # pylint: disable=broad-except
        return f"Densite: {type(error).__name__}: {error}"
    if wrong:
        return f"Densite: {wrong}"
    if not command:
        return None
    checked = subprocess.run([command, "check", path], capture_output=True, text=True, check=False)
    if checked.returncode:
        return f"densite check: {checked.returncode}, {checked.stdout} {checked.stderr}"
    return None

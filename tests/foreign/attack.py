"""The folder of an attack, and what attacks ask of it."""

import os
import shutil
import subprocess
import sys

from . import content, files
from .programs import HERE, said


class Attack:
    """The folder of one attack, and what it needs."""

    def __init__(self, options, name):
        self.options, self.folder = options, f"{options.dir}/{name}"
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.path = f"{self.folder}/app.db"

    def stock(self, path, *statements, user=()):
        """Python's sqlite3 alone, in a process of its own: (exit code, what it said)."""
        command = [*user, sys.executable, f"{HERE}/drivers.py", "sqlite3", "statements", path, self.folder, *statements]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        return ran.returncode, said(ran, (self.folder,))

    def killed_files(self, mode, state="killed, writing"):
        return files.Files(self.folder, mode, state)

    def victim(self, *arguments, call=None):
        """Runs a victim. Returns the number of its calls if it was not killed."""
        environment = dict(os.environ)
        if call is not None:
            environment["LD_PRELOAD"] = self.options.kill_at
        ran = subprocess.run([sys.executable, "-m", "foreign.victims", *arguments], env=environment, capture_output=True, text=True, check=False)
        if ran.returncode == -9:
            return None
        assert ran.returncode == 0, ran.stderr
        return int(ran.stdout or 0)

    def plain(self, path, mode, how):
        """A plain database that stock SQLite left when it was killed."""
        self.victim("plain", f"file:{path}", mode, how)

    def state(self, *names):
        """A copy of the folder, in which the next thing is tried."""
        copy = "-".join((self.folder, *names))
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.folder, copy, symlinks=True)
        return copy

    def verify(self, path=None, transactions=content.COMMITTED):
        return files.verify(path or self.path, transactions, self.options.command)


def refused(answer, what):
    """What is wrong if stock SQLite has not refused."""
    code, words = answer
    return [f"{what}: stock SQLite said {words!r}, exit code {code}"] if code == 0 else []


def unchanged(before, folder, what):
    changed = files.differences(before, files.fingerprint(folder))
    return [f"{what}: {'; '.join(changed)}"] if changed else []


def wrong(text, what):
    return [f"{what}: {text}"] if text else []

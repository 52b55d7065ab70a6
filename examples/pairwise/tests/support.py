"""What the tests share."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any, Callable, Iterator, List, Sequence, Tuple

import densite

from .. import schema
from ..client import Client
from ..store import Store, connect

#: How long a test waits for what must happen, in seconds.
SOON = 40.0


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Case(unittest.TestCase):
    """A folder for each test, and no process left behind."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        self.path = str(self.dir / "pairs.db")

    def make(self, samples: int, **settings: int) -> str:
        """A new file of pairs; its path."""
        with contextlib.closing(densite.connect(self.path, isolation_level=None)) as con:
            schema.create(con, schema.Settings(**settings))
            schema.add(con, samples)
        return self.path

    def connection(self) -> Any:
        con = connect(self.path)
        self.addCleanup(con.close)
        return con

    def store(self, lock_seconds: float = 5.0) -> Store:
        store = Store(self.path, lock_seconds)
        self.addCleanup(store.close)
        return store

    def start(self, *arguments: str, before: Sequence[str] = ()) -> subprocess.Popen:
        """A command of the program in a process of its own, behind the words `before`; killed at the end of the test."""
        process = subprocess.Popen(
            [*before, sys.executable, "-m", "pairwise", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.dir
        )
        self.addCleanup(self.end, process)
        return process

    def end(self, process: subprocess.Popen) -> None:
        """kill -9, whatever it does."""
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def serve(self, *options: str) -> Tuple[subprocess.Popen, str]:
        """A coordinator of the file; it and its URL, once it listens."""
        process = self.start("serve", self.path, *(options if "--port" in options else (*options, "--port", "0")))
        line = process.stdout.readline()
        if "http://" not in line:
            self.fail(f"the coordinator did not start: {line}{process.stderr.read()}")
        return process, line.split()[-1]

    def client(self, url: str, patience_seconds: float = SOON) -> Client:
        client = Client(url, patience_seconds)
        self.addCleanup(client.close)
        return client

    def says(self, *arguments: str) -> Tuple[int, str, str]:
        """Runs a command to its end: exit code, standard output and error."""
        done = subprocess.run([sys.executable, "-m", "pairwise", *arguments], capture_output=True, text=True, cwd=self.dir, timeout=SOON, check=False)
        return done.returncode, done.stdout, done.stderr

    def until(self, what: str, ask: Callable[[], Any]) -> Any:
        """Waits until `ask` answers with something true, and returns that."""
        end = time.monotonic() + SOON
        while time.monotonic() < end:
            answer = ask()
            if answer:
                return answer
            time.sleep(0.02)
        return self.fail(f"not within {SOON:g} seconds: {what}")


def end_well(case: Case, processes: List[subprocess.Popen]) -> List[str]:
    """Waits for processes that must end with code 0; what they said."""
    said = []
    for process in processes:
        out, err = process.communicate(timeout=SOON)
        case.assertEqual(process.returncode, 0, f"{process.args}: {out}{err}")
        said.append(out)
    return said


@contextlib.contextmanager
def stopped(process: subprocess.Popen) -> Iterator[None]:
    """Holds a process where it is."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)

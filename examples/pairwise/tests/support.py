"""Shared helpers of the tests."""

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

#: How long a test waits for an expected event, in seconds.
SOON = 40.0


def free_port() -> int:
    """A free port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Case(unittest.TestCase):
    """Each test has its own folder, and its processes are killed at its end."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        self.path = str(self.dir / "pairs.db")

    def make(self, samples: int, **settings: int) -> str:
        """Creates a file of pairs. Returns its path."""
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
        """Starts a command of the program, with the prefix `before`. It is killed at the end of the
        test."""
        process = subprocess.Popen(
            [*before, sys.executable, "-m", "pairwise", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.dir
        )
        self.addCleanup(self.end, process)
        return process

    def end(self, process: subprocess.Popen) -> None:
        """Kills the process with SIGKILL."""
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def serve(self, *options: str) -> Tuple[subprocess.Popen, str]:
        """Starts a coordinator. Returns the process and its URL when it listens."""
        process = self.start("serve", self.path, *(options if "--port" in options else (*options, "--port", "0")))
        line = process.stdout.readline()
        if "http://" not in line:
            self.fail(f"the coordinator did not start: {line}{process.stderr.read()}")
        return process, line.split()[-1]

    def client(self, url: str, patience_seconds: float = SOON) -> Client:
        client = Client(url, patience_seconds)
        self.addCleanup(client.close)
        return client

    def run_command(self, *arguments: str) -> Tuple[int, str, str]:
        """Runs a command to its end. Returns exit code, standard output and standard error."""
        done = subprocess.run([sys.executable, "-m", "pairwise", *arguments], capture_output=True, text=True, cwd=self.dir, timeout=SOON, check=False)
        return done.returncode, done.stdout, done.stderr

    def until(self, what: str, ask: Callable[[], Any]) -> Any:
        """Waits until `ask` returns a true value, and returns that value."""
        end = time.monotonic() + SOON
        while time.monotonic() < end:
            answer = ask()
            if answer:
                return answer
            time.sleep(0.02)
        return self.fail(f"did not happen within {SOON:g} seconds: {what}")


def wait_for_success(case: Case, processes: List[subprocess.Popen]) -> List[str]:
    """Waits for processes, which must end with code 0. Returns their outputs."""
    outputs = []
    for process in processes:
        out, err = process.communicate(timeout=SOON)
        case.assertEqual(process.returncode, 0, f"{process.args}: {out}{err}")
        outputs.append(out)
    return outputs


@contextlib.contextmanager
def stopped(process: subprocess.Popen) -> Iterator[None]:
    """Stops a process for the time of the block."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)

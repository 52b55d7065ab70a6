"""A complete run: a coordinator and workers as separate processes, and a check of the result."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import List, Sequence

from .client import Client
from .errors import Failed
from .page import duration, size
from .verify import verify

#: Time limits in seconds: for an answer of the coordinator, and for the processes to end after the
#: work.
ANSWER_SECONDS = END_SECONDS = 30.0


class Process:
    """A command of this program in a separate process."""

    def __init__(self, *arguments: str) -> None:
        self.name = " ".join(arguments)
        self.process = subprocess.Popen([sys.executable, "-m", __package__ or "pairwise", *arguments], stdout=subprocess.PIPE, text=True)

    def first_line(self) -> str:
        """The first line of its output, or an empty text if it ends without output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def wait(self) -> None:
        """Waits until the process ends.

        Raises:
            Failed: the exit code is not 0, or the process did not end in time.
        """
        try:
            code = self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"`{self.name}` has not ended within {END_SECONDS:g} seconds and was killed; run the command again") from None
        if code != 0:
            raise Failed(f"`{self.name}` ended with code {code}; see its message above")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def coordinator(path: str, *options: str) -> "tuple[Process, str]":
    """Starts a coordinator and waits until it listens.

    Returns:
        the process and its URL.

    Raises:
        Failed: the coordinator did not start.
    """
    process = Process("serve", path, *options)
    line = process.first_line()
    url = line.rpartition(" ")[2]
    if not url.startswith("http://"):
        process.kill()
        raise Failed("the coordinator did not start; see its message above")
    return process, url


def run(path: str, workers: int, serve: Sequence[str] = ()) -> None:
    """Computes all pairs of a file with a number of workers, prints the progress, and verifies the
    result. `serve`: options for the coordinator.

    Raises:
        Failed: a process failed, or the result is wrong.
    """
    began = time.monotonic()
    processes: List[Process] = []
    try:
        served, url = coordinator(path, *serve)
        processes.append(served)
        print(f"status page: {url}", flush=True)
        processes += [Process("work", url, "--name", f"w{number}") for number in range(1, workers + 1)]
        with Client(url, ANSWER_SECONDS) as client:
            _watch(client, processes[1:], served)
        for worker in processes[1:]:
            worker.wait()
        served.process.terminate()
        served.wait()
    finally:
        for process in processes:
            process.kill()
    computed = time.monotonic() - began
    report = verify(path)
    print(
        f"pairs      {report.pairs:,}, each there once; {report.checked:,} computed again, with the same results\n"
        f"time       {duration(computed)} with {workers} workers on {os.cpu_count()} cores: {report.pairs / computed:,.0f} pairs/s\n"
        f"size       {size(report.stored_bytes)} as a Densite file, {size(report.plain_bytes)} as plain SQLite: "
        f"{report.stored_bytes / report.plain_bytes:.2f}",
        flush=True,
    )


def _watch(client: Client, workers: List[Process], served: Process) -> None:
    """Prints a line every two seconds until all pairs are done."""
    next_line = time.monotonic() + 2
    while True:
        if served.process.poll() is not None:
            raise Failed(f"the coordinator ended with code {served.process.returncode}; see its message above")
        now = client.get("/progress")
        if now["finished"] or time.monotonic() >= next_line:
            next_line = time.monotonic() + 2
            print(
                f"{100 * now['done_pairs'] / max(1, now['pairs']):5.1f} %  {now['done_pairs']:,} of {now['pairs']:,} pairs, "
                f"{now['leased_pairs']:,} leased, {now['rate']:,.0f} pairs/s, {duration(now['left_seconds'])} left",
                flush=True,
            )
        if now["finished"]:
            return
        if all(worker.process.poll() is not None for worker in workers):
            raise Failed("all workers have ended, but the work is not done; see their messages above")
        time.sleep(0.1)

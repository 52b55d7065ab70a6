"""The whole of it in one go: a new file, a coordinator and workers as processes of their own, and at the end whether it is right."""

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

#: How long the coordinator may take to answer, and workers and coordinator to end when all is done, in seconds.
ANSWER_SECONDS = END_SECONDS = 30.0


class Process:
    """A command of this program in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        self.name = " ".join(arguments)
        self.process = subprocess.Popen([sys.executable, "-m", __package__ or "pairwise", *arguments], stdout=subprocess.PIPE, text=True)

    def first_line(self) -> str:
        """The first line that it prints, or an empty text if it ends before."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ended_well(self) -> None:
        """Waits for its end.

        Raises:
            Failed: it ended with another code than 0, or not at all.
        """
        try:
            code = self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"`{self.name}` has not ended within {END_SECONDS:g} seconds") from None
        if code != 0:
            raise Failed(f"`{self.name}` ended with code {code}; what it said is above")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def coordinator(path: str, *options: str) -> "tuple[Process, str]":
    """Starts a coordinator.

    Returns:
        it and its URL, once it listens.

    Raises:
        Failed: it does not.
    """
    process = Process("serve", path, *options)
    line = process.first_line()
    url = line.rpartition(" ")[2]
    if not url.startswith("http://"):
        process.kill()
        raise Failed("the coordinator did not start; what it said is above")
    return process, url


def run(path: str, workers: int, serve: Sequence[str] = ()) -> None:
    """Computes all pairs of a file with so many workers, tells how it goes, and verifies the result. `serve`: options for the coordinator.

    Raises:
        Failed: a process ended badly, or the result is not right.
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
            worker.ended_well()
        served.process.terminate()
        served.ended_well()
    finally:
        for process in processes:
            process.kill()
    computed = time.monotonic() - began
    report = verify(path)
    print(
        f"pairs      {report.pairs:,}, each there once; {report.checked:,} computed again and found the same\n"
        f"time       {duration(computed)} with {workers} workers on {os.cpu_count()} cores: {report.pairs / computed:,.0f} pairs/s\n"
        f"size       {size(report.stored_bytes)} as a Densite file, {size(report.plain_bytes)} as plain SQLite: "
        f"{report.stored_bytes / report.plain_bytes:.2f}",
        flush=True,
    )


def _watch(client: Client, workers: List[Process], served: Process) -> None:
    """Prints a line every two seconds, until all is done."""
    next_line = time.monotonic() + 2
    while True:
        if served.process.poll() is not None:
            raise Failed(f"the coordinator ended with code {served.process.returncode}; what it said is above")
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
            raise Failed("all workers have ended and the work is not done; what they said is above")
        time.sleep(0.1)

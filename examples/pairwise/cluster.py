"""A run over several machines: workers with files of their own, in directories of their own, and a
real server of NATS. Any of them is killed at random. At the end the files are compared.

On one machine, the machines are processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from typing import List, Optional

import densite

from . import member, schema
from .errors import Failed
from .store import connect
from .verify import recomputed

#: Limits in seconds: for the server to start, for the whole work, and between two kills.
START_SECONDS, MOST_SECONDS, KILL_SECONDS = 30.0, 900.0, (0.5, 2.5)


class NatsServer:
    """A server of NATS that syncs each message, with its files in `folder`."""

    def __init__(self, program: str, folder: str) -> None:
        self._program, self._folder = program, folder
        self._port, self._monitor = _free_ports(2)
        os.makedirs(folder)
        with open(os.path.join(folder, "nats.conf"), "w", encoding="utf-8") as file:
            file.write(
                f"listen: 127.0.0.1:{self._port}\nhttp: 127.0.0.1:{self._monitor}\n"
                f"jetstream {{ store_dir: {os.path.join(folder, 'store')!r}, sync_interval: always }}\n"
            )
        self.start()

    @property
    def address(self) -> str:
        return f"nats://127.0.0.1:{self._port}/PAIRS"

    @property
    def monitor(self) -> str:
        return f"http://127.0.0.1:{self._monitor}"

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        log = open(os.path.join(self._folder, "nats.log"), "ab")  # noqa: SIM115: the process keeps it
        with log:
            self._process = subprocess.Popen([self._program, "-c", os.path.join(self._folder, "nats.conf")], stdout=log, stderr=log)
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"{self.monitor}/healthz", timeout=1):
                    return
            except OSError:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise Failed(f"{self._program} does not start; see {self._folder}/nats.log") from None
                time.sleep(0.05)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Machine:
    """A worker with a directory of its own."""

    def __init__(self, folder: str, name: str) -> None:
        self.name = name
        self.path = os.path.join(folder, name, "pairs.db")
        self._process: Optional[subprocess.Popen[bytes]] = None

    def start(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-m", __package__ or "pairwise", "member", self.path, "--name", self.name])

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def has_ended(self) -> bool:
        """Whether it has all results.

        Raises:
            Failed: it ended with an error.
        """
        code = None if self._process is None else self._process.poll()
        if code not in (None, 0):
            raise Failed(f"the worker {self.name} ended with code {code}; see its message above")
        return code == 0


def run(folder: str, program: str, settings: schema.Settings, samples: int, machines: int, kills: int, seed: int) -> None:
    """Computes all pairs with a worker on each of these machines, kills `kills` times, and compares
    the files.

    Args:
        folder: a new directory for everything.
        program: the path of nats-server.
        seed: replays who is killed, and after which pauses.

    Raises:
        Failed: a process failed, or a result is wrong.
    """
    if not os.access(program, os.X_OK):
        raise Failed(f"{program} does not exist; `make nats-server` builds it if Go is installed, or give its path with --server")
    os.makedirs(folder)
    server = NatsServer(os.path.abspath(program), os.path.abspath(os.path.join(folder, "nats")))
    members = [Machine(folder, f"m{number}") for number in range(1, machines + 1)]
    try:
        _join_all(members, server, settings, samples)
        for machine in members:
            machine.start()
        _kill_and_wait(members, server, kills, random.Random(seed))
        # The first round sends what still waits in a log, and the second one applies it everywhere.
        for _ in range(2):
            digests = [_settled(machine.path) for machine in members]
    finally:
        for machine in members:
            machine.kill()
        server.kill()
    if len(set(digests)) != 1:
        raise Failed(f"the files differ (--seed {seed}): {dict(zip((m.name for m in members), digests))}")
    pairs = samples * (samples - 1) // 2
    checked = sum(_check(machine.path, pairs) for machine in members)
    print(f"{pairs:,} pairs on each of {machines} machines, each there once, {checked:,} computed again; {kills} kills", flush=True)


def _join_all(members: List[Machine], server: NatsServer, settings: schema.Settings, samples: int) -> None:
    """The first file founds the stream, the others are copies of it."""
    first = members[0]
    for machine in members:
        os.makedirs(os.path.dirname(machine.path))
    with contextlib.closing(densite.connect(first.path, isolation_level=None)) as con:
        schema.create(con, settings)
        con.execute(member.TABLE)
        schema.add(con, samples)
        densite.join(con, server.address, origin=first.name, monitor=server.monitor)
        for machine in members[1:]:
            con.execute("VACUUM INTO ?", (machine.path,))
    for machine in members[1:]:
        with contextlib.closing(densite.connect(machine.path, isolation_level=None)) as con:
            con.execute("PRAGMA journal_mode = WAL")
            densite.join(con, server.address, origin=machine.name, monitor=server.monitor)


def _kill_and_wait(members: List[Machine], server: NatsServer, kills: int, chance: random.Random) -> None:
    began = time.monotonic()
    next_kill = began + chance.uniform(*KILL_SECONDS)
    while not all([machine.has_ended() for machine in members]) or kills > 0:
        if kills > 0 and time.monotonic() >= next_kill:
            kills -= 1
            victim = chance.choice([server, *members])
            victim.kill()
            time.sleep(chance.uniform(0, 0.5))
            victim.start()
            next_kill = time.monotonic() + chance.uniform(*KILL_SECONDS)
        if time.monotonic() - began > MOST_SECONDS:
            raise Failed(f"the work is not done after {MOST_SECONDS:g} seconds; see densite log status of each file")
        time.sleep(0.05)


def _settled(path: str) -> str:
    """A digest of the results and claims of a member that has applied the whole stream."""
    with contextlib.closing(connect(path)) as con:
        end = time.monotonic() + START_SECONDS
        while (status := densite.stream_status(con)) is None or (status.messages_behind, status.rows_to_send) != (0, 0):
            if time.monotonic() > end:
                raise Failed(f"{path} does not reach the end of the stream: {status}")
            time.sleep(0.05)
        digest = hashlib.sha256()
        for table in ("result ORDER BY a, b", "claim ORDER BY batch"):
            for row in con.execute(f"SELECT * FROM {table}"):
                digest.update(repr(row).encode())
        return digest.hexdigest()


def _check(path: str, pairs: int) -> int:
    """Checks the results of a file. Returns how many were computed again."""
    with contextlib.closing(connect(path)) as con:
        found, rejects = con.execute("SELECT (SELECT count(*) FROM result), (SELECT count(*) FROM densite_rejects)").fetchone()
        checked, problems = recomputed(con, 100, random.Random(1))
    if (found, rejects) != (pairs, 0):
        problems.append(f"{found:,} results instead of {pairs:,}, and {rejects:,} rejects")
    damage = densite.check(path)
    if not damage["ok"]:
        problems.append(f"densite check finds damage: {damage['problems']} {damage['integrity_check']}")
    if problems:
        raise Failed(f"{path} is wrong. Problems: " + "; ".join(problems))
    return checked


def _free_ports(count: int) -> List[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [s.getsockname()[1] for s in sockets]

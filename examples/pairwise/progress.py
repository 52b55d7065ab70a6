"""The progress of the work. The queries read batches and workers, never pairs or results."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional

from . import clock

#: The rate is measured over this time.
RATE_SECONDS = 10.0


@dataclass(frozen=True)
class WorkerProgress:
    """One worker."""

    name: str
    #: Batches and pairs that it delivered.
    batches: int
    pairs: int
    #: Pairs on lease now.
    leased_pairs: int
    #: The time until its first lease expires, in seconds; None without a lease.
    lease_seconds: Optional[float]
    #: The time since its last request, in seconds.
    silent_seconds: float


@dataclass(frozen=True)
class Progress:
    """The progress of all work."""

    samples: int
    pairs: int
    done_pairs: int
    leased_pairs: int
    batches: int
    done_batches: int
    #: Batches that were handed out more than once.
    repeated_batches: int
    #: Rows that the table refused; 0 without an error.
    rejects: int
    #: Pairs per second over the last ten seconds, or since the first batch if that is less. When
    #: all is done, over the whole time.
    rate: float
    #: The remaining time at that rate, in seconds; None if it is not known.
    left_seconds: Optional[float]
    #: The time from the first lease until now or the end, in seconds; None before the first lease.
    elapsed_seconds: Optional[float]
    #: The bytes that the file and its logs (SQLite's WAL and Densite's log) take on the disk.
    file_bytes: int
    log_bytes: int
    workers: List[WorkerProgress]

    @property
    def finished(self) -> bool:
        return self.done_pairs == self.pairs

    def to_json(self) -> Dict[str, Any]:
        """The answer to GET /progress."""
        return {**asdict(self), "finished": self.finished}


def progress(con: sqlite3.Connection, path: str) -> Progress:
    """Reads the progress from one state of the file at `path`."""
    con.execute("BEGIN")
    try:
        now = clock.now()
        samples, pairs, done_pairs, started = con.execute("SELECT samples, pairs, done_pairs, started FROM work").fetchone()
        (batches,) = con.execute("SELECT coalesce(max(id), 0) FROM batch").fetchone()
        (open_batches,) = con.execute("SELECT count(*) FROM batch WHERE done IS NULL").fetchone()
        (repeated,) = con.execute("SELECT count(*) FROM batch WHERE tries > 1").fetchone()
        (last_done,) = con.execute("SELECT max(done) FROM batch WHERE done IS NOT NULL").fetchone()
        finished = done_pairs == pairs
        end = last_done if finished and last_done is not None else now
        (recent,) = con.execute("SELECT coalesce(sum(pairs), 0) FROM batch WHERE done > ?", (now - RATE_SECONDS,)).fetchone()
        rejects = 0
        if con.execute("SELECT 1 FROM sqlite_schema WHERE name = 'densite_rejects'").fetchone():
            (rejects,) = con.execute("SELECT count(*) FROM densite_rejects").fetchone()
        workers = _workers(con, now)
    finally:
        con.execute("COMMIT")
    elapsed = None if started is None else max(0.0, end - started)
    rate = 0.0
    if elapsed:
        rate = done_pairs / elapsed if finished else recent / max(0.5, min(RATE_SECONDS, elapsed))
    return Progress(
        samples=samples,
        pairs=pairs,
        done_pairs=done_pairs,
        leased_pairs=sum(worker.leased_pairs for worker in workers),
        batches=batches,
        done_batches=batches - open_batches,
        repeated_batches=repeated,
        rejects=rejects,
        rate=rate,
        left_seconds=0.0 if finished else (pairs - done_pairs) / rate if rate else None,
        elapsed_seconds=elapsed,
        file_bytes=_disk_bytes(path),
        log_bytes=_disk_bytes(path + "-dwal", path + "-shm", *_in(path + "-log")),
        workers=workers,
    )


def _workers(con: sqlite3.Connection, now: float) -> List[WorkerProgress]:
    on_lease = {
        name: (pairs, ends - now)
        for name, pairs, ends in con.execute(
            "SELECT worker, sum(pairs), min(expires) FROM batch WHERE done IS NULL AND expires > ? GROUP BY worker", (now,)
        )
    }
    workers = []
    for name, batches, pairs, last in con.execute("SELECT name, batches, pairs, last FROM worker ORDER BY name"):
        leased, ends = on_lease.get(name, (0, None))
        workers.append(WorkerProgress(name, batches, pairs, leased, ends, max(0.0, now - last)))
    return workers


def _in(folder: str) -> List[str]:
    """The files of a folder, if it exists."""
    return [os.path.join(folder, name) for name in os.listdir(folder)] if os.path.isdir(folder) else []


def _disk_bytes(*names: str) -> int:
    total = 0
    for name in names:
        try:
            total += os.stat(name).st_blocks * 512
        except FileNotFoundError:  # it does not exist, or was just removed
            pass
    return total

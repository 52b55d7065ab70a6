"""Batches of pairs are handed out on lease.

A lease lasts some seconds. A worker that neither delivers nor renews it in that time loses it, and
the next worker that asks gets the batch. Leases are rows of the file, so they survive a restart of
the coordinator.
"""

from __future__ import annotations

import sqlite3
from typing import List, NamedTuple, Optional, Tuple

from . import clock

Pair = Tuple[int, int]


class Lease(NamedTuple):
    """A batch that is leased to a worker."""

    batch: int
    #: How often the batch has been handed out, including this time.
    tries: int
    #: The pairs of the batch without a result.
    pairs: List[Pair]

    @property
    def name(self) -> str:
        """The name of the lease, unique in the file."""
        return f"{self.batch}.{self.tries}"


class Nothing(NamedTuple):
    """No batch can be handed out now."""

    #: Whether all batches are done.
    finished: bool
    #: The time until the next request, in seconds.
    wait: float


# One lookup in the index batch_open finds the last entry that is not in the future: the lease that
# expired last, otherwise the next new batch.
_TAKE = """
UPDATE batch SET worker = :worker, tries = tries + 1, expires = :expires
 WHERE id = (SELECT id FROM batch WHERE done IS NULL AND expires <= :now ORDER BY expires DESC LIMIT 1)
RETURNING id, tries
"""
_MISSING = """
SELECT a, b FROM pair AS p
 WHERE batch = ? AND NOT EXISTS (SELECT 1 FROM temp.result_in AS r WHERE r.a = p.a AND r.b = p.b)
"""
_SEEN = """
INSERT INTO worker(name, first, last) VALUES (:worker, :now, :now) ON CONFLICT (name) DO UPDATE SET last = :now
"""


def take(con: sqlite3.Connection, worker: str, seconds: float) -> "Lease | Nothing":
    """Hands out a batch to `worker` for so many seconds. Pairs that have a result are not handed
    out again."""
    while True:
        con.execute("BEGIN IMMEDIATE")
        # The lease begins now, after any wait for the write lock.
        now = clock.now()
        con.execute(_SEEN, {"worker": worker, "now": now})
        con.execute("UPDATE work SET started = ? WHERE started IS NULL", (now,))
        taken = con.execute(_TAKE, {"worker": worker, "now": now, "expires": now + seconds}).fetchall()
        con.execute("COMMIT")
        if not taken:
            return _nothing(con, now)
        ((batch, tries),) = taken
        pairs = missing(con, batch)
        if pairs:
            return Lease(batch, tries, pairs)
        # All results were stored, but a process ended before the batch was noted as done.
        note_if_done(con, batch, None)


def _nothing(con: sqlite3.Connection, now: float) -> Nothing:
    (next_end,) = con.execute("SELECT min(expires) FROM batch WHERE done IS NULL").fetchone()
    if next_end is None:
        return Nothing(True, 0.0)
    return Nothing(False, min(1.0, max(0.05, next_end - now)))


def missing(con: sqlite3.Connection, batch: int) -> List[Pair]:
    """The pairs of a batch without a result in the table or in the log."""
    return con.execute(_MISSING, (batch,)).fetchall()


def renew(con: sqlite3.Connection, lease: Tuple[int, int], worker: str, seconds: float) -> Optional[str]:
    """Extends a lease to so many seconds from now, unless another worker has the batch.

    Returns:
        None, or a sentence that says why the lease cannot be renewed.
    """
    batch, tries = lease
    con.execute("BEGIN IMMEDIATE")
    now = clock.now()
    renewed = con.execute(
        "UPDATE batch SET expires = ? WHERE id = ? AND tries = ? AND worker = ? AND done IS NULL", (now + seconds, batch, tries, worker)
    ).rowcount
    if renewed:
        con.execute(_SEEN, {"worker": worker, "now": now})
    con.execute("COMMIT")
    return None if renewed else why_not(con, lease, worker)


def why_not(con: sqlite3.Connection, lease: Tuple[int, int], worker: str) -> Optional[str]:
    """A sentence that says why a worker does not hold a lease, or None if it does. An expired lease
    is held until another worker gets the batch."""
    batch, tries = lease
    row = con.execute("SELECT tries, worker, done FROM batch WHERE id = ?", (batch,)).fetchone()
    if row is None:
        return f"there is no lease {batch}.{tries}: there is no batch {batch}"
    now_tries, now_worker, done = row
    if done is not None:
        return f"batch {batch} of lease {batch}.{tries} is done"
    if tries > now_tries:
        return f"there is no lease {batch}.{tries}: batch {batch} was handed out {now_tries} times"
    if tries < now_tries:
        return f"lease {batch}.{tries} expired, and {now_worker} has the batch now"
    return None if worker == now_worker else f"lease {batch}.{tries} belongs to {now_worker}"


def note_if_done(con: sqlite3.Connection, batch: int, worker: Optional[str]) -> bool:
    """Notes a batch as done, once, if it has all results. `worker` gets the credit.

    This transaction follows the one that stored the results. If the process ends in between, the
    results are stored, and the next lease of the batch has no pairs.
    """
    if missing(con, batch):
        return False
    now = clock.now()
    con.execute("BEGIN IMMEDIATE")
    noted = con.execute("UPDATE batch SET done = ? WHERE id = ? AND done IS NULL RETURNING pairs", (now, batch)).fetchall()
    for (pairs,) in noted:
        con.execute("UPDATE work SET done_pairs = done_pairs + ?", (pairs,))
        if worker is not None:
            con.execute(_SEEN, {"worker": worker, "now": now})
            con.execute("UPDATE worker SET batches = batches + 1, pairs = pairs + ? WHERE name = ?", (pairs, worker))
    con.execute("COMMIT")
    return True


def recover(con: sqlite3.Connection) -> int:
    """Notes batches whose results were stored, but which were not noted as done when the last
    coordinator ended. Checks only batches on lease.

    Returns:
        the number of these batches.
    """
    out = con.execute("SELECT id, worker FROM batch WHERE done IS NULL AND expires > 0").fetchall()
    return sum(note_if_done(con, batch, worker) for batch, worker in out)

"""Work going out: batches of pairs on lease.

A batch is handed out for some seconds. Who has not delivered by then, and has not asked for more time, has lost it, and the next who asks gets it.
Leases are rows of the file: a coordinator that starts again knows them.
"""

from __future__ import annotations

import sqlite3
from typing import List, NamedTuple, Optional, Tuple

from . import clock

Pair = Tuple[int, int]


class Lease(NamedTuple):
    """A batch in a worker's hands."""

    batch: int
    #: How often the batch has been handed out, this time included.
    tries: int
    #: What is still to be computed of it.
    pairs: List[Pair]

    @property
    def name(self) -> str:
        """What the worker calls it: unique in the life of the file."""
        return f"{self.batch}.{self.tries}"


class Nothing(NamedTuple):
    """There is no batch to be had now."""

    #: Whether there never will be one: all is done.
    finished: bool
    #: When to ask again, in seconds.
    wait: float


# One look into the index batch_open, at the last entry that is not later than now: the lease that ran out last, else the next batch that is new.
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
    """Hands out a batch to `worker` for so many seconds. What is there of its results already is not handed out again."""
    while True:
        con.execute("BEGIN IMMEDIATE")
        now = clock.now()  # a lease begins when it is had, however long others were at the file
        con.execute(_SEEN, {"worker": worker, "now": now})
        con.execute("UPDATE work SET started = ? WHERE started IS NULL", (now,))
        found = con.execute(_TAKE, {"worker": worker, "now": now, "expires": now + seconds}).fetchall()
        con.execute("COMMIT")
        if not found:
            return _nothing(con, now)
        ((batch, tries),) = found
        pairs = missing(con, batch)
        if pairs:
            return Lease(batch, tries, pairs)
        # Its worker delivered, and then somebody died before that was noted.
        note_if_done(con, batch, None)


def _nothing(con: sqlite3.Connection, now: float) -> Nothing:
    (next_end,) = con.execute("SELECT min(expires) FROM batch WHERE done IS NULL").fetchone()
    if next_end is None:
        return Nothing(True, 0.0)
    return Nothing(False, min(1.0, max(0.05, next_end - now)))


def missing(con: sqlite3.Connection, batch: int) -> List[Pair]:
    """The pairs of a batch that have no result, neither in the table nor in the log."""
    return con.execute(_MISSING, (batch,)).fetchall()


def renew(con: sqlite3.Connection, lease: Tuple[int, int], worker: str, seconds: float) -> Optional[str]:
    """Gives a lease so many seconds from now on, unless someone else has got the batch meanwhile.

    Returns:
        None, or a sentence that says why the lease is no longer one.
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
    """Says why a worker does not hold a lease; None if it does (though it may have run out, if nobody else has asked for the batch)."""
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
        return f"lease {batch}.{tries} ran out, and {now_worker} has the batch now"
    return None if worker == now_worker else f"lease {batch}.{tries} is {now_worker}'s"


def note_if_done(con: sqlite3.Connection, batch: int, worker: Optional[str]) -> bool:
    """Notes a batch as done if all its results are there, once; `worker` gets the credit.

    This is a transaction of its own, behind the one that delivered: whatever happens in between, the results are there, and the next who is
    handed the batch finds nothing to do.
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


def settle(con: sqlite3.Connection) -> int:
    """Notes what was delivered and not noted when the last coordinator ended; looks at batches on lease only.

    Returns:
        how many batches that were.
    """
    out = con.execute("SELECT id, worker FROM batch WHERE done IS NULL AND expires > 0").fetchall()
    return sum(note_if_done(con, batch, worker) for batch, worker in out)

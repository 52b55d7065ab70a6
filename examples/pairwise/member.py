"""A worker without a coordinator: its file is a member of a stream (docs/guides/cluster.md).

Each worker has a file of its own with all samples. It claims a batch by a row of ``claim``, which
goes to all members in one order: the first claim of a batch counts on each of them. A worker that
dies leaves claims without results. So when all batches are claimed, the workers take claimed ones
that stay without results. A pair that is computed twice counts once: ``result`` keeps the first row.
"""

from __future__ import annotations

import random
import sqlite3
import time
from typing import Callable, Dict, List

import densite

from .dtw import distance
from .series import unpacked

#: Who computes a batch: its first claim.
TABLE = "CREATE TABLE claim(batch INTEGER PRIMARY KEY, worker TEXT NOT NULL) STRICT"
#: How long a claimed batch can stay without new results before another worker takes it, in seconds.
PATIENCE_SECONDS = 3.0
#: How often a worker looks for rows of the others, in seconds.
_POLL_SECONDS = 0.1

_FREE = "SELECT id FROM batch WHERE id NOT IN (SELECT batch FROM claim) ORDER BY id"
_OPEN = """
SELECT batch, count(*) FROM pair AS p
 WHERE NOT EXISTS (SELECT 1 FROM result AS r WHERE r.a = p.a AND r.b = p.b) GROUP BY batch ORDER BY batch
"""
# Also rows of this member that wait in its log.
_MISSING = """
SELECT a, b FROM pair AS p
 WHERE batch = ? AND NOT EXISTS (SELECT 1 FROM temp.result_in AS r WHERE r.a = p.a AND r.b = p.b)
"""


def work(con: sqlite3.Connection, name: str, told: Callable[[str], None]) -> int:
    """Works until the file has all results.

    Args:
        con: a connection to a file of pairs that is a member of a stream.
        name: the name in claims.
        told: gets a line for each stage.

    Returns:
        the number of pairs that this worker computed.

    Raises:
        sqlite3.OperationalError: the member has stopped, or its file cannot be used.
    """
    con.execute("CREATE VIRTUAL TABLE temp.claim_in USING densite_ingest(claim, on_conflict=ignore)")
    (window,) = con.execute("SELECT window FROM work").fetchone()
    # A worker that was killed and started again goes on with what it had claimed.
    mine = [batch for (batch,) in con.execute("SELECT batch FROM claim WHERE worker = ?", (name,))]
    computed = sum(_compute(con, batch, window) for batch in mine)
    chance = random.Random(name)
    while free := [batch for (batch,) in con.execute(_FREE)]:
        batch = chance.choice(free)
        con.execute("INSERT INTO temp.claim_in(batch, worker) VALUES (?, ?)", (batch, name))
        _applied(con)
        if con.execute("SELECT worker FROM claim WHERE batch = ?", (batch,)).fetchone() == (name,):
            computed += _compute(con, batch, window)
    told("all batches are claimed")
    before: List[object] = []
    since = time.monotonic()
    while left := con.execute(_OPEN).fetchall():
        if left != before:
            before, since = left, time.monotonic()
        elif time.monotonic() - since > PATIENCE_SECONDS:
            computed += _compute(con, chance.choice(left)[0], window)
            since = time.monotonic()
        time.sleep(_POLL_SECONDS)
    return computed


def _compute(con: sqlite3.Connection, batch: int, window: int) -> int:
    """Computes and stores the pairs of a batch that have no result here."""
    pairs = con.execute(_MISSING, (batch,)).fetchall()
    wanted = sorted({number for pair in pairs for number in pair})
    known: Dict[int, List[int]] = {}
    for number in wanted:
        known[number] = unpacked(con.execute("SELECT series FROM sample WHERE id = ?", (number,)).fetchone()[0])
    rows = [(a, b, distance(known[a], known[b], window)) for a, b in pairs]
    if rows:
        densite.insert(con, "result_in", rows, schema="temp")
    return len(rows)


def _applied(con: sqlite3.Connection) -> None:
    """Waits until the rows of this connection have their place in the order of the stream, also
    while the server is away."""
    while not con.execute("SELECT densite_wait(densite_last_seq(), 0.25) >= densite_last_seq()").fetchone()[0]:
        pass

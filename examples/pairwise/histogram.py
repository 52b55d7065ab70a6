"""The distribution of the distances. The database counts them, at most every two seconds."""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import List, NamedTuple, Optional

#: The approximate number of bars.
BARS = 48

_COUNT = """
SELECT CAST(r.distance / :width AS INTEGER), x.kind = y.kind, count(*)
  FROM result AS r JOIN sample AS x ON x.id = r.a JOIN sample AS y ON y.id = r.b
 GROUP BY 1, 2
"""


class Counts(NamedTuple):
    """A histogram. Bar i counts the distances from ``i * width`` to ``(i + 1) * width``, in
    standard deviations."""

    width: float
    #: Pairs of two samples of the same kind, by bar.
    same: List[int]
    #: Pairs of different kinds, by bar.
    different: List[int]


def count(con: sqlite3.Connection) -> Counts:
    """Counts the distances in the table. Reads the whole table."""
    (largest,) = con.execute("SELECT max(distance) FROM result").fetchone()
    width = _round_up((largest or 1.0) / BARS)
    bars = int((largest or 0.0) / width) + 1
    counts = Counts(width, [0] * bars, [0] * bars)
    for bar, alike, pairs in con.execute(_COUNT, {"width": width}):
        # A larger distance can have been stored between the two queries.
        (counts.same if alike else counts.different)[min(bar, bars - 1)] += pairs
    return counts


def _round_up(width: float) -> float:
    """The smallest of 1, 2, 2.5, 5, 10 times a power of ten that is not less than `width`."""
    power = 1e-9
    while power * 10 < width:
        power *= 10
    return next(power * step for step in (1, 2, 2.5, 5, 10) if power * step >= width)


class Cached:
    """The counts. They are counted again after two seconds, and at least 20 times the time that
    counting takes. So counting takes at most 5 % of one core."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Optional[Counts] = None
        self._next = 0.0

    def get(self, con: sqlite3.Connection) -> Optional[Counts]:
        """The newest counts, or None while another thread counts for the first time."""
        if time.monotonic() >= self._next and self._lock.acquire(blocking=False):
            try:
                began = time.monotonic()
                self._counts = count(con)
                ended = time.monotonic()
                self._next = ended + max(2.0, 20 * (ended - began))
            finally:
                self._lock.release()
        return self._counts

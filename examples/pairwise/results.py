"""Distances coming in.

A delivery is judged as a whole, put into the log in one transaction, and acknowledged when that is durable. A pair that has a distance keeps it: a
delivery that comes twice, or from a worker whose lease ran out, changes nothing and harms nothing.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any, List, NamedTuple, Optional, Set, Tuple

import densite

from .errors import Refused
from .leases import Pair, note_if_done, why_not

#: Results in one delivery, at most.
MOST = 100_000
_LARGEST = 1e300

Result = Tuple[int, int, float]


class Receipt(NamedTuple):
    """What became of a delivery."""

    #: How many results it had. All of them are durable.
    taken: int
    #: Whether its batch is done by it.
    done: bool
    #: What was odd about it, though it was taken.
    note: Optional[str]


def deliver(con: sqlite3.Connection, lease: Tuple[int, int], worker: str, results: Any) -> Receipt:
    """Takes the results of a lease, all of them or none.

    Returns:
        a receipt, once they are durable.

    Raises:
        Refused: something is wrong with one of them; names which and what.
        sqlite3.OperationalError: the disk is full, the file is locked... They may be delivered again, whether they were taken or not.
    """
    batch = lease[0]
    good = _judged(con, batch, results)
    note = why_not(con, lease, worker)
    # A transaction of its own: when it returns, they are durable in the log. See docs/guides/ingest.md.
    densite.insert(con, "result_in", good, schema="temp")
    return Receipt(len(good), note_if_done(con, batch, worker), note)


def _judged(con: sqlite3.Connection, batch: int, results: Any) -> List[Result]:
    if not isinstance(results, list) or not 1 <= len(results) <= MOST:
        raise Refused(f"results must be a list of 1 to {MOST:,} triples [a, b, distance]")
    # A batch that is not known is judged by the samples alone: every a < b of them is a pair.
    of_batch = set(con.execute("SELECT a, b FROM pair WHERE batch = ?", (batch,)))
    samples: Set[int] = set() if of_batch else {number for (number,) in con.execute("SELECT id FROM sample")}
    seen: Set[Pair] = set()
    good: List[Result] = []
    for number, result in enumerate(results):
        problem = _problem(result)
        if problem is None:
            a, b, value = result
            if (a, b) in seen:
                problem = "the pair is there twice"
            elif of_batch:
                problem = None if (a, b) in of_batch else f"batch {batch} has no such pair"
            else:
                problem = next((f"there is no sample {n}" for n in (a, b) if n not in samples), None)
        if problem is not None:
            raise Refused(f"result {number} (from 0) of the delivery, {_short(result)}: {problem}; nothing of the delivery was taken")
        seen.add((a, b))
        good.append((a, b, float(value)))
    return good


def _problem(result: Any) -> Optional[str]:
    """What is wrong with a result by itself."""
    if not isinstance(result, list) or len(result) != 3:
        return "it is no triple [a, b, distance]"
    a, b, value = result
    if type(a) is not int or type(b) is not int:
        return "a and b must be numbers of samples"
    if a >= b:
        return "a must be less than b"
    if type(value) not in (int, float):
        return "the distance is not a number"
    if not 0 <= value <= _LARGEST:
        return "the distance must be finite and not negative"
    return None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."

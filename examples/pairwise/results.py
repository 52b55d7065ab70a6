"""Stores the distances that workers deliver.

A delivery is checked as a whole, appended to the log in one transaction, and acknowledged when that
is durable. A pair with a distance keeps it. So a second delivery, or one from a worker whose lease
expired, changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any, List, NamedTuple, Optional, Set, Tuple

import densite

from .errors import Refused
from .leases import Pair, note_if_done, why_not

#: The largest number of results in one delivery.
MOST = 100_000
_LARGEST = 1e300

Result = Tuple[int, int, float]


class Receipt(NamedTuple):
    """The result of a delivery."""

    #: The number of its results. All of them are durable.
    taken: int
    #: Whether the batch is done.
    done: bool
    #: A remark on the lease, or None.
    note: Optional[str]


def deliver(con: sqlite3.Connection, lease: Tuple[int, int], worker: str, results: Any) -> Receipt:
    """Stores the results of a lease, all or none.

    Returns:
        a receipt, when the results are durable.

    Raises:
        Refused: a result is wrong. The message names the result and the reason.
        sqlite3.OperationalError: for example, the disk is full or the file is locked. The worker
            can deliver the results again, whether they were stored or not.
    """
    batch = lease[0]
    good = _checked(con, batch, results)
    note = why_not(con, lease, worker)
    # One transaction. When it returns, the results are durable in the log. See
    # docs/guides/ingest.md.
    densite.insert(con, "result_in", good, schema="temp")
    return Receipt(len(good), note_if_done(con, batch, worker), note)


def _checked(con: sqlite3.Connection, batch: int, results: Any) -> List[Result]:
    if not isinstance(results, list) or not 1 <= len(results) <= MOST:
        raise Refused(f"results must be a list of 1 to {MOST:,} triples [a, b, distance]")
    # For an unknown batch, every pair of existing samples with a < b is accepted.
    of_batch = set(con.execute("SELECT a, b FROM pair WHERE batch = ?", (batch,)))
    samples: Set[int] = set() if of_batch else {number for (number,) in con.execute("SELECT id FROM sample")}
    seen: Set[Pair] = set()
    good: List[Result] = []
    for number, result in enumerate(results):
        problem = _problem(result)
        if problem is None:
            a, b, value = result
            if (a, b) in seen:
                problem = "the delivery has the pair twice"
            elif of_batch:
                problem = None if (a, b) in of_batch else f"batch {batch} has no such pair"
            else:
                problem = next((f"sample {n} does not exist" for n in (a, b) if n not in samples), None)
        if problem is not None:
            raise Refused(f"result {number} (from 0) of the delivery, {_short(result)}: {problem}; no result of the delivery was stored")
        seen.add((a, b))
        good.append((a, b, float(value)))
    return good


def _problem(result: Any) -> Optional[str]:
    """What is wrong with a single result, or None."""
    if not isinstance(result, list) or len(result) != 3:
        return "it must be a triple [a, b, distance]"
    a, b, value = result
    if type(a) is not int or type(b) is not int:
        return "a and b must be numbers of samples"
    if a >= b:
        return "a must be less than b"
    if type(value) not in (int, float):
        return "the distance must be a number"
    if not 0 <= value <= _LARGEST:
        return "the distance must be finite and not negative"
    return None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."

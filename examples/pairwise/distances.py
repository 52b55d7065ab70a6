"""Bulk queries: the distances between two sets of samples."""

from __future__ import annotations

import sqlite3
from array import array
from typing import List, Set

import densite

from .errors import Refused

#: The largest number of pairs in a query. The pairs are in memory; the answer is streamed.
MOST = 2_000_000

_BETWEEN = "SELECT k.a, k.b, r.distance FROM keys AS k LEFT JOIN temp.result_in AS r ON r.a = k.a AND r.b = k.b"


def samples_of(con: sqlite3.Connection, text: str) -> List[int]:
    """Parses a set of samples: numbers, ranges and kinds, as in ``1-50,77,sine``.

    Returns:
        the numbers of the samples in order, each once.

    Raises:
        Refused: the set is empty, or a sample or kind does not exist.
    """
    (most,) = con.execute("SELECT samples FROM work").fetchone()
    numbers: Set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        low, dash, high = part.partition("-")
        if all(end.isascii() and end.isdigit() and len(end) < 19 for end in (low, high if dash else low)):
            first, last = int(low), int(high if dash else low)
            if not 1 <= first <= last <= most:
                raise Refused(f"samples {part}: the file has samples 1 to {most}; give some of these", 404)
            numbers.update(range(first, last + 1))
            continue
        of_kind = con.execute("SELECT id FROM sample WHERE kind = ?", (part,)).fetchall()
        if not of_kind:
            kinds = ", ".join(kind for (kind,) in con.execute("SELECT DISTINCT kind FROM sample ORDER BY kind"))
            raise Refused(f"samples {part!r}: give a number, a range such as 1-50, or a kind ({kinds})", 404)
        numbers.update(number for (number,) in of_kind)
    if not numbers:
        raise Refused("the set of samples is empty; give samples, for example 1-50,77,sine")
    return sorted(numbers)


def check(left: List[int], right: List[int]) -> None:
    """Raises Refused if two sets have more than ``MOST`` pairs."""
    if len(left) * len(right) > MOST:
        raise Refused(f"{len(left)} times {len(right)} samples are more than {MOST:,} pairs; ask for fewer samples", 413)


def between(con: sqlite3.Connection, left: List[int], right: List[int]) -> densite.Result:
    """The distances of all pairs of a sample of one set and a different sample of the other.

    Returns:
        rows (a, b, distance) in order, with a < b, each pair once. The distance is None if it is
        not known yet. Distances that are only in the log are included. The result is streamed, and
        can also be read as Arrow or NumPy data.
    """
    pairs = {(x, y) if x < y else (y, x) for x in left for y in right if x != y}
    keys = {"a": array("q", (a for a, _ in pairs)), "b": array("q", (b for _, b in pairs))}
    return densite.query(con, _BETWEEN, keys=keys)

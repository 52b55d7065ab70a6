"""What is asked in bulk: the distances between two sets of samples."""

from __future__ import annotations

import sqlite3
from array import array
from typing import List, Set

import densite

from .errors import Refused

#: Pairs in one question, at most. They are kept in memory; the answer is streamed.
MOST = 2_000_000

_BETWEEN = "SELECT k.a, k.b, r.distance FROM keys AS k LEFT JOIN temp.result_in AS r ON r.a = k.a AND r.b = k.b"


def samples_of(con: sqlite3.Connection, text: str) -> List[int]:
    """The samples that a text names: numbers, ranges of them and kinds, as in ``1-50,77,sine``.

    Returns:
        their numbers in order, each once.

    Raises:
        Refused: it names none, or one that there is not.
    """
    (most,) = con.execute("SELECT samples FROM work").fetchone()
    found: Set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        low, dash, high = part.partition("-")
        if all(number.isascii() and number.isdigit() and len(number) < 19 for number in (low, high if dash else low)):
            first, last = int(low), int(high if dash else low)
            if not 1 <= first <= last <= most:
                raise Refused(f"samples {part}: there are samples 1 to {most}", 404)
            found.update(range(first, last + 1))
            continue
        of_kind = con.execute("SELECT id FROM sample WHERE kind = ?", (part,)).fetchall()
        if not of_kind:
            kinds = ", ".join(kind for (kind,) in con.execute("SELECT DISTINCT kind FROM sample ORDER BY kind"))
            raise Refused(f"samples {part!r}: neither a number, nor a range as 1-50, nor a kind ({kinds})", 404)
        found.update(number for (number,) in of_kind)
    if not found:
        raise Refused("no samples are named; name some as in 1-50,77,sine")
    return sorted(found)


def check(left: List[int], right: List[int]) -> None:
    """Refuses two sets with more than ``MOST`` pairs."""
    if len(left) * len(right) > MOST:
        raise Refused(f"{len(left)} times {len(right)} samples are more than {MOST:,} pairs; ask for fewer at once", 413)


def between(con: sqlite3.Connection, left: List[int], right: List[int]) -> densite.Result:
    """The distances of all pairs of a sample of one set and a different one of the other.

    Returns:
        rows (a, b, distance) in order, a < b, each pair once; the distance is None where it is not known yet. Rows that are still in the log are
        among them. It is read as a stream, and is Arrow or NumPy too.
    """
    pairs = {(x, y) if x < y else (y, x) for x in left for y in right if x != y}
    keys = {"a": array("q", (a for a, _ in pairs)), "b": array("q", (b for _, b in pairs))}
    return densite.query(con, _BETWEEN, keys=keys)

"""Checks a finished file: every pair is there once, no row was refused, and some distances are
computed again by another function."""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
from typing import Dict, List, NamedTuple, Sequence, Tuple

import densite

from .errors import Failed
from .series import generate
from .store import connect


class Report(NamedTuple):
    """The figures of a correct file."""

    pairs: int
    #: The number of pairs whose distances were computed again.
    checked: int
    #: The size of the file, and of the same database as a plain SQLite file, in bytes.
    stored_bytes: int
    plain_bytes: int


def textbook(x: Sequence[int], y: Sequence[int], window: int) -> float:
    """The distance of :func:`.dtw.distance`, computed slowly and directly by its definition."""
    window = max(window, abs(len(x) - len(y)))
    cost: Dict[Tuple[int, int], int] = {}
    for i in range(len(x)):
        for j in range(max(0, i - window), min(len(y), i + window + 1)):
            before = [cost[cell] for cell in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if cell in cost]
            cost[i, j] = abs(x[i] - y[j]) + min(before, default=0)
    return cost[len(x) - 1, len(y) - 1] / 1000


def verify(path: str, check: int = 300, seed: int = 1) -> Report:
    """Checks a file of pairs that no coordinator has open.

    Args:
        check: the number of pairs (at most all) to compute again, from series that are generated
            again. `seed` chooses the pairs.

    Raises:
        Failed: something is wrong. The message lists all problems.
    """
    con = connect(path)
    try:
        con.execute("SELECT densite_wait()").fetchone()
        problems = _counted(con)
        checked, wrong = recomputed(con, check, random.Random(seed))
        problems += wrong
        (pairs,) = con.execute("SELECT count(*) FROM result").fetchone()
    finally:
        con.close()
    damage = densite.check(path)
    if not damage["ok"]:
        problems.append(f"densite check finds damage: {damage['problems']} {damage['integrity_check']}")
    stored, plain = _sizes(path, pairs, problems)
    if problems:
        raise Failed(f"{path} is wrong; make it again. Problems: " + "; ".join(problems))
    return Report(pairs, checked, stored, plain)


def _counted(con: sqlite3.Connection) -> List[str]:
    """The problems with the numbers of rows."""

    def number(sql: str) -> int:
        return int(con.execute(sql).fetchone()[0])

    samples = number("SELECT count(*) FROM sample")
    pairs = samples * (samples - 1) // 2
    # (a, b) is the primary key. If all rows are pairs, and there are as many as pairs, each pair is
    # there once.
    expectations = [
        ("pairs allocated", number("SELECT count(*) FROM pair"), pairs),
        ("pairs noted as done", number("SELECT done_pairs FROM work"), pairs),
        ("batches not done", number("SELECT count(*) FROM batch WHERE done IS NULL"), 0),
        ("results", number("SELECT count(*) FROM result"), pairs),
        ("results that are not a pair", number("SELECT count(*) FROM result WHERE NOT (1 <= a AND a < b AND b <= (SELECT samples FROM work))"), 0),
        ("rows only in the log", number("SELECT count(*) FROM temp.result_in") - number("SELECT count(*) FROM result"), 0),
    ]
    if con.execute("SELECT 1 FROM sqlite_schema WHERE name = 'densite_rejects'").fetchone():
        expectations.append(("rows that the table refused", number("SELECT count(*) FROM densite_rejects"), 0))
    return [f"{what}: {actual:,} instead of {expected:,}" for what, actual, expected in expectations if actual != expected]


def recomputed(con: sqlite3.Connection, check: int, chance: random.Random) -> Tuple[int, List[str]]:
    """Computes some pairs again. Returns their number and the problems."""
    seed, length, window, samples = con.execute("SELECT seed, length, window, samples FROM work").fetchone()
    every = [(a, b) for b in range(2, samples + 1) for a in range(1, b)]
    chosen = sorted(chance.sample(every, min(check, len(every))))
    wrong = []
    rows = densite.query(
        con, "SELECT k.a, k.b, r.distance FROM keys AS k LEFT JOIN result AS r USING (a, b)", keys=chosen, columns=("a", "b")
    ).fetchall()
    for a, b, stored in rows:
        computed = textbook(generate(a, length, seed).values, generate(b, length, seed).values, window)
        if stored != computed:
            wrong.append(f"pair ({a}, {b}) has the distance {stored} instead of {computed}")
    if len(rows) != len(chosen):
        wrong.append(f"{len(chosen)} pairs were queried, but {len(rows)} were returned")
    return len(rows), wrong


def _sizes(path: str, pairs: int, problems: List[str]) -> Tuple[int, int]:
    """The size of the file and of its decompressed plain file, in bytes. Checks that plain SQLite
    reads all results in the latter."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder:
        plain = os.path.join(folder, "plain.db")
        densite.decompress(path, plain)
        con = sqlite3.connect(plain)
        (rows,) = con.execute("SELECT count(*) FROM result").fetchone()
        con.close()
        if rows != pairs:
            problems.append(f"the decompressed file has {rows:,} results instead of {pairs:,}")
        return os.stat(path).st_size, os.stat(plain).st_size

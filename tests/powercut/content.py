"""The content of the databases, and the transactions, which depend only on a seed and a number."""

import hashlib
import random
import sqlite3

import densite

SCHEMA = """
CREATE TABLE t(id INTEGER PRIMARY KEY, n INT, w INT, pad TEXT);
CREATE INDEX t_w ON t(w);
"""
#: Reads the whole content in a fixed order.
ALL = "SELECT id, n, w, pad FROM t ORDER BY id"


def connect(path):
    densite.attach()
    return sqlite3.connect(f"file:{path}?vfs=densite", uri=True, isolation_level=None, timeout=20)


def transaction(seed, n, into="t"):
    """The statements of a transaction. They change rows by key, as an ingest table requires."""
    r = random.Random(f"{seed} {n}")
    rows = r.choice([1, 1, 3, 20, 20, 300 if r.random() < 0.3 else 5])
    statements = []
    for i in range(rows):
        pad = r.choice(["a", "bc", "xyzä"]) * r.choice([1, 5, 40, 40, 400 if rows < 30 else 2])
        key = r.randrange(1 << 40) if r.random() < 0.5 else n * 1000 + i
        statements.append((f"INSERT OR REPLACE INTO {into} VALUES (?, ?, ?, ?)", (key, n, r.randrange(1000), pad)))
    for _ in range(r.choice([0, 0, 2, 10])):
        old = r.randrange(max(1, n - 12), n + 1) * 1000 + r.randrange(20)
        statements.append(r.choice([(f"DELETE FROM {into} WHERE id = ?", (old,)), (f"UPDATE {into} SET w = -w - 1 WHERE id = ?", (old,))]))
    return statements


def run(con, seed, n, into="t", in_bulk=False):
    """Runs a transaction. `in_bulk`: inserts its rows with densite.insert."""
    statements = transaction(seed, n, into)
    con.execute("BEGIN")
    if in_bulk:
        rows = [values for statement, values in statements if statement.startswith("INSERT")]
        densite.insert(con, into, rows, on_conflict="replace")
        statements = statements[len(rows) :]
    for statement, values in statements:
        con.execute(statement, values)
    con.execute("COMMIT")


def script(seed, n):
    """The statements of a transaction as SQL text."""
    literal = lambda value: str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"  # noqa: E731
    lines = []
    for statement, values in transaction(seed, n):
        pieces = statement.split("?")
        lines.append("".join(piece + literal(value) for piece, value in zip(pieces, values, strict=False)) + pieces[-1])
    return "BEGIN;\n" + "".join(line + ";\n" for line in lines) + "COMMIT;\n"


def inserted(seed, n):
    """The rows of a transaction that only inserts. No other transaction has their keys."""
    r = random.Random(f"rows {seed} {n}")
    return [(1 << 50 | n << 20 | i, n, i, "row" * r.randrange(200)) for i in range(r.choice([1, 1, 4, 50]))]


def summary(con):
    """A hash of the whole table."""
    sha = hashlib.sha256()
    for row in con.execute(ALL):
        sha.update(repr(row).encode())
    return sha.hexdigest()


def plain(seed, last):
    """A plain SQLite database after the first `last` transactions."""
    con = sqlite3.connect(":memory:", isolation_level=None)
    con.executescript(SCHEMA)
    for n in range(1, last + 1):
        run(con, seed, n)
    return con


def summaries(seed, first, last):
    """Summaries after the first `first` transactions and after each later one up to `last`."""
    con = plain(seed, first)
    states = [summary(con)]
    for n in range(first + 1, last + 1):
        run(con, seed, n)
        states.append(summary(con))
    return states


def loaded(seed, first, rows):
    """The summary after the first `first` transactions, with these rows added."""
    con = plain(seed, first)
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    return summary(con)

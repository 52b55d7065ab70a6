"""The content of the database: it depends only on the number of transactions."""

import functools
import hashlib
import sqlite3

import densite

SCHEMA = "CREATE TABLE t(id INTEGER PRIMARY KEY, n INT, pad TEXT)"
#: Transactions that are committed before a program comes.
COMMITTED = 10
ROWS = 100


@functools.cache
def pad(key):
    """A text that hardly compresses, so that the files have many pages."""
    return hashlib.sha512(str(key).encode()).hexdigest() + hashlib.sha256(str(key).encode()).hexdigest()


def connect(path, options=""):
    densite.attach()
    return sqlite3.connect(f"file:{path}?vfs=densite{options}", uri=True, isolation_level=None, timeout=10)


def new_keys(n):
    """Later transactions only update, so that the files do not grow with the number of programs."""
    return range(n * ROWS, (n + 1) * ROWS) if n < COMMITTED else range(0)


def run(con, n):
    """The statements of transaction `n`. They change every page of the table."""
    con.executemany("INSERT INTO t VALUES (?, ?, ?)", [(key, n, pad(key)) for key in new_keys(n)])
    con.execute("UPDATE t SET n = ? WHERE id % 10 = ?", (n, n % 10))


@functools.lru_cache(maxsize=64)
def expected(transactions):
    rows = {}
    for n in range(transactions):
        rows.update({key: n for key in new_keys(n)})
        rows.update({key: n for key in rows if key % 10 == n % 10})
    return [(key, n, pad(key)) for key, n in sorted(rows.items())]


def wrong(con, transactions):
    """What is wrong with the content, or None."""
    damage = [row[0] for row in con.execute("PRAGMA integrity_check")]
    if damage != ["ok"]:
        return f"integrity_check: {'; '.join(damage[:3])}"
    rows, wanted = con.execute("SELECT id, n, pad FROM t ORDER BY id").fetchall(), expected(transactions)
    if rows != wanted:
        return f"{len(rows)} rows of which {len(set(rows) & set(wanted))} are right, instead of {len(wanted)}"
    return None

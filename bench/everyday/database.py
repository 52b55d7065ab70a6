"""Makes a database whose bytes depend on its rows alone: SQLite of a pinned apsw, and VACUUM."""

import contextlib
import hashlib
import os

import apsw


@contextlib.contextmanager
def create(path):
    """A connection to a new database, which appears at `path` when it is complete."""
    part = f"{path}.part"
    if os.path.exists(part):
        os.unlink(part)
    con = apsw.Connection(part)
    # The file is deleted if anything fails, so it needs no journal and no sync.
    for setting in ("page_size=4096", "journal_mode=OFF", "synchronous=OFF", "cache_size=-262144"):
        con.execute(f"PRAGMA {setting}").fetchall()
    con.execute("BEGIN")
    yield con
    con.execute("COMMIT; VACUUM")
    con.close()
    os.rename(part, path)


def insert(con, table, rows):
    """Inserts tuples, all of the same length."""
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        return
    statement = f"INSERT INTO {table} VALUES ({', '.join('?' * len(first))})"
    con.execute(statement, first)
    con.executemany(statement, rows)


def digest(path):
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def number(text):
    """A CSV field as a number; None for NA."""
    if text in ("NA", ""):
        return None
    try:
        return int(text)
    except ValueError:
        return float(text)

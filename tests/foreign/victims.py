"""Processes that are killed: `python3 -m foreign.victims NAME ARGUMENT...`. With kill_at.c
preloaded, each is killed before one of the calls that it makes once it has called `armed`."""

import contextlib
import ctypes
import os
import signal
import sqlite3
import sys

import densite

from . import content


@contextlib.contextmanager
def armed(call):
    """Within this, the process is killed before its call of that number. Prints the number of calls
    if it ends."""
    arm = ctypes.CDLL(None).foreign_kill_at
    arm.argtypes, arm.restype = [ctypes.c_long], ctypes.c_long
    arm(call)
    yield
    print(arm(0), flush=True)


def connect(uri):
    densite.attach()
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)


def both(call, main, other, mode):
    """A transaction over two databases."""
    con = connect(main)
    con.execute("ATTACH ? AS b", (other,))
    for schema in ("main", "b"):
        con.execute(f"PRAGMA {schema}.journal_mode = {mode}")
        con.execute(f"PRAGMA {schema}.synchronous = FULL")
    con.execute("BEGIN")
    content.run(con, content.COMMITTED)
    con.execute("INSERT INTO o VALUES (2)")
    with armed(int(call)):
        con.execute("COMMIT")


def first(call, uri, mode):
    """The first transactions of an empty file."""
    con = connect(uri)
    con.execute("PRAGMA cache_size = 10")
    with armed(int(call)):
        con.execute(f"PRAGMA journal_mode = {mode}")
        con.execute("BEGIN")
        con.execute(content.SCHEMA)
        for n in range(content.COMMITTED):
            content.run(con, n)
        con.execute("COMMIT")


def plain(uri, mode, how):
    """A database with ten transactions; killed within the next one, or after it."""
    con = connect(uri)
    con.execute("PRAGMA wal_autocheckpoint = 0")
    con.execute(f"PRAGMA journal_mode = {mode}")
    con.execute("PRAGMA cache_size = 10")
    if not con.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        con.execute(content.SCHEMA)
        for n in range(content.COMMITTED):
            con.execute("BEGIN")
            content.run(con, n)
            con.execute("COMMIT")
    con.execute("BEGIN")
    content.run(con, content.COMMITTED)
    if how == "commit":
        con.execute("COMMIT")
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    {"both": both, "first": first, "plain": plain}[sys.argv[1]](*sys.argv[2:])

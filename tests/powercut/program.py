"""A program for power cuts. It prints the number of each transaction after its COMMIT has
returned."""

import functools
import os
import random
import sys
import threading

import densite

from .content import connect, inserted, run

#: The number of threads that write concurrently.
THREADS = 4


def report(n):
    os.write(1, f"{n}\n".encode())


def sql(path, seed, first, last):
    """Writes through SQLite. A commit is durable with FULL in WAL mode, and with EXTRA in rollback
    modes."""
    r, con = random.Random(f"program {seed}"), connect(path)
    con.execute("PRAGMA synchronous = EXTRA")
    con.execute(f"PRAGMA cache_size = {r.choice([10, 100, 2000])}")
    con.execute(f"PRAGMA wal_autocheckpoint = {r.choice([0, 10, 100])}")
    for n in range(first, last + 1):
        run(con, seed, n, in_bulk=r.random() < 0.2)
        report(n)
        what = r.random()
        if what < 0.1:
            con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        elif what < 0.15:
            con.execute("VACUUM")
        elif what < 0.2:
            con.execute(f"PRAGMA journal_mode = {r.choice(['DELETE', 'TRUNCATE', 'PERSIST', 'WAL'])}").fetchall()
        elif what < 0.3:
            con.execute("PRAGMA densite_maintain").fetchall()
        elif what < 0.35:
            con.close()
            con = connect(path)
            con.execute("PRAGMA synchronous = EXTRA")
    con.close()


def ingest(path, seed, first, last, vacuums=False):
    """Writes through the log, whose durability depends on no setting. OFF is not used: SQLite would
    damage the file."""
    r = random.Random(f"program {seed}")

    def opened():
        con = connect(path)
        if con.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            con.execute(f"PRAGMA synchronous = {r.choice(['NORMAL', 'FULL'])}")
        con.execute("CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t, on_conflict=replace)")
        return con

    con = opened()
    for n in range(first, last + 1):
        run(con, seed, n, "t_in")
        report(n)
        what = r.random()
        if what < 0.15:
            con.execute("SELECT densite_wait()").fetchall()
        elif what < 0.25:
            con.execute("SELECT densite_wait()").fetchall()
            con.execute("SELECT densite_prune()").fetchall()
        elif what < 0.3:
            con.close()
            con = opened()
        elif vacuums and what < 0.4:
            con.execute("SELECT densite_wait()").fetchall()
            con.close()
            densite.vacuum(path)
            con = opened()
    con.close()


def concurrent(path, seed, first, last):
    """Each thread commits its transactions in order. The log groups concurrent commits."""

    def write(thread):
        con = connect(path)
        con.execute("CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t, on_conflict=replace)")
        for n in range(first, last + 1):
            if n % THREADS == thread:
                con.execute("BEGIN")
                con.executemany("INSERT INTO t_in VALUES (?, ?, ?, ?)", inserted(seed, n))
                con.execute("COMMIT")
                report(n)
        con.close()

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


PROGRAMS = {"sql": sql, "ingest": ingest, "ingest-and-vacuum": functools.partial(ingest, vacuums=True), "concurrent": concurrent}

if __name__ == "__main__":
    which, where, *numbers = sys.argv[1:]
    PROGRAMS[which](where, *map(int, numbers))

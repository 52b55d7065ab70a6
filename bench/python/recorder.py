"""A recorder that never rests: rows come in and old ones are purged in rounds, then ten rows are committed each 0.4 s.

    bench/python/run.sh target/release/libdensite.so target/bench-python recorder.py [--rows N] [--rounds N] [--dir DIR]

The table has an index of random keys. WAL, synchronous=NORMAL. In turn: plain SQLite, Densite, and Densite with maintain=off. Printed for each: the largest file beside a fresh copy, the file ten seconds after the last round, the processor time of the rounds, and the 50th and 99th percentile of their commits of 250 rows.
"""

import argparse
import os
import random
import sqlite3
import tempfile
import threading
import time

import densite

options = argparse.ArgumentParser()
options.add_argument("--rows", type=int, default=600_000, help="rows that the table keeps")
options.add_argument("--rounds", type=int, default=3, help="rounds, in each of which a twelfth of the rows is replaced")
options.add_argument("--dir", help="where databases are made; the system's folder for such things otherwise")
options = options.parse_args()

FEW = 250
SCHEMA = """
CREATE TABLE states(id INTEGER PRIMARY KEY, state TEXT, attributes INTEGER, event TEXT, updated REAL, old INTEGER, kind INTEGER, context BLOB);
CREATE INDEX by_time ON states(updated);
CREATE INDEX by_kind ON states(kind, updated);
CREATE INDEX by_context ON states(context);
"""
densite.attach()


class Recorder:
    def __init__(self, path, parameters):
        self.path, self.vfs = path, "vfs=densite" if "densite" in parameters else "vfs=unix"
        self.random = random.Random(1)
        self.con = sqlite3.connect(f"file:{path}?{parameters}", uri=True)
        self.con.execute("PRAGMA journal_mode=WAL")
        self.con.execute("PRAGMA synchronous=NORMAL")
        self.con.executescript(SCHEMA)
        self.last, self.time = 0, 1.8e9

    def rows(self, count):
        for _ in range(count):
            self.last += 1
            self.time += self.random.random()
            kind = self.random.randrange(200)
            state = f"{20 + self.random.gauss(0, 2):.1f}"
            yield self.last, state, kind * 10, None, self.time, self.last - 200, kind, self.random.randbytes(16)

    def insert(self, count):
        self.con.executemany("INSERT INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self.rows(count))
        begin = time.perf_counter()
        self.con.commit()
        return time.perf_counter() - begin

    def purge(self, count):
        (first,) = self.con.execute("SELECT min(id) FROM states").fetchone()
        for begin in range(first, first + count, 5000):
            self.con.execute("DELETE FROM states WHERE id >= ? AND id < ?", (begin, min(begin + 5000, first + count)))
            self.con.commit()

    def copied(self):
        copy = f"{self.path}.copy"
        self.con.execute(f"VACUUM INTO 'file:{copy}?{self.vfs}'")
        size = os.path.getsize(copy)
        os.remove(copy)
        return size


def measured(path, parameters):
    recorder = Recorder(path, parameters)
    recorder.insert(options.rows)
    recorder.con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    time.sleep(5)
    fresh, largest, over = recorder.copied(), 0, threading.Event()

    def watch():
        nonlocal largest
        while not over.wait(0.01):
            largest = max(largest, os.path.getsize(path))

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin, commits = time.process_time(), []
    each = options.rows // 12
    for _ in range(options.rounds):
        commits += [recorder.insert(FEW) for _ in range(each // FEW)]
        recorder.purge(each // FEW * FEW)
    cpu = time.process_time() - begin
    until = time.monotonic() + 10
    while time.monotonic() < until:
        recorder.insert(10)
        time.sleep(0.4)
    then = os.path.getsize(path)
    over.set()
    watcher.join()
    recorder.con.close()
    commits.sort()
    middle, high = commits[len(commits) // 2], commits[len(commits) * 99 // 100]
    return fresh, largest, then, cpu, middle, high


print(f"{options.rows:,} rows, {options.rounds} rounds")
for name, parameters in (("plain SQLite", "vfs=unix"), ("Densite", "vfs=densite"), ("Densite, maintain=off", "vfs=densite&maintain=off")):
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        fresh, largest, then, cpu, middle, high = measured(os.path.join(folder, "a.db"), parameters)
    print(
        f"{name}: a fresh copy {fresh / 1e6:.1f} MB, largest file {largest / 1e6:.1f} MB ({largest / fresh:.2f}), ten seconds later {then / 1e6:.1f} MB ({then / fresh:.2f});"
        f" CPU {cpu:.1f} s; commits {middle * 1e3:.1f} and {high * 1e3:.1f} ms"
    )

"""Shared by all processes of a round: the tables, the rows of a batch, and the writers' ledgers.

A row has its writer, its batch and the size of the batch. So the tables alone show whether a batch
is there once and as a whole.
"""

import mmap
import os
import random
import sqlite3
import struct

import densite

#: The largest number of writers of a round. A killed writer is replaced by a new one.
WRITERS = 48

TABLES = """
CREATE TABLE a(id INTEGER PRIMARY KEY, writer INT, batch INT, i INT, size INT, pad TEXT);
CREATE INDEX a_of ON a(writer, batch);
CREATE TABLE b(k TEXT COLLATE NOCASE, kk, writer INT, batch INT, i INT, size INT, pad BLOB, PRIMARY KEY(k, kk)) WITHOUT ROWID;
CREATE TABLE c(id INTEGER PRIMARY KEY, writer INT, batch INT, i INT, size INT, u UNIQUE, CHECK (i % 17 != 5));
CREATE TABLE d(writer INTEGER PRIMARY KEY, batch INT, pad TEXT);
CREATE TABLE e(writer INT, batch INT, pad, PRIMARY KEY (writer, batch));
CREATE TABLE direct(writer INT, batch INT, i INT, size INT, pad);
CREATE INDEX direct_of ON direct(writer, batch);
"""
#: The conflict policy of each table. `d` has the last batch of each writer, `e` its last few
#: batches. `c` rejects rows with i % 17 = 5.
OPENED = {"a": "abort", "b": "ignore", "c": "abort", "d": "replace", "e": "replace"}
#: The position of the column `i` in a row.
I_COLUMN = {"a": 3, "b": 4, "c": 3}


def connect(path, plain=False):
    """Opens a connection. `plain`: through SQLite's own VFS. Ingest works in both cases."""
    densite.attach()
    name = f"file:{path}" if plain else f"file:{path}?vfs=densite"
    return sqlite3.connect(name, uri=True, isolation_level=None, timeout=20)


def open_tables(con):
    for table, policy in OPENED.items():
        con.execute(f"CREATE VIRTUAL TABLE temp.{table}_in USING densite_ingest({table}, on_conflict={policy})")


def batch(seed, writer, n):
    """The rows of a batch, as (table, row)."""
    r = random.Random(f"{seed} {writer} {n}")
    size = r.choice([1, 1, 2, 3, 10, 30, 200, 3000 if r.random() < 0.3 else 5])
    rows = []
    for i in range(size):
        table = "a" if i == 0 else r.choice("abc")
        key = (((writer * 1000003 + n) * 4096 + i) * 0x9E3779B97F4A7C15) & ((1 << 62) - 1)
        pad = r.choice("xyzä") * r.choice([0, 5, 20, 100, 1000 if size < 100 else 5, 9000 if size < 20 else 1])
        if table == "a":
            rows.append((table, (key, writer, n, i, size, pad)))
        elif table == "b":
            rows.append((table, (r.choice(["Key", "kEY", "Other"]), key, writer, n, i, size, pad.encode())))
        else:
            rows.append((table, (key, writer, n, i, size, str(key))))
    return rows


class Board:
    """Shared memory with two numbers for each writer: the acknowledged rows of `a`, and the largest
    number that can be visible."""

    def __init__(self, directory):
        path = f"{directory}/board"
        with open(path, "ab") as file:
            file.truncate(WRITERS * 16)
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), WRITERS * 16)

    def acknowledged(self, writer):
        return struct.unpack_from("<q", self.memory, writer * 16)[0]

    def at_most(self, writer):
        return struct.unpack_from("<q", self.memory, writer * 16 + 8)[0]

    def set(self, writer, acknowledged, at_most):
        struct.pack_into("<q", self.memory, writer * 16 + 8, at_most)
        struct.pack_into("<q", self.memory, writer * 16, acknowledged)


class Ledger:
    """The log of a writer's batches. Each line is one event: begun, acknowledged, or back (rolled
    back)."""

    def __init__(self, directory, writer):
        self.file = os.open(f"{directory}/ledger.{writer}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def add(self, what, kind, n):
        os.write(self.file, f"{what} {kind} {n}\n".encode())


def read_ledger(directory, writer):
    """The last event of each batch of a writer, by kind and number of the batch."""
    try:
        with open(f"{directory}/ledger.{writer}", encoding="utf-8") as file:
            lines = [line.split() for line in file]
    except FileNotFoundError:
        return {}
    return {(kind, int(n)): what for what, kind, n in lines}

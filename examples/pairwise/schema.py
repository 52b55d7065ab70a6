"""The tables, and the allocation of all pairs.

- ``batch`` has one row for some hundred pairs. Its partial index has the open batches by the time
  from which they can be handed out: the end of the lease, or minus the number of a new batch. The
  last entry that is not in the future is the next batch. So expired leases come first, and no pair
  is read.
- ``pair`` has the pairs of each batch. It is written once and read by batch.
- ``result`` has the distances. It is written only through ``densite_ingest``, so a delivery costs
  one sync of the log and does not wait for the lock of the file. `a` is always less than `b`.
"""

from __future__ import annotations

import secrets
import sqlite3
from typing import NamedTuple

from . import clock
from .series import generate, packed

#: The number in ``PRAGMA user_version`` of a file of pairs.
VERSION = 2

_TABLES = """
CREATE TABLE work(                      -- one row: the settings and the progress
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    seed        INTEGER NOT NULL,
    length      INTEGER NOT NULL,       -- values in a series
    window      INTEGER NOT NULL,       -- of the distance, in values
    batch_pairs INTEGER NOT NULL,       -- the largest number of pairs in a batch
    samples     INTEGER NOT NULL DEFAULT 0,
    pairs       INTEGER NOT NULL DEFAULT 0,
    done_pairs  INTEGER NOT NULL DEFAULT 0,
    started     REAL,                   -- times are seconds since 1970
    made        REAL NOT NULL,
    token       TEXT NOT NULL           -- every request to a coordinator must have it
) STRICT;
CREATE TABLE sample(
    id     INTEGER PRIMARY KEY,
    kind   TEXT NOT NULL,
    series BLOB NOT NULL                -- 16 bits per value, little-endian
) STRICT;
CREATE INDEX sample_kind ON sample(kind);
CREATE TABLE pair(
    batch INTEGER NOT NULL,
    a     INTEGER NOT NULL,
    b     INTEGER NOT NULL,
    PRIMARY KEY (batch, a, b)
) STRICT, WITHOUT ROWID;
CREATE TABLE batch(
    id      INTEGER PRIMARY KEY,
    pairs   INTEGER NOT NULL,
    tries   INTEGER NOT NULL DEFAULT 0, -- how often it was handed out; with the id, the name of a lease
    worker  TEXT,                       -- the worker that got it last
    expires REAL NOT NULL,              -- it can be handed out from this time; negative if new
    done    REAL                        -- when it was noted as done
) STRICT;
CREATE INDEX batch_open ON batch(expires) WHERE done IS NULL;
CREATE INDEX batch_done ON batch(done) WHERE done IS NOT NULL;
CREATE TABLE worker(
    name    TEXT PRIMARY KEY,
    batches INTEGER NOT NULL DEFAULT 0, -- done
    pairs   INTEGER NOT NULL DEFAULT 0, -- done
    first   REAL NOT NULL,              -- the times of its first and last requests
    last    REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE result(
    a        INTEGER NOT NULL,
    b        INTEGER NOT NULL,
    distance REAL NOT NULL,             -- in standard deviations
    PRIMARY KEY (a, b)
) STRICT, WITHOUT ROWID;
"""

# One statement allocates the pairs of the samples after :old, among themselves and with older
# samples. Pairs are ordered by the later sample, so a batch has few different samples.
_ALLOCATE = """
INSERT INTO pair(batch, a, b)
SELECT :first + (row_number() OVER (ORDER BY y.id, x.id) - 1) / :size, x.id, y.id
  FROM sample y JOIN sample x ON x.id < y.id
 WHERE y.id > :old
"""
_BATCHES = "INSERT INTO batch(id, pairs, expires) SELECT batch, count(*), -batch FROM pair WHERE batch >= :first GROUP BY batch"


class Settings(NamedTuple):
    """The settings of a file of pairs."""

    #: Seed of the generator.
    seed: int = 1
    #: Number of values in a series.
    length: int = 128
    #: Window of the distance, in values.
    window: int = 12
    #: The largest number of pairs in a batch.
    batch_pairs: int = 300


def create(con: sqlite3.Connection, settings: Settings) -> None:
    """Creates the tables in an empty database."""
    con.execute("PRAGMA journal_mode = WAL")
    con.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION};")
    con.execute(
        "INSERT INTO work(id, seed, length, window, batch_pairs, made, token) VALUES (1, ?, ?, ?, ?, ?, ?)",
        (settings.seed, settings.length, settings.window, settings.batch_pairs, clock.now(), secrets.token_urlsafe(16)),
    )
    con.execute("COMMIT")


def add(con: sqlite3.Connection, count: int) -> int:
    """Adds `count` samples and allocates their new pairs, in one transaction.

    Returns:
        the number of new pairs.
    """
    con.execute("BEGIN IMMEDIATE")
    try:
        seed, length, size, old = con.execute("SELECT seed, length, batch_pairs, samples FROM work").fetchone()
        made = (generate(number, length, seed) for number in range(old + 1, old + count + 1))
        con.executemany("INSERT INTO sample(id, kind, series) VALUES (?, ?, ?)", ((s.id, s.kind, packed(s.values)) for s in made))
        (first,) = con.execute("SELECT coalesce(max(id), 0) + 1 FROM batch").fetchone()
        pairs = con.execute(_ALLOCATE, {"first": first, "size": size, "old": old}).rowcount
        con.execute(_BATCHES, {"first": first})
        con.execute("UPDATE work SET samples = samples + ?, pairs = pairs + ?", (count, pairs))
        con.execute("COMMIT")
    except BaseException:
        con.execute("ROLLBACK")
        raise
    return int(pairs)

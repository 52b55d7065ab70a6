"""The tables, and how all pairs are allocated.

What goes out and what comes in are kept apart, because they have different needs:

- ``batch`` is what hands out. It is small, one row for some hundred pairs, and its partial index holds only what is still to be done, by the time
  from which it may be handed out: the end of its lease, or, for what never was on lease, long ago (minus its number, so that batches go out in
  order). The next batch is the last entry of that index that is not in the future: what was lost with its worker first, then what is new. No pair
  is looked at.
- ``pair`` says which pairs a batch has: written once, read by batch.
- ``result`` holds the distances. It is written through ``densite_ingest`` only, so a delivery costs one sync of the log and does not wait for this
  file's lock.

`a` is always less than `b`.
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
CREATE TABLE work(                      -- one row: what is to be done, and how much of it is
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    seed        INTEGER NOT NULL,
    length      INTEGER NOT NULL,       -- values in a series
    window      INTEGER NOT NULL,       -- of the distance, in values
    batch_pairs INTEGER NOT NULL,       -- pairs in a batch, at most
    samples     INTEGER NOT NULL DEFAULT 0,
    pairs       INTEGER NOT NULL DEFAULT 0,
    done_pairs  INTEGER NOT NULL DEFAULT 0,
    started     REAL,                   -- times are seconds since 1970
    made        REAL NOT NULL,
    token       TEXT NOT NULL           -- of those who may talk to a coordinator of this file
) STRICT;
CREATE TABLE sample(
    id     INTEGER PRIMARY KEY,
    kind   TEXT NOT NULL,
    series BLOB NOT NULL                -- 16 bits a value, little-endian
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
    worker  TEXT,                       -- who had it last
    expires REAL NOT NULL,              -- from then on it may be handed out; negative if it never was
    done    REAL                        -- when all its results were there
) STRICT;
CREATE INDEX batch_open ON batch(expires) WHERE done IS NULL;
CREATE INDEX batch_done ON batch(done) WHERE done IS NOT NULL;
CREATE TABLE worker(
    name    TEXT PRIMARY KEY,
    batches INTEGER NOT NULL DEFAULT 0, -- done
    pairs   INTEGER NOT NULL DEFAULT 0, -- done
    first   REAL NOT NULL,              -- when it came, and when it was last heard of
    last    REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE result(
    a        INTEGER NOT NULL,
    b        INTEGER NOT NULL,
    distance REAL NOT NULL,             -- in standard deviations
    PRIMARY KEY (a, b)
) STRICT, WITHOUT ROWID;
"""

# The pairs that the samples beyond :old have among themselves and with those before, in one statement. Ordered by the later sample, so that a batch
# has few different samples, and what is added later only ever comes behind.
_ALLOCATE = """
INSERT INTO pair(batch, a, b)
SELECT :first + (row_number() OVER (ORDER BY y.id, x.id) - 1) / :size, x.id, y.id
  FROM sample y JOIN sample x ON x.id < y.id
 WHERE y.id > :old
"""
_BATCHES = "INSERT INTO batch(id, pairs, expires) SELECT batch, count(*), -batch FROM pair WHERE batch >= :first GROUP BY batch"


class Settings(NamedTuple):
    """What a file of pairs is made with."""

    #: Of the generator.
    seed: int = 1
    #: Values in a series.
    length: int = 128
    #: Of the distance, in values.
    window: int = 12
    #: Pairs in a batch, at most.
    batch_pairs: int = 300


def create(con: sqlite3.Connection, settings: Settings) -> None:
    """Makes the tables in an empty database."""
    con.execute("PRAGMA journal_mode = WAL")
    con.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION};")
    con.execute(
        "INSERT INTO work(id, seed, length, window, batch_pairs, made, token) VALUES (1, ?, ?, ?, ?, ?, ?)",
        (settings.seed, settings.length, settings.window, settings.batch_pairs, clock.now(), secrets.token_urlsafe(16)),
    )
    con.execute("COMMIT")


def add(con: sqlite3.Connection, count: int) -> int:
    """Adds `count` samples and allocates all pairs that come with them, in one transaction.

    Returns:
        how many pairs were allocated.
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

"""The two database files, and how they are opened.

``events.db`` has the events. ``search.db`` has the search index of the events, and the number of the
last change of ``events.db`` that the index contains. It can be deleted and created again: the
follower fills it.
"""

from __future__ import annotations

import queue
import sqlite3
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Callable, Generic, Iterator, TypeVar

import densite

#: How long a statement waits for another connection's lock, in seconds.
LOCK_SECONDS = 30.0

_EVENTS = """
CREATE TABLE IF NOT EXISTS event(
    number  INTEGER PRIMARY KEY,   -- chosen when the event is applied; the rowid of the index
    id      TEXT NOT NULL UNIQUE,  -- chosen by the client; an event that comes twice counts once
    at      TEXT NOT NULL,
    message TEXT NOT NULL
)
"""
_SEARCH = """
CREATE VIRTUAL TABLE IF NOT EXISTS event_text USING fts5(message, id UNINDEXED, at UNINDEXED);
CREATE TABLE IF NOT EXISTS position(seq INTEGER NOT NULL);  -- no row until the first copy is complete
"""


def connect(path: Path) -> sqlite3.Connection:
    """Opens a file in WAL mode, without implicit transactions. Threads can take turns with the
    connection."""
    con = densite.connect(path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False)
    con.execute("PRAGMA journal_mode = WAL")
    return con


def create(directory: Path) -> None:
    """Creates the files. Files that exist keep their contents."""
    directory.mkdir(parents=True, exist_ok=True)
    with closing(connect(directory / "events.db")) as con:
        con.execute("BEGIN IMMEDIATE")
        con.execute(_EVENTS)
        con.execute("SELECT densite_config('changes', 'event', 'on')")
        con.execute("COMMIT")
        open_log(con)  # creates the log
    with closing(connect(directory / "search.db")) as con:
        con.executescript(_SEARCH)


def open_log(con: sqlite3.Connection) -> densite.Ingest:
    """Opens the table of events for writes through the log."""
    return densite.ingest(con, "event", on_conflict="ignore")


T = TypeVar("T")


class Pool(Generic[T]):
    """Lends each object to one thread at a time. Makes one more if all are lent."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._idle: queue.LifoQueue[T] = queue.LifoQueue()

    @contextmanager
    def lend(self) -> Iterator[T]:
        try:
            item = self._idle.get_nowait()
        except queue.Empty:
            item = self._make()
        try:
            yield item
        finally:
            self._idle.put(item)


if __name__ == "__main__":
    create(Path(sys.argv[1]))

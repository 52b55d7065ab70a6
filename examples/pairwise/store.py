"""Connections to a file of pairs."""

from __future__ import annotations

import contextlib
import os
import queue
import sqlite3
from typing import Iterator

import densite

from . import clock
from .errors import Failed
from .schema import VERSION

#: How long a statement waits for another connection's lock, in seconds.
LOCK_SECONDS = 5.0


def connect(path: str, lock_seconds: float = LOCK_SECONDS) -> sqlite3.Connection:
    """Opens a file of pairs, with the table ``temp.result_in`` that takes results and shows them, and without implicit transactions.

    Leases are committed with ``synchronous = NORMAL``: a power cut may forget the newest, and then a batch is handed out twice, which costs time and
    nothing else. Results are synced by the log whatever this setting is.

    Raises:
        Failed: there is no such file, or it is none of pairs.
        sqlite3.OperationalError, sqlite3.DatabaseError: it is locked; it is damaged, or no database.
    """
    if not os.path.isfile(path):
        raise Failed(f"{path}: there is no such file; `python3 -m pairwise init {path}` makes it")
    con = densite.connect(path, isolation_level=None, timeout=lock_seconds, check_same_thread=False)
    try:
        (version,) = con.execute("PRAGMA user_version").fetchone()
        if version != VERSION or con.execute("SELECT 1 FROM sqlite_schema WHERE name = 'work'").fetchone() is None:
            raise Failed(f"{path} is a database, but not one that `python3 -m pairwise init` has made; give it another")
        clock.catch_up(con)
        con.execute("PRAGMA synchronous = NORMAL")
        con.execute("CREATE VIRTUAL TABLE temp.result_in USING densite_ingest(result, on_conflict=ignore)")
    except BaseException:
        con.close()
        raise
    return con


class Store:
    """A file of pairs for many threads: a connection is lent to one of them at a time, and kept for the next.

    There are as many connections as were ever in use at once.
    """

    def __init__(self, path: str, lock_seconds: float = LOCK_SECONDS) -> None:
        self.path = path
        self._lock_seconds = lock_seconds
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        with self.connection():
            pass  # so that what is wrong with the file is known at once

    @contextlib.contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Lends a connection. A transaction that an exception left open is rolled back.

        Raises:
            as :func:`connect`.
        """
        try:
            con = self._idle.get_nowait()
        except queue.Empty:
            con = connect(self.path, self._lock_seconds)
        try:
            yield con
        finally:
            if con.in_transaction:
                con.execute("ROLLBACK")
            self._idle.put(con)

    def close(self) -> None:
        """Closes the connections that are not lent."""
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return

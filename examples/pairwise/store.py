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
    """Opens a file of pairs, without implicit transactions, and with the ingest table
    ``temp.result_in`` for results.

    Leases are committed with ``synchronous = NORMAL``. A power cut can lose the newest leases. Then
    a batch is handed out twice, which only costs time. The log syncs results in any case.

    Raises:
        Failed: the file does not exist, or is not a file of pairs.
        sqlite3.OperationalError, sqlite3.DatabaseError: the file is locked, is damaged, or is not a
            database.
    """
    if not os.path.isfile(path):
        raise Failed(f"{path} does not exist; create it with `python3 -m pairwise init {path}`")
    con = densite.connect(path, isolation_level=None, timeout=lock_seconds, check_same_thread=False)
    try:
        (version,) = con.execute("PRAGMA user_version").fetchone()
        if version != VERSION or con.execute("SELECT 1 FROM sqlite_schema WHERE name = 'work'").fetchone() is None:
            raise Failed(f"{path} is a database, but not a file of pairs; give one from `python3 -m pairwise init`")
        clock.catch_up(con)
        con.execute("PRAGMA synchronous = NORMAL")
        con.execute("CREATE VIRTUAL TABLE temp.result_in USING densite_ingest(result, on_conflict=ignore)")
    except BaseException:
        con.close()
        raise
    return con


class Store:
    """A pool of connections to a file of pairs. Each connection is used by one thread at a time.

    The pool has as many connections as were in use at the same time.
    """

    def __init__(self, path: str, lock_seconds: float = LOCK_SECONDS) -> None:
        self.path = path
        self._lock_seconds = lock_seconds
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        with self.connection():
            pass  # raises at once if the file cannot be used

    @contextlib.contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Lends a connection. Rolls back a transaction that is still open at the end of the block.

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
        """Closes the idle connections."""
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return

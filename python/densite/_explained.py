"""The connection that :func:`densite.connect` opens: where SQLite has only a few words for a
failure, its exception also says what Densite found, with the file, the page and what to do."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Optional

#: SQLite's texts for the codes of failures that a VFS reports (``sqlite3ErrStr``).
_FEW_WORDS = frozenset(
    (
        "attempt to write a readonly database",
        "database disk image is malformed",
        "database or disk is full",
        "disk I/O error",
        "file is not a database",
        "large file support is disabled",
        "locking protocol",
        "unable to open database file",
    )
)

_NO_ROW = object()


def explain(error: sqlite3.DatabaseError, con: Optional[sqlite3.Connection], path: str = "") -> None:
    """Adds what Densite reported to the text of an exception with only SQLite's few words. Without a
    connection, to that of a database that could not be opened. A report about another file is not
    added: the newest one can be older than this failure."""
    if str(error) not in _FEW_WORDS:
        return
    try:
        if con is None:
            with closing(sqlite3.connect(":memory:")) as other:
                reason, files = _newest_report(other), [path]
        else:
            reason, files = _newest_report(con), [row[2] for row in _plain(con, "PRAGMA database_list")]
    except sqlite3.Error:
        return
    if any(name and os.path.basename(name) in reason for name in files):
        error.args = (f"{error}: {reason}",)


def _plain(con: sqlite3.Connection, sql: str) -> Any:
    cursor = sqlite3.Connection.cursor(con)
    cursor.row_factory = None
    with closing(cursor):
        return cursor.execute(sql).fetchall()


def _newest_report(con: sqlite3.Connection) -> str:
    report = _plain(con, "SELECT CAST(densite_last_error() AS BLOB)")[0][0]
    return report.decode("utf-8", "replace") if report else ""


# Methods of the driver's classes, which are called often: the exceptions of each are explained. An
# exception keeps the frame in which it was caught. A cursor in it would keep a closed connection open,
# with its locks, so it is deleted there.
_cursor = sqlite3.Connection.cursor
_execute = sqlite3.Cursor.execute
_executemany = sqlite3.Cursor.executemany
_executescript = sqlite3.Cursor.executescript
_fetchone = sqlite3.Cursor.fetchone
_fetchmany = sqlite3.Cursor.fetchmany
_fetchall = sqlite3.Cursor.fetchall


class Cursor(sqlite3.Cursor):
    """A cursor of :class:`Connection`."""

    __module__ = "densite"
    __slots__ = ()

    def execute(self, sql: Any, parameters: Any = (), /) -> Any:
        try:
            return _execute(self, sql, parameters)
        except sqlite3.DatabaseError as error:
            explain(error, self.connection)
            del self
            raise

    def executemany(self, sql: Any, parameters: Any, /) -> Any:
        try:
            return _executemany(self, sql, parameters)
        except sqlite3.DatabaseError as error:
            explain(error, self.connection)
            del self
            raise

    def executescript(self, script: Any, /) -> Any:
        try:
            return _executescript(self, script)
        except sqlite3.DatabaseError as error:
            explain(error, self.connection)
            del self
            raise

    def fetchone(self) -> Any:
        try:
            return _fetchone(self)
        except sqlite3.DatabaseError as error:
            explain(error, self.connection)
            del self
            raise

    def fetchmany(self, *size: Any, **named: Any) -> Any:
        try:
            return _fetchmany(self, *size, **named)
        except sqlite3.DatabaseError as error:
            explain(error, self.connection)
            del self
            raise

    def fetchall(self) -> Any:
        try:
            return _fetchall(self)
        except sqlite3.DatabaseError as error:
            explain(error, self.connection)
            del self
            raise

    def __iter__(self) -> Iterator[Any]:
        # Not `__next__`: it would cost each row a call of Python code. A row factory can return None.
        following: Any
        if self.row_factory is None:
            following = iter(_fetchone.__get__(self), None)
        else:
            following = iter(partial(sqlite3.Cursor.__next__, self), _NO_ROW)
        try:
            yield from following
        except sqlite3.DatabaseError as error:
            explain(error, self.connection)
            del self, following
            raise


class Connection(sqlite3.Connection):
    """See the module."""

    __module__ = "densite"

    def cursor(self, factory: Any = Cursor) -> Any:
        """As the driver's, with a :class:`Cursor` by default."""
        return _cursor(self, factory)

    # The driver's own would make a cursor of its own class.

    def execute(self, sql: Any, parameters: Any = (), /) -> Any:
        cursor = _cursor(self, Cursor)
        try:
            return _execute(cursor, sql, parameters)
        except sqlite3.DatabaseError as error:
            explain(error, self)
            del cursor
            raise

    def executemany(self, sql: Any, parameters: Any, /) -> Any:
        return _cursor(self, Cursor).executemany(sql, parameters)

    def executescript(self, script: Any, /) -> Any:
        return _cursor(self, Cursor).executescript(script)

    def commit(self) -> None:
        try:
            sqlite3.Connection.commit(self)
        except sqlite3.DatabaseError as error:
            explain(error, self)
            raise

    def backup(self, *args: Any, **kwargs: Any) -> None:
        try:
            sqlite3.Connection.backup(self, *args, **kwargs)
        except sqlite3.DatabaseError as error:
            explain(error, self)
            raise

"""The connection that :func:`densite.connect` opens: where SQLite has only a few words for a
failure, its exception also says what Densite found, with the file, the page and what to do."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Optional, Type, TypeVar

    _Kind = TypeVar("_Kind")

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


def _explained(name: str, of: Type[_Kind]) -> Callable[..., Any]:
    """A method of the driver's class whose exceptions are explained."""
    method = getattr(of, name)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except sqlite3.DatabaseError as error:
            explain(error, self if of is sqlite3.Connection else self.connection)
            # The exception keeps this frame. A cursor in it would keep a closed connection open,
            # with its locks.
            del self, args, kwargs
            raise

    call.__name__, call.__doc__ = name, method.__doc__
    return call


class Cursor(sqlite3.Cursor):
    """A cursor of :class:`Connection`."""

    __module__ = "densite"

    execute = _explained("execute", sqlite3.Cursor)
    executemany = _explained("executemany", sqlite3.Cursor)
    executescript = _explained("executescript", sqlite3.Cursor)
    fetchone = _explained("fetchone", sqlite3.Cursor)
    fetchmany = _explained("fetchmany", sqlite3.Cursor)
    fetchall = _explained("fetchall", sqlite3.Cursor)

    def __iter__(self) -> Iterator[Any]:
        # Not `__next__`: it would cost each row a call of Python code.
        following = partial(sqlite3.Cursor.__next__, self)
        try:
            yield from iter(following, _NO_ROW)
        except sqlite3.DatabaseError as error:
            explain(error, self.connection)
            del self, following
            raise


class Connection(sqlite3.Connection):
    """See the module."""

    __module__ = "densite"

    commit = _explained("commit", sqlite3.Connection)
    backup = _explained("backup", sqlite3.Connection)

    def cursor(self, factory: Any = Cursor) -> Any:
        """As the driver's, with a :class:`Cursor` by default."""
        return sqlite3.Connection.cursor(self, factory)

    # The driver's own would make a cursor of its own class.

    def execute(self, *args: Any) -> Any:
        return self.cursor().execute(*args)

    def executemany(self, *args: Any) -> Any:
        return self.cursor().executemany(*args)

    def executescript(self, *args: Any) -> Any:
        return self.cursor().executescript(*args)

"""The driver that a connection is of, and reads of the package's own on a caller's connection: whatever row factory, text factory, converters or class of
cursors the caller has set there, they see what SQLite says."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Iterator, List, Tuple

from ._attach import attach

#: What a driver's module has for us.
_ERRORS = ("Error", "DatabaseError", "DataError", "IntegrityError", "InterfaceError", "InternalError", "NotSupportedError", "OperationalError", "ProgrammingError")


def module_of(con: Any) -> Any:
    """The driver's module: sqlite3, pysqlite3 or what a connection's class comes from."""
    import sqlite3  # noqa: PLC0415

    # First: the module of a class that is made from sqlite3's may have names like a driver's.
    if isinstance(con, sqlite3.Connection):
        return sqlite3
    for kind in type(con).__mro__:
        module = sys.modules.get(kind.__module__.partition(".")[0])
        connection = getattr(module, "Connection", None)
        if isinstance(connection, type) and isinstance(con, connection) and all(map(partial(_has_error, module), _ERRORS)):
            return module
    hint = "give its connection" if isinstance(con, sqlite3.Cursor) else "use one of sqlite3 or pysqlite3, from densite.connect or after densite.attach"
    raise sqlite3.NotSupportedError(f"a connection of type {type(con).__module__}.{type(con).__qualname__} is none of a driver that densite knows; {hint}")


def _has_error(module: Any, name: str) -> bool:
    found = getattr(module, name, None)
    return isinstance(found, type) and issubclass(found, Exception)


def cursor_of(con: Any, module: Any) -> Any:
    """A cursor with plain rows, on a connection that knows the library's functions."""
    attach(module)
    cursor = plain_cursor(con, module)
    try:
        cursor.execute("SELECT densite_host()").fetchall()
    except module.Error as error:
        cursor.close()
        if "belongs to process" in str(error):
            raise module.ProgrammingError(str(error)) from None
        if "no such function" not in str(error):
            raise
        raise module.NotSupportedError(
            "this connection was opened before densite.attach(); open it by densite.connect, or call densite.attach() first"
        ) from None
    return cursor


def plain_cursor(con: Any, module: Any) -> Any:
    """As :func:`cursor_of`, on a connection that was looked at before."""
    # Not by a method of a class that is made from the driver's: its cursors may do something else.
    cursor = module.Connection.cursor(con)
    cursor.row_factory = None
    return cursor


def has_transaction(con: Any, module: Any) -> bool:
    """Whether a connection has a transaction open; one that is closed has none."""
    try:
        return bool(con.in_transaction)
    except module.ProgrammingError:
        return False


@contextmanager
def closed_after(cursor: Any, module: Any) -> Iterator[Any]:
    """A cursor for a ``with`` statement. CPython 3.11 keeps the statement that has failed in a cursor, however long that is kept (by an object of ours, or by the traceback of an
    exception), and SQLite keeps a connection that is closed open for it: its locks, and our worker."""
    try:
        yield cursor
    finally:
        # The connection may be closed already.
        with suppress(module.ProgrammingError):
            cursor.close()


def text(column: str) -> str:
    """A column of text in a statement for :func:`ask`: as a blob, which no text factory sees, in whichever encoding the database has. U+FEFF in front of it
    tells that."""
    return f'CAST(char(65279) || "{column}" AS BLOB)'


def ask(cursor: Any, sql: str, *parameters: Any) -> List[Tuple[Any, ...]]:
    """The rows of a statement that has its text by :func:`text`."""
    return [tuple(map(_plain, row)) for row in cursor.execute(sql, parameters).fetchall()]


def _plain(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    return value.decode("utf-8-sig" if value.startswith(b"\xef\xbb\xbf") else "utf-16", "replace")

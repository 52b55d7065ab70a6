"""The driver of a connection, and the package's own reads on a caller's connection. Row factories,
text factories, converters and cursor classes that the caller has set do not affect these reads."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Iterator, List, Tuple

from ._attach import attach

#: The exception classes of a driver's module.
_ERRORS = ("Error", "DatabaseError", "DataError", "IntegrityError", "InterfaceError", "InternalError", "NotSupportedError", "OperationalError", "ProgrammingError")


def module_of(con: Any) -> Any:
    """The driver's module: sqlite3, pysqlite3 or the module that defines the connection's
    class."""
    import sqlite3  # noqa: PLC0415

    # Checked first: the module of a class derived from sqlite3's can have the names of a driver.
    if isinstance(con, sqlite3.Connection):
        return sqlite3
    for kind in type(con).__mro__:
        module = sys.modules.get(kind.__module__.partition(".")[0])
        connection = getattr(module, "Connection", None)
        if isinstance(connection, type) and isinstance(con, connection) and all(map(partial(_has_error, module), _ERRORS)):
            return module
    hint = "give its connection" if isinstance(con, sqlite3.Cursor) else "use one of sqlite3 or pysqlite3, from densite.connect or after densite.attach"
    raise sqlite3.NotSupportedError(f"a connection of type {type(con).__module__}.{type(con).__qualname__} is not supported; {hint}")


def _has_error(module: Any, name: str) -> bool:
    kind = getattr(module, name, None)
    return isinstance(kind, type) and issubclass(kind, Exception)


def cursor_of(con: Any, module: Any) -> Any:
    """A cursor with plain rows, on a connection that has the library's functions."""
    attach(module)
    cursor = plain_cursor(con, module)
    try:
        cursor.execute("SELECT densite_host()").fetchall()
    except (module.InterfaceError, module.ProgrammingError) as error:
        # SQLITE_MISUSE, because the connection was opened before a fork. Its class depends on the
        # driver's version.
        cursor.close()
        raise module.ProgrammingError(str(error)) from None
    except module.Error:
        knows = _knows(cursor, "densite_host", module)
        cursor.close()
        if knows:
            raise
        raise module.NotSupportedError(
            "this connection was opened before densite.attach(); open it again with densite.connect, or open it after densite.attach()"
        ) from None
    return cursor


def _knows(cursor: Any, function: str, module: Any) -> bool:
    """Whether a connection has a function. If SQLite does not answer, it is taken to have it."""
    try:
        return bool(cursor.execute("SELECT count(*) FROM pragma_function_list WHERE name = ?", (function,)).fetchall()[0][0])
    except module.Error:
        return True


def plain_cursor(con: Any, module: Any) -> Any:
    """As :func:`cursor_of`, on a connection that was checked before."""
    # Not through a method of a class derived from the driver's: its cursors can behave differently.
    cursor = module.Connection.cursor(con)
    cursor.row_factory = None
    return cursor


def has_transaction(con: Any, module: Any) -> bool:
    """Whether a connection has an open transaction. A closed connection has none."""
    try:
        return bool(con.in_transaction)
    except module.ProgrammingError:
        return False


@contextmanager
def closed_after(cursor: Any, module: Any) -> Iterator[Any]:
    """Closes a cursor at the end of a ``with`` statement. CPython 3.11 keeps a failed statement in
    its cursor while the cursor is kept (by an object of this package, or by the traceback of an
    exception). SQLite then keeps a closed connection open for it, with its locks and its worker."""
    try:
        yield cursor
    finally:
        # The connection can be closed already.
        with suppress(module.ProgrammingError):
            cursor.close()


def text(column: str) -> str:
    """A column of text in a statement for :func:`ask`: as a blob, which no text factory sees, in
    the encoding of the database. A leading U+FEFF shows which encoding this is."""
    return f'CAST(char(65279) || "{column}" AS BLOB)'


def ask(cursor: Any, sql: str, *parameters: Any) -> List[Tuple[Any, ...]]:
    """The rows of a statement that reads text through :func:`text`."""
    return [tuple(map(_plain, row)) for row in cursor.execute(sql, parameters).fetchall()]


def _plain(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    return value.decode("utf-8-sig" if value.startswith(b"\xef\xbb\xbf") else "utf-16", "replace")

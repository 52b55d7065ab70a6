"""Shared by ingest and subscribers: exit codes on a driver's exceptions, and transactions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator, TypeVar

_T = TypeVar("_T")

#: Exit codes by SQLite's primary result code: 3 locked, 4 no space, 5 damaged or not a database.
#: Any other failure is 1.
_CODES = {5: 3, 6: 3, 13: 4, 11: 5, 26: 5}
#: The same by words of the message, for drivers that do not expose SQLite's code (sqlite3 before
#: Python 3.11).
_WORDS = (("locked", 3), ("transaction open", 3), ("try again", 3), ("is full", 4), ("malformed", 5), ("damaged", 5), ("not a database", 5))


def code_of(error: BaseException) -> int:
    """The exit code for an exception of a driver."""
    number = getattr(error, "sqlite_errorcode", None)
    if number is not None:
        return _CODES.get(number & 0xFF, 1)
    message = str(error)
    return next((code for words, code in _WORDS if words in message), 1)


@contextmanager
def coded(module: Any) -> Iterator[None]:
    """Adds the attribute ``code`` to a driver's exceptions that pass through."""
    try:
        yield
    except module.Error as error:
        if not hasattr(error, "code"):
            error.code = code_of(error)
        raise


def failure(kind: Any, message: str, code: int = 1) -> Any:
    """An exception with its ``code``."""
    error = kind(message)
    error.code = code
    return error


def alone(con: Any, module: Any, what: str) -> None:
    """Raises an exception if the caller has an open transaction. `what` completes the message: it
    is done in its own transaction."""
    if con.in_transaction:
        raise failure(
            module.ProgrammingError,
            f"{what} in a transaction of its own, but this connection has a transaction open: commit it or roll it back first "
            "(with autocommit=False a transaction is always open: use another mode for a connection that ingests)",
        )


def with_log(cursor: Any, make: Callable[[], _T]) -> _T:
    """Calls a function that creates the log if the database has none. Without a log it runs in a
    write transaction: if two connections begin at once, the second one waits."""
    if cursor.execute("SELECT densite_log_last()").fetchall()[0][0] is not None:
        return make()
    cursor.execute("BEGIN IMMEDIATE")
    try:
        made = make()
        cursor.execute("COMMIT")
    except BaseException:
        if cursor.connection.in_transaction:
            cursor.execute("ROLLBACK")
        raise
    return made

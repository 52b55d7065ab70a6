"""What ingest and its followers share: exit codes on the driver's exceptions, and transactions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator, TypeVar

_T = TypeVar("_T")

#: By SQLite's primary code: locked, no space, damaged or no database. Any other failure is 1.
_CODES = {5: 3, 6: 3, 13: 4, 11: 5, 26: 5}
#: By words, where the driver does not tell SQLite's code (sqlite3 before Python 3.11).
_WORDS = (("locked", 3), ("transaction open", 3), ("try again", 3), ("is full", 4), ("malformed", 5), ("damaged", 5), ("not a database", 5))


def code_of(error: BaseException) -> int:
    """The exit code that fits an exception of a driver's."""
    number = getattr(error, "sqlite_errorcode", None)
    if number is not None:
        return _CODES.get(number & 0xFF, 1)
    said = str(error)
    return next((code for words, code in _WORDS if words in said), 1)


@contextmanager
def coded(module: Any) -> Iterator[None]:
    """Gives a driver's exceptions that pass through the attribute ``code``."""
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
    """Refuses what commits by itself while the caller's transaction is open."""
    if con.in_transaction:
        raise failure(
            module.ProgrammingError,
            f"{what} in a transaction of its own, and this connection has one open: commit it or roll it back first "
            "(with autocommit=False there is always one: use another mode for a connection that ingests)",
        )


def with_log(cursor: Any, make: Callable[[], _T]) -> _T:
    """Does what makes the database's log if there is none, and then with the right to write: of two that begin at once the later one waits its turn."""
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

"""Many small writes: rows are durable in a log first, and move into their table soon after."""

from __future__ import annotations

import re
import time
from typing import Any, ContextManager, Dict, List, NamedTuple, Optional

from ._aside import may_be_shared
from ._columns import sets
from ._driver import ask, closed_after, cursor_of, has_transaction, module_of, plain_cursor, text
from ._insert import _described, _insert_part, quoted
from ._log import alone, code_of, coded, failure, with_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

#: The longest wait of one statement. Python handles Ctrl-C between two statements.
_SLICE_SECONDS = 0.25
_CONFLICT = re.compile(r"abort|ignore|replace|update\s*\(.*\)", re.IGNORECASE | re.DOTALL)


class Reject(NamedTuple):
    """A row that its table refused."""

    #: Its sequence number.
    seq: int
    #: The table.
    table: str
    #: The columns of the row. A blob is ``{"hex": "00FF"}``, text that is not UTF-8 is
    #: ``{"text_hex": "61FF"}``, and an infinite number is its name.
    row: Dict[str, Any]
    #: SQLite's error message.
    error: str
    #: The time in UTC: ``2026-01-01T12:30:00.000Z``.
    at: str


class _Patience:
    """Runs statements that can wait for locks, with a limit on the total time. It waits in slices,
    so that Ctrl-C works. A COMMIT that was busy can be retried."""

    def __init__(self, cursor: Any, module: Any, timeout: Optional[float]) -> None:
        self._cursor, self._module = cursor, module
        self._usual = int(cursor.execute("PRAGMA busy_timeout").fetchall()[0][0])
        self._left = self._usual / 1000 if timeout is None else float(timeout)

    def execute(self, sql: str) -> None:
        begun = time.monotonic()
        try:
            while True:
                left = max(0.0, self._left - (time.monotonic() - begun))
                self._wait_for(min(_SLICE_SECONDS, left))
                try:
                    self._cursor.execute(sql)
                    return
                except self._module.OperationalError as error:
                    if code_of(error) != 3 or time.monotonic() - begun >= self._left:
                        raise
        finally:
            self._left = max(0.0, self._left - (time.monotonic() - begun))
            self._wait_for(self._usual / 1000)

    def _wait_for(self, seconds: float) -> None:
        self._cursor.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}").fetchall()


class Ingest:
    """Writes to a table through the log, on one connection: see :func:`ingest`.

    ``name`` is the virtual table (in temp) that shows table and log together for SELECT. INSERT,
    UPDATE and DELETE by key on it are also logged.
    """

    def __init__(self, con: Any, table: str, on_conflict: str, on_full: str, name: Optional[str]) -> None:
        self._con, self._module = con, module_of(con)
        self.table = table
        self.name = f"{table}_in" if name is None else name
        if not _CONFLICT.fullmatch(on_conflict.strip()):
            raise failure(
                self._module.ProgrammingError, f"on_conflict is {on_conflict!r}; use 'abort', 'ignore', 'replace' or 'update(column, ...)'"
            )
        if on_full not in ("wait", "error"):
            raise failure(self._module.ProgrammingError, f"on_full is {on_full!r}; use 'wait' or 'error'")
        with coded(self._module), closed_after(cursor_of(con, self._module), self._module) as cursor:
            alone(con, self._module, "a table is opened for ingest")
            policy = on_conflict.strip().replace("'", "''")
            self._make(cursor, name is None, f"USING densite_ingest({quoted(table)}, on_conflict='{policy}', on_full={on_full})")
            # The log keeps the order of the rows.
            self._target = _described(cursor, "temp", self.name, self._module)._replace(key=[])

    def _make(self, cursor: Any, is_own_name: bool, using: str) -> None:
        """Creates the virtual table, unless an earlier call on this connection created it."""
        sql = f"CREATE VIRTUAL TABLE temp.{quoted(self.name)} {using}"
        found = ask(cursor, f"SELECT {text('sql')} FROM temp.sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE", self.name)
        hidden = ask(cursor, f"SELECT {text('schema')} FROM pragma_table_list(?) WHERE schema <> 'temp'", self.name)
        if is_own_name and hidden:
            # A program that uses the hidden table would read the virtual one instead, and write to
            # the log.
            raise failure(
                self._module.OperationalError,
                f"{hidden[0][0]} has a table {self.name}, which temp.{self.name} would hide on this connection; give another name=",
            )
        if not found:
            with_log(cursor, lambda: cursor.execute(sql))
        elif not found[0][0].endswith(using):
            raise failure(
                self._module.OperationalError,
                f"this connection has a table temp.{self.name} already, and it is another one: {found[0][0]}; "
                "give another name=, or drop it",
            )

    def append(self, data: Any, timeout: Optional[float] = None) -> int:
        """Appends rows to the log as one transaction, all or none. When it returns, they are
        durable, and every reader of ``name`` sees them.

        Args:
            data: rows or columns in any shape that :func:`densite.insert` takes: tuples in the
                order of the table's columns, dicts, Arrow data, or a dict of NumPy arrays of shape
                (n,). Missing columns get their defaults, and so does None in a column that has one:
                SQLite does not tell a virtual table which of the two it is. Rows keep their order.
                At most 1 GB.
            timeout: how long to wait, in seconds, while more than ``max_unapplied_bytes`` are not
                applied; 0 does not wait. The default is the connection's ``busy_timeout``
                (``timeout`` of :func:`densite.connect`, 5 seconds). With ``on_full="error"`` it
                does not wait.

        Returns:
            the sequence number of the last of these rows, for :meth:`wait`. Without rows: that of
            the connection's last row, or 0.

        Raises:
            sqlite3.IntegrityError: a value that the table can never accept, such as a missing one
                of a NOT NULL column. The message names row (from 0) and value. Other violations are
                found when the row is applied: see :meth:`rejects`.
            sqlite3.DataError, sqlite3.ProgrammingError: as :func:`densite.insert`; ProgrammingError
                also while a transaction is open.
            sqlite3.OperationalError: no such column; no space (``code`` 4); too much is unapplied
                and ``on_full="error"`` (``code`` 4); too much is unapplied until the timeout
                (``code`` 3); the log cannot be used.
            Each has ``code``, the command's exit code. After any error none of the rows is in the
            log.
        """
        with coded(self._module), self._a_cursor() as cursor:
            alone(self._con, self._module, "rows are appended")
            patience = _Patience(cursor, self._module, timeout)
            # Nothing asks for the ids of these rows.
            cursor.execute("SELECT densite_ids_later(1)").fetchall()
            cursor.execute("BEGIN")
            try:
                cursor.execute("SAVEPOINT densite_append")
                # Waits for room here, before the transaction reads: in rollback mode a reader
                # blocks the worker.
                patience.execute(f"DELETE FROM temp.{quoted(self.name)} WHERE 0")
                read = 0
                shared = may_be_shared(self._con, self._module)
                for part in sets(data, self._target.columns, self._module):
                    self._check_transaction(cursor)
                    _insert_part(self._con, cursor, "temp", self._target, part, "abort", read, None, shared, self._module)
                    read += part.rows
                self._check_transaction(cursor)
                patience.execute("COMMIT")
            except BaseException:
                if has_transaction(self._con, self._module):
                    cursor.execute("ROLLBACK")
                raise
            finally:
                cursor.execute("SELECT densite_ids_later(0)").fetchall()
            return int(self._ask("SELECT densite_last_seq()") or 0)

    def _check_transaction(self, cursor: Any) -> None:
        """Raises an exception if the transaction of an append has ended: the caller's iterable can
        commit or roll back."""
        try:
            cursor.execute("RELEASE densite_append")
            cursor.execute("SAVEPOINT densite_append")
        except self._module.OperationalError:
            raise failure(
                self._module.ProgrammingError,
                "the transaction of append was committed or rolled back while its rows were read, so they are not all in the log: "
                "do not end transactions of this connection in the iterable, and do not share it with threads that do",
            ) from None

    def wait(self, seq: Optional[int] = None, timeout: Optional[float] = None, stream: bool = False) -> int:
        """Waits until rows are in their tables or among the rejects.

        Args:
            seq: up to this sequence number. Default: all rows that were acknowledged to any
                process.
            timeout: in seconds; 0 does not wait. Without it there is no limit.
            stream: wait until the stream has the rows, and not until they are applied. For members
                (:func:`densite.join`).

        Returns:
            the sequence number up to which it waited.

        Raises:
            sqlite3.OperationalError: the timeout has passed (``code`` 3; the message has the
                progress); this connection has an open transaction, which the worker may have to
                wait for (``code`` 3); rows cannot be applied for a reason that is not in the rows;
                no row has that number; with ``stream``, the database is no member, or has stopped.
        """
        with coded(self._module):
            wanted = int(self._ask("SELECT densite_log_last()") or 0) if seq is None else int(seq)
            end = None if timeout is None else time.monotonic() + timeout
            while True:
                left = _SLICE_SECONDS if end is None else max(0.0, min(_SLICE_SECONDS, end - time.monotonic()))
                where = ", 'stream'" if stream else ""
                reached = int(self._ask(f"SELECT densite_wait(?{where}, ?)", wanted, left))
                if reached >= wanted:
                    return wanted
                if end is not None and time.monotonic() >= end:
                    missing, why = (
                        ("in the stream", "wait longer, or ask densite.stream_status for trouble")
                        if stream
                        else ("applied", "wait longer, or see whether a connection holds the database's write lock")
                    )
                    raise failure(
                        self._module.OperationalError,
                        f"row {wanted} of the log is not {missing} after {timeout} seconds: rows up to {reached} are; {why}",
                        3,
                    )

    def rejects(self, after: int = 0) -> List[Reject]:
        """The rows that this table refused, in the order of the log.

        Args:
            after: only rows after this sequence number.

        They are in the table ``densite_rejects`` of the database until they are deleted there. The
        list is complete up to the number that :meth:`wait` returned; after it, a lower number can
        appear after a higher one.
        """
        import json  # noqa: PLC0415: imported only where it is needed

        with coded(self._module), self._a_cursor() as cursor:
            columns = ", ".join(map(text, ("table", "row", "error", "at")))
            sql = f'SELECT seq, {columns} FROM main.densite_rejects WHERE "table" = ? COLLATE NOCASE AND seq > ? ORDER BY seq'
            found = ask(cursor, sql, self.table, after)
        return [Reject(seq, table, json.loads(row), error, at) for seq, table, row, error, at in found]

    def close(self) -> None:
        """Drops the virtual table. Rows in the log stay there and are applied. Closing the
        connection has the same effect."""
        with coded(self._module), self._a_cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS temp.{quoted(self.name)}")

    def _a_cursor(self) -> ContextManager[Any]:
        return closed_after(plain_cursor(self._con, self._module), self._module)

    def _ask(self, sql: str, *parameters: Any) -> Any:
        with self._a_cursor() as cursor:
            return cursor.execute(sql, parameters).fetchall()[0][0]

    def __enter__(self) -> Ingest:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def ingest(con: sqlite3.Connection, table: str, on_conflict: str = "abort", *, on_full: str = "wait", name: Optional[str] = None) -> Ingest:
    """Opens a table for writes through the log of its database. Creates the log if there is none.

        log = densite.ingest(con, "vote", on_conflict="replace")
        seq = log.append([(1, 10), (2, 10)])                     # durable, and visible in SELECT ... FROM vote_in
        log.wait(seq)                                            # in the table vote

    Args:
        con: a connection of sqlite3 or pysqlite3 to a file, plain or Densite, from
            :func:`densite.connect` or opened after :func:`densite.attach`. Like every object of a
            connection it is for one thread at a time.
        table: a table of the main database.
        on_conflict: what happens if the key of a row exists already: ``abort`` (the new row goes to
            the rejects), ``ignore``, ``replace``, or ``update(column, ...)`` (these columns of the
            existing row change), or ``update(n = n + excluded.n, ...)`` (as SQLite's
            ``DO UPDATE SET``).
        on_full: what :meth:`Ingest.append` does while more than ``max_unapplied_bytes`` wait for
            the worker: ``wait`` (up to its ``timeout``), or ``error``.
        name: the name of the virtual table in temp (default: ``<table>_in``). One that this
            connection created with the same arguments is used again.

    Raises:
        sqlite3.OperationalError: no such table; the log is missing, damaged or that of another
            database (the message says what to do); locked.
        sqlite3.ProgrammingError: an argument is none of the above; a transaction is open.
        sqlite3.NotSupportedError: as :func:`densite.insert`.
    """
    return Ingest(con, table, on_conflict, on_full, name)

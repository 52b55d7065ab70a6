"""Subscribers: they read every change of a database from its log."""

from __future__ import annotations

import time
from typing import Any, ContextManager, Dict, Iterator, List, NamedTuple, Optional

from ._aside import is_alone, may_be_shared
from ._driver import ask, closed_after, cursor_of, module_of, plain_cursor, text
from ._log import alone, coded, failure, with_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


#: The longest wait of one statement. Ctrl-C and :meth:`Subscription.close` take effect between two
#: statements.
_SLICE_SECONDS = 0.5


class Change(NamedTuple):
    """One row of the log."""

    #: Its sequence number.
    seq: int
    #: The table.
    table: str
    #: ``insert``, ``update`` or ``delete``.
    op: str
    #: The columns of the primary key, as JSON values. A blob is ``{"hex": "00FF"}``, text that is
    #: not UTF-8 is ``{"text_hex": "61FF"}``, and an infinite number is its name.
    key: Dict[str, Any]
    #: The columns: all of an insert, those that an update sets to values; None for a deleted row.
    row: Optional[Dict[str, Any]]
    #: What an insert does if the key exists, as ``ignore``; the expressions that an update sets, as
    #: ``update("n" = n + 1)``; else None.
    on_conflict: Optional[str]
    #: Whether the row is the last one of its transaction.
    ends_transaction: bool


class Batch(NamedTuple):
    """Consecutive rows of the log, in its order."""

    #: The sequence number of the last row. Acknowledge it when all rows are processed.
    seq: int
    #: At least one row.
    rows: List[Change]


class Subscription:
    """A subscriber's position in the log, on one connection: see :func:`subscribe`.

    Iterating yields batches and waits for more; :meth:`next` returns one batch.
    """

    def __init__(self, con: Any, name: str, start: str, max_rows: int, timeout: Optional[float], poll: float) -> None:
        self._con, self._module = con, module_of(con)
        if start not in ("now", "start"):
            raise failure(self._module.ProgrammingError, f"start is {start!r}; use 'now' or 'start'")
        if max_rows < 1 or poll <= 0:
            raise failure(self._module.ProgrammingError, f"max_rows is {max_rows} and poll {poll}; both must be more than 0")
        self.name = name
        self._max_rows, self._timeout, self._poll = max_rows, timeout, poll
        with coded(self._module), closed_after(cursor_of(con, self._module), self._module) as cursor:
            alone(con, self._module, "a subscriber is added")
            try:
                self._acked = with_log(cursor, lambda: int(self._ask("SELECT densite_subscribe(?, ?)", name, start)))
            except self._module.OperationalError:
                if not self._exists():
                    raise
                # Acknowledging row 0 changes nothing and returns the position.
                self._acked = int(self._ask("SELECT densite_ack(?, 0)", name))
        self._read = self._acked
        self._open = True
        #: Whether the driver lets other threads use the connection; None until there is another
        #: thread.
        self._is_shared: Optional[bool] = None

    def __iter__(self) -> Iterator[Batch]:
        """Yields batches until :meth:`close`, or until no row has come for the timeout of
        :func:`subscribe`."""
        while self._open:
            batch = self.next(self._timeout)
            if batch is None:
                return
            yield batch

    def next(self, timeout: Optional[float] = None) -> Optional[Batch]:
        """Returns the next batch of at most ``max_rows`` rows. It begins after the last batch that
        this object returned, acknowledged or not.

        Args:
            timeout: how long to wait for the first row, in seconds; 0 does not wait, None waits
                without limit. A row that any process appends ends the wait at once. Ctrl-C,
                ``con.interrupt()`` and :meth:`close` end it within half a second.

        Returns:
            a batch, or None after the timeout or if the subscription was closed meanwhile.

        Raises:
            sqlite3.OperationalError: the subscriber was removed; the log cannot be read (the
                message says what to do); the connection was interrupted.
            sqlite3.ProgrammingError: the subscription is closed.
        """
        self._check_open()
        end = None if timeout is None else time.monotonic() + timeout
        while self._open:
            batch = self._read_batch()
            if batch is not None:
                return batch
            left = _SLICE_SECONDS if end is None else min(_SLICE_SECONDS, end - time.monotonic())
            if left <= 0:
                return None
            self._wait(left)
        return None

    def _wait(self, seconds: float) -> None:
        """Waits until there can be new rows, at most this long."""
        if self._is_shared is None and not is_alone():
            self._is_shared = may_be_shared(self._con, self._module)
        if self._is_shared:
            # A waiting statement would block the other threads from the connection.
            time.sleep(min(seconds, self._poll))
            return
        with coded(self._module):
            self._ask("SELECT densite_log_wait(?, ?)", self._read, seconds)

    def _read_batch(self) -> Optional[Batch]:
        """The rows that are in the log now, or None."""
        import json  # noqa: PLC0415: imported only where it is needed

        # The log is read from the acknowledged position. The numbers up to the read position can be
        # fewer rows, never more.
        limit = self._max_rows + self._read - self._acked
        columns = ", ".join(map(text, ("table", "op", "key", "row", "on_conflict")))
        sql = f"SELECT seq, {columns}, ends_transaction FROM densite_log(?, ?) WHERE seq > ? LIMIT ?"
        with coded(self._module), self._a_cursor() as cursor:
            answer = ask(cursor, sql, self.name, limit, self._read, self._max_rows)
        if not answer:
            return None
        rows = [
            Change(seq, table, op, json.loads(key), None if row is None else json.loads(row), policy, bool(ends))
            for seq, table, op, key, row, policy, ends in answer
        ]
        self._read = rows[-1].seq
        return Batch(self._read, rows)

    def ack(self, seq: int) -> int:
        """Acknowledges durably all rows up to this sequence number. The log no longer keeps them
        for this subscriber.

        Returns:
            the subscriber's position, a sequence number. It never goes back: an older number
            changes nothing.

        Raises:
            sqlite3.OperationalError: no row has that number yet; the subscriber was removed; no
                space (``code`` 4).
        """
        self._check_open()
        with coded(self._module):
            self._acked = int(self._ask("SELECT densite_ack(?, ?)", self.name, seq))
        self._read = max(self._read, self._acked)
        return self._acked

    def close(self) -> None:
        """Ends reading. The subscriber stays, and the log keeps the rows that it has not
        acknowledged. Another thread can call this."""
        self._open = False

    def unsubscribe(self) -> None:
        """Removes the subscriber. The log no longer keeps rows for it.

        Raises:
            sqlite3.OperationalError: the subscriber was removed already; no space (``code`` 4).
            sqlite3.ProgrammingError: the subscription is closed.
        """
        self._check_open()
        with coded(self._module):
            self._ask("SELECT densite_unsubscribe(?)", self.name)
        self.close()

    def _check_open(self) -> None:
        if not self._open:
            raise failure(self._module.ProgrammingError, f"the subscription {self.name} is closed; call densite.subscribe to continue")

    def _exists(self) -> bool:
        """Whether the log has this subscriber. An error that has kept it from being added can also
        keep this from being known."""
        try:
            return bool(self._ask("SELECT count(*) FROM densite_subscribers() WHERE name = ? AND feed = 'log' AND NOT dropped", self.name))
        except self._module.OperationalError:
            return False

    def _a_cursor(self) -> ContextManager[Any]:
        return closed_after(plain_cursor(self._con, self._module), self._module)

    def _ask(self, sql: str, *parameters: Any) -> Any:
        with self._a_cursor() as cursor:
            return cursor.execute(sql, parameters).fetchall()[0][0]

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def subscribe(
    con: sqlite3.Connection, name: str, start: str = "now", *, max_rows: int = 1000, timeout: Optional[float] = None, poll: float = 0.05
) -> Subscription:
    """Follows the log of the main database as a named subscriber. The log keeps every row that the
    subscriber has not acknowledged.

        sub = densite.subscribe(con, "indexer", start="start")
        for batch in sub:
            for change in batch.rows:
                index(change.table, change.op, change.key, change.row)
            sub.ack(batch.seq)

    After a crash, rows after the last acknowledged one come again: each row comes at least once.

    Args:
        con: a connection as for :func:`densite.ingest`, in any process. It is for one thread at a
            time.
        name: 1 to 64 letters, digits, ``-``, ``_`` or ``.``. An existing subscriber of this name
            continues at its position.
        start: where a new subscriber begins: at the first row that the log still has (``start``),
            or after its last row (``now``).
        max_rows: the largest number of rows in a batch. A batch can end within a transaction. The
            next batch then begins with the remaining rows of that transaction. Rows of one
            transaction have consecutive numbers.
        timeout: iterating ends after so many seconds without a row; 0 yields only the rows that are
            there, None continues without limit.
        poll: the interval in seconds at which the log is read where waiting within SQLite is not
            possible: on a connection with ``check_same_thread=False`` in a process with several
            threads. A wait would block the other threads from the connection.

    Creates the log if there is none.

    Returns:
        the subscription. Iterate over it, or call :meth:`Subscription.next`.

    Raises:
        sqlite3.OperationalError: the name is not allowed; the log is missing, damaged or that of
            another database (the message says what to do); locked.
        sqlite3.ProgrammingError: an argument is none of the above; a transaction is open.
        sqlite3.NotSupportedError: as :func:`densite.insert`.
    """
    return Subscription(con, name, start, max_rows, timeout, poll)

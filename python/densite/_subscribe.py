"""Following a database's log."""

from __future__ import annotations

import time
from typing import Any, ContextManager, Dict, Iterator, List, NamedTuple, Optional

from ._aside import is_alone, may_be_shared
from ._driver import ask, closed_after, cursor_of, module_of, plain_cursor, text
from ._log import alone, coded, failure, with_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


#: How long one statement waits: Ctrl-C and :meth:`Subscription.close` are seen between two.
_SLICE_SECONDS = 0.5


class Change(NamedTuple):
    """One row of the log."""

    #: Its sequence number.
    seq: int
    #: Whose row it is.
    table: str
    #: ``insert``, ``update`` or ``delete``.
    op: str
    #: The columns of the primary key. Values as JSON has them: a blob is ``{"hex": "00FF"}``, text that is not UTF-8 ``{"text_hex": "61FF"}``, an infinite number its name.
    key: Dict[str, Any]
    #: All columns; None of a row that is deleted.
    row: Optional[Dict[str, Any]]


class Batch(NamedTuple):
    """Some rows of the log, in its order."""

    #: The sequence number of the last of them: what to acknowledge when all are done.
    seq: int
    #: At least one.
    rows: List[Change]


class Subscription:
    """A subscriber's place in the log, on one connection: see :func:`subscribe`.

    Iterating gives batches, and waits for more; :meth:`next` gives one.
    """

    def __init__(self, con: Any, name: str, start: str, max_rows: int, timeout: Optional[float], poll: float) -> None:
        self._con, self._module = con, module_of(con)
        if start not in ("now", "start"):
            raise failure(self._module.ProgrammingError, f"start is {start!r}; use 'now' or 'start'")
        if max_rows < 1 or poll <= 0:
            raise failure(self._module.ProgrammingError, f"max_rows is {max_rows} and poll {poll}; each must be more than 0")
        self.name = name
        self._max_rows, self._timeout, self._poll = max_rows, timeout, poll
        with coded(self._module), closed_after(cursor_of(con, self._module), self._module) as cursor:
            alone(con, self._module, "a subscriber is added")
            try:
                self._acked = with_log(cursor, lambda: int(self._ask("SELECT densite_subscribe(?, ?)", name, start)))
            except self._module.OperationalError as error:
                if "already" not in str(error):
                    raise
                # Acknowledging nothing tells where it is.
                self._acked = int(self._ask("SELECT densite_ack(?, 0)", name))
        self._read = self._acked
        self._open = True
        #: Whether the driver lets other threads use the connection; None until that matters.
        self._is_shared: Optional[bool] = None

    def __iter__(self) -> Iterator[Batch]:
        """Batches, one after the other, until :meth:`close`, or until nothing has come for the timeout that was given to :func:`subscribe`."""
        while self._open:
            batch = self.next(self._timeout)
            if batch is None:
                return
            yield batch

    def next(self, timeout: Optional[float] = None) -> Optional[Batch]:
        """The next batch of at most ``max_rows`` rows. It begins behind the last one that this object gave, acknowledged or not.

        Args:
            timeout: how long it waits for a first row, in seconds; 0 only looks, None waits for ever. A row that is appended, by any process, ends the wait
                at once. Ctrl-C, ``con.interrupt()`` and :meth:`close` end it within half a second.

        Returns:
            a batch, or None when the time is over or the subscription was closed meanwhile.

        Raises:
            sqlite3.OperationalError: there is no such subscriber any more; the log cannot be read, and what to do; the connection was interrupted.
            sqlite3.ProgrammingError: the subscription is closed.
        """
        self._checked()
        end = None if timeout is None else time.monotonic() + timeout
        while self._open:
            batch = self._look()
            if batch is not None:
                return batch
            left = _SLICE_SECONDS if end is None else min(_SLICE_SECONDS, end - time.monotonic())
            if left <= 0:
                return None
            self._wait(left)
        return None

    def _wait(self, seconds: float) -> None:
        """Waits until there may be rows, or so long."""
        if self._is_shared is None and not is_alone():
            self._is_shared = may_be_shared(self._con, self._module)
        if self._is_shared:
            # A statement that waits would keep the connection from the other threads.
            time.sleep(min(seconds, self._poll))
            return
        with coded(self._module):
            self._ask("SELECT densite_log_wait(?, ?)", self._read, seconds)

    def _look(self) -> Optional[Batch]:
        import json  # noqa: PLC0415: imported only where it is needed

        # The log is read from what is acknowledged on; numbers in between may be fewer rows, never more.
        limit = self._max_rows + self._read - self._acked
        sql = f"SELECT seq, {', '.join(map(text, ('table', 'op', 'key', 'row')))} FROM densite_log(?, ?) WHERE seq > ? LIMIT ?"
        with coded(self._module), self._a_cursor() as cursor:
            found = ask(cursor, sql, self.name, limit, self._read, self._max_rows)
        if not found:
            return None
        rows = [Change(seq, table, op, json.loads(key), None if row is None else json.loads(row)) for seq, table, op, key, row in found]
        self._read = rows[-1].seq
        return Batch(self._read, rows)

    def ack(self, seq: int) -> int:
        """Notes durably that all rows up to this number are done: they need not be kept for this subscriber any more.

        Returns:
            the subscriber's position. It never goes back: an older number changes nothing.

        Raises:
            sqlite3.OperationalError: no row has that number yet; there is no such subscriber any more; no space (``code`` 4).
        """
        self._checked()
        with coded(self._module):
            self._acked = int(self._ask("SELECT densite_ack(?, ?)", self.name, seq))
        self._read = max(self._read, self._acked)
        return self._acked

    def close(self) -> None:
        """Ends reading; the subscriber stays, and the log keeps what it has not acknowledged. It may be called from another thread."""
        self._open = False

    def unsubscribe(self) -> None:
        """Removes the subscriber: nothing is kept for it any more."""
        self._checked()
        with coded(self._module):
            self._ask("SELECT densite_unsubscribe(?)", self.name)
        self.close()

    def _checked(self) -> None:
        if not self._open:
            raise failure(self._module.ProgrammingError, f"the subscription {self.name} is closed; call densite.subscribe again")

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
    """Follows the log of the main database as a named subscriber, for which the log keeps everything that it has not acknowledged.

        sub = densite.subscribe(con, "indexer", start="start")
        for batch in sub:
            for change in batch.rows:
                index(change.table, change.op, change.key, change.row)
            sub.ack(batch.seq)

    After a crash the rows behind the last acknowledged one come again: each row comes at least once.

    Args:
        con: a connection as for :func:`densite.ingest`. It may be another process's than those that write. One thread at a time.
        name: 1 to 64 letters, digits, ``-``, ``_`` or ``.``. A subscriber of this name that is there goes on where it was.
        start: where a new one begins: with the first row that is still there (``start``), or with the next one (``now``).
        max_rows: of a batch, which ends there or where the log does: also within a transaction, whose other rows then come first in the next one. Rows of
            one transaction have numbers that follow each other, and no row of another between them.
        timeout: after how many seconds without a row iterating ends: 0 gives what is there, None goes on for ever.
        poll: how often it looks for rows where it cannot wait for them, in seconds: on a connection with ``check_same_thread=False`` in a process with
            other threads, which a wait within SQLite would keep from using it.

    The log is made if there is none.

    Raises:
        sqlite3.OperationalError: not a name; the log is missing, damaged or another database's, and what to do; locked.
        sqlite3.ProgrammingError: an argument is none of the above; a transaction is open.
        sqlite3.NotSupportedError: as :func:`densite.insert`.
    """
    return Subscription(con, name, start, max_rows, timeout, poll)

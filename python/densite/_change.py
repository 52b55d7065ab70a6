"""Statements that change the database and call Python code while they run.

That code can close the connection. CPython's sqlite3 crashes if this happens within its
``execute``. So the driver only compiles such a statement, and the library runs it: SQLite keeps a
closed connection while it has a statement, and rolls back when the statement ends.
"""

from __future__ import annotations

from typing import Any

from . import _native


class Change:
    """A compiled statement, as a context manager that finalizes it."""

    def __init__(self, cursor: Any, sql: str) -> None:
        self._cursor = cursor
        #: The number of changed rows.
        self.rows = 0
        self._handle = _native.library().densite_capsule_change_new()
        try:
            cursor.execute("SELECT densite_change(?, ?)", (self._handle, sql)).fetchall()
        except BaseException:
            self._release()
            raise

    def run(self) -> None:
        """Runs the statement. A failure raises no Python exception: see :meth:`check`."""
        self.rows = int(_native.library().densite_capsule_change_run(self._handle))

    def check(self) -> None:
        """Raises the driver's exception if the statement failed."""
        if self.rows < 0:
            self._cursor.execute("SELECT densite_change(?)", (self._handle,)).fetchall()

    def _release(self) -> None:
        _native.library().densite_capsule_change_release(self._handle)

    def __enter__(self) -> Change:
        return self

    def __exit__(self, *_: Any) -> None:
        self._release()

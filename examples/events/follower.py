"""Keeps the search index equal to the table of events: python -m events.follower DIRECTORY

Changes and position are committed to ``search.db`` in one transaction, and acknowledged to
``events.db`` after that. So after a kill at any moment the follower continues at the position of the
index, and no change is missing or applied twice. Run one follower.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from typing import Optional

from .database import connect

#: The longest wait for a change, in seconds. A signal ends the follower after that.
WAIT_SECONDS = 1


class Follower:
    def __init__(self, directory: Path) -> None:
        self._events = connect(directory / "events.db")
        self._search = connect(directory / "search.db")
        position = self._position()
        if position is None:
            self._copy()
        else:
            self._acknowledge(position)  # in case of a kill between commit and acknowledgement

    def _position(self) -> Optional[int]:
        row = self._search.execute("SELECT seq FROM position").fetchone()
        return None if row is None else int(row[0])

    def _copy(self) -> None:
        """Subscribes and copies the table, in one transaction of ``events.db``.

        That commits first. After a kill between the two commits there is no position, and the next
        follower copies again.
        """
        self._search.execute("BEGIN IMMEDIATE")
        self._events.execute("BEGIN IMMEDIATE")
        # A subscriber that exists would keep its old position, so it is removed.
        self._events.execute("SELECT densite_changes_subscribe('search')")
        self._events.execute("SELECT densite_changes_unsubscribe('search')")
        position = self._events.execute("SELECT densite_changes_subscribe('search')").fetchone()
        rows = self._events.execute("SELECT number, id, at, message FROM event")
        self._search.executemany("INSERT INTO event_text(rowid, id, at, message) VALUES (?, ?, ?, ?)", rows)
        self._search.execute("INSERT INTO position VALUES (?)", position)
        self._events.execute("COMMIT")
        self._search.execute("COMMIT")

    def step(self) -> int:
        """Applies the next changes, at most 1,000. Returns their number."""
        changes = self._events.execute("SELECT seq, old, new FROM densite_changes('search', 1000)").fetchall()
        if changes:
            last = changes[-1][0]
            self._search.execute("BEGIN IMMEDIATE")
            for _, old, new in changes:
                _apply(self._search, old, new)
            self._search.execute("UPDATE position SET seq = ?", [last])
            self._search.execute("COMMIT")
            self._acknowledge(last)
        return len(changes)

    def wait(self) -> None:
        """Waits until there are changes, for at most a second."""
        self._events.execute("SELECT densite_changes_wait('search', ?)", [WAIT_SECONDS])

    def _acknowledge(self, seq: int) -> None:
        self._events.execute("SELECT densite_changes_ack('search', ?)", [seq])

    def close(self) -> None:
        self._search.close()
        self._events.close()


def _apply(search: sqlite3.Connection, old: Optional[str], new: Optional[str]) -> None:
    """Applies a change. `old` and `new` are rows of the table as JSON; `old` is None for an insert,
    `new` for a delete."""
    if old is not None:
        search.execute("DELETE FROM event_text WHERE rowid = ?", [json.loads(old)["number"]])
    if new is not None:
        search.execute("INSERT INTO event_text(rowid, id, at, message) VALUES (:number, :id, :at, :message)", json.loads(new))


if __name__ == "__main__":
    follower = Follower(Path(sys.argv[1]))
    while True:
        follower.wait()
        follower.step()

"""The time in a file of pairs: seconds since 1970 that never go back.

A computer's clock may be set while a coordinator runs, or between two of them. Set back by an hour, a lease by it would run out an hour late; set forward,
at once. So a process looks at it once and counts on from there by the monotonic clock, and begins where the times in the file end if that is later.
"""

from __future__ import annotations

import sqlite3
import threading
import time

_lock = threading.Lock()
_ahead = time.time() - time.monotonic()

_NEWEST = """
SELECT max(t) FROM (SELECT made AS t FROM work UNION ALL SELECT started FROM work UNION ALL SELECT max(last) FROM worker
                    UNION ALL SELECT max(done) FROM batch WHERE done IS NOT NULL)
"""


def now() -> float:
    """The time."""
    return _ahead + time.monotonic()


def catch_up(con: sqlite3.Connection) -> None:
    """Goes forward to the newest time in a file, if that is later."""
    global _ahead  # noqa: PLW0603: a process has one clock
    (newest,) = con.execute(_NEWEST).fetchone()
    if newest is not None:
        with _lock:
            _ahead = max(_ahead, newest - time.monotonic())

"""The time in a file of pairs: seconds since 1970 that never go back.

The computer's clock can be set while a coordinator runs, or between two runs. If it is set back by
an hour, leases by it would expire an hour late; if it is set forward, at once. So a process reads
the clock once and then uses the monotonic clock. It begins at the newest time in the file if that
is later.
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
    """The time, in seconds since 1970."""
    return _ahead + time.monotonic()


def catch_up(con: sqlite3.Connection) -> None:
    """Advances the clock to the newest time in a file, if that is later."""
    global _ahead  # noqa: PLW0603: a process has one clock
    (newest,) = con.execute(_NEWEST).fetchone()
    if newest is not None:
        with _lock:
            _ahead = max(_ahead, newest - time.monotonic())

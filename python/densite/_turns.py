"""One insert at a time on a connection.

A transaction belongs to the connection and not to a thread. So two inserts at the same time would
be in one transaction, and the failure of one would undo the other's rows.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, Dict, Iterator, List

_lock = threading.Lock()
#: By the address of the connection, which takes no weak references: its lock, and how many threads
#: use it. The same thread can take it again, because an iterator of rows can insert rows, too.
_turns: Dict[int, List[Any]] = {}


def _forked() -> None:
    """The threads that held locks are missing in the child."""
    global _lock
    _lock = threading.Lock()
    _turns.clear()


os.register_at_fork(after_in_child=_forked)


@contextlib.contextmanager
def turn(con: Any) -> Iterator[None]:
    """Waits until no other thread inserts rows through ``con``."""
    with _lock:
        entry = _turns.setdefault(id(con), [threading.RLock(), 0])
        entry[1] += 1
    try:
        with entry[0]:
            yield
    finally:
        with _lock:
            entry[1] -= 1
            if not entry[1] and _turns.get(id(con)) is entry:
                del _turns[id(con)]

"""Statements on connections that threads share.

A callback of a statement needs the interpreter's lock while the statement holds the connection. A
thread that holds the interpreter's lock while it waits for the connection (the driver does this,
for example to bind a value) would then wait forever, and so would the statement. Where this is
possible, no Python code runs within the statement: it runs on its own thread, and the caller's
thread polls its progress.
"""

from __future__ import annotations

import _thread
import contextlib
import sys
from typing import Any, Callable, List, Optional

from . import _native
from ._change import Change
from ._columns import Set

#: How often the caller's thread polls.
_POLL_SECONDS = 0.05


def is_alone() -> bool:
    """Whether this is the only thread."""
    return len(sys._current_frames()) == 1  # noqa: SLF001: all threads, even those not started by threading


def may_be_shared(con: Any, module: Any) -> bool:
    """Whether another thread can use a connection now: there is another thread, and the driver
    allows it (``check_same_thread=False``)."""
    if is_alone():
        return False
    may: List[bool] = []
    asked = _thread.allocate_lock()

    def ask() -> None:
        try:
            # Checks only the thread.
            module.Connection.cursor(con)
            may.append(True)
        except Exception as error:  # noqa: BLE001: the insert reports any other problem
            may.append(not isinstance(error, module.ProgrammingError))
        finally:
            asked.release()

    asked.acquire()
    _thread.start_new_thread(ask, ())
    asked.acquire()
    return may[0]


def run(change: Change, part: Set, tell: Optional[Callable[[int], Any]]) -> None:
    """Runs a statement that reads a set on its own thread. `tell` is called on this thread with the
    number of rows read so far. If it raises, Ctrl-C included, the statement ends and the exception
    is passed on."""
    watch = _native.Watch()
    part.progress(watch)
    # The thread that takes it decides: the new thread runs the statement; or this thread, which
    # Ctrl-C can stop at any point, makes sure that the statement never runs.
    leave = [None]
    failed: List[BaseException] = []
    ended = False
    finished = _thread.allocate_lock()

    def work() -> None:
        nonlocal ended
        try:
            leave.pop()
        except IndexError:
            return
        try:
            change.run()
        except BaseException as error:  # noqa: BLE001: raised again below
            failed.append(error)
        ended = True
        finished.release()

    finished.acquire()
    reported = 0
    try:
        # Not a thread of threading: an interrupted join counts such a thread as ended (until Python
        # 3.13).
        _thread.start_new_thread(work, ())
        while True:
            finished.acquire(timeout=_POLL_SECONDS)
            is_over = ended
            if tell is not None and watch.rows_read > reported and not failed and change.rows >= 0:
                reported = watch.rows_read
                tell(reported)
            if is_over:
                break
    except BaseException:
        watch.stop()
        try:
            leave.pop()
        except IndexError:
            # Until its end the statement reads the caller's memory, so further Ctrl-C must wait.
            while not ended:
                with contextlib.suppress(KeyboardInterrupt):
                    finished.acquire(timeout=_POLL_SECONDS)
        raise
    if failed:
        raise failed[0]
    change.check()

"""Statements on connections that threads share.

A callback of a statement's needs the interpreter's lock while the statement has the connection. A thread that has the interpreter's lock while it waits for
the connection (the driver's do, to bind a value for example) would then wait for ever, and the statement with it. So where that can be, no Python runs
within the statement: it runs on a thread of its own, and the caller's looks how far it is.
"""

from __future__ import annotations

import _thread
import contextlib
import sys
from typing import Any, Callable, List, Optional

from . import _native
from ._change import Change
from ._columns import Set

#: How often the caller's thread looks.
_LOOK_SECONDS = 0.05


def is_alone() -> bool:
    """Whether this is the only thread."""
    return len(sys._current_frames()) == 1  # noqa: SLF001: all threads, whoever started them


def may_be_shared(con: Any, module: Any) -> bool:
    """Whether another thread may use a connection now: there is one, and the driver lets it (``check_same_thread=False``)."""
    if is_alone():
        return False
    may: List[bool] = []
    asked = _thread.allocate_lock()

    def ask() -> None:
        try:
            # Looks at the thread, and at nothing else.
            module.Connection.cursor(con)
            may.append(True)
        except Exception as error:  # noqa: BLE001: what else is wrong the insert finds out
            may.append(not isinstance(error, module.ProgrammingError))
        finally:
            asked.release()

    asked.acquire()
    _thread.start_new_thread(ask, ())
    asked.acquire()
    return may[0]


def run(change: Change, part: Set, tell: Optional[Callable[[int], Any]]) -> None:
    """Runs a statement that reads a set on a thread of its own. `tell` learns of the rows read so far, on this thread; what it raises, Ctrl-C included,
    ends the statement and is passed on."""
    watch = _native.Watch()
    part.progress(watch)
    # Whoever takes it decides: the thread, to run the statement; or this one, which Ctrl-C has ended between any two steps, so that nobody runs it.
    leave = [None]
    failed: List[BaseException] = []
    ended = False
    over = _thread.allocate_lock()

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
        over.release()

    over.acquire()
    told = 0
    try:
        # Not one of threading's: of those one counts as ended whose join is interrupted (until Python 3.13).
        _thread.start_new_thread(work, ())
        while True:
            over.acquire(timeout=_LOOK_SECONDS)
            is_over = ended
            if tell is not None and watch.rows_read > told and not failed and change.rows >= 0:
                told = watch.rows_read
                tell(told)
            if is_over:
                break
    except BaseException:
        watch.stop()
        try:
            leave.pop()
        except IndexError:
            # Until its end it reads memory of the caller's, whatever is pressed meanwhile.
            while not ended:
                with contextlib.suppress(KeyboardInterrupt):
                    over.acquire(timeout=_LOOK_SECONDS)
        raise
    if failed:
        raise failed[0]
    change.check()

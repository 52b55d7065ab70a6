"""Replicas: a program ships its database to a bucket or another disk, and asks how far it is."""

from __future__ import annotations

import os
import time
from typing import Any, Optional, Union, cast

from ._aside import may_be_shared
from ._driver import ask, closed_after, cursor_of, module_of, text
from ._log import code_of, coded, failure
from ._results import ReplicaStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

#: The longest wait of one statement. Other threads can use the connection, and Python handles
#: Ctrl-C, between two statements.
_SLICE_SECONDS = 0.25
#: The pause before a wait is tried again.
_PAUSE_SECONDS = 0.005


def replicate(
    con: sqlite3.Connection,
    url: Union[str, "os.PathLike[str]", None],
    *,
    interval: float = 1.0,
    retain: float = 24.0,
    base_every: float = 24.0,
    takeover: bool = False,
) -> Optional[ReplicaStatus]:
    """Ships the database of a connection to a replica, in a thread of this process, as
    ``densite replicate`` does. It returns at once; :func:`replicate_wait` says when the database is
    there.

        con = densite.connect("app.db")
        densite.replicate(con, "s3://my-bucket/app")
        con.execute("INSERT INTO t VALUES (1)")
        con.commit()
        densite.replicate_wait(con, 10)                          # True: the row is in the bucket

    All connections of the process to the database share the thread. It ends when the last of them
    is closed: that close sends what is new, and waits up to 5 seconds for it.

    Args:
        con: a connection of :func:`densite.connect` to a Densite file, which can write.
        url: ``s3://BUCKET/PREFIX``, or a directory on another disk. The URL to which the process
            ships already changes nothing. None stops: it sends what is new, waits up to 5 seconds,
            and returns the last status, or None if nothing was shipped.
        interval: the time between two restore points, in seconds, 0.1 to 86,400.
        retain: how long restore points are kept, in hours, 1 to 100,000.
        base_every: the time after which a new image of the whole database is sent, in hours.
        takeover: begin a new generation although the replica is of another database or history, or
            another process ships to it, which then stops. Do not use it at each start.

    Returns:
        the status, as :func:`replica_status`.

    Raises:
        sqlite3.OperationalError: the process ships the database to another URL; the file is a plain
            SQLite file or empty; the URL is not understood; an option is out of range; the
            connection can only read. Failures of the bucket are in the status, and end
            :func:`replicate_wait` if they are final.
    """
    module = module_of(con)
    with coded(module):
        if url is None:
            return _status(con, module, "densite_replicate(NULL)")
        options = f"interval={interval},retain={retain},base_every={base_every},takeover={int(takeover)}"
        return _status(con, module, "densite_replicate(?, ?)", os.fspath(url), options)


def replicate_wait(con: sqlite3.Connection, seconds: float) -> bool:
    """Waits until everything that was committed before the call is in the bucket, through any
    connection.

    Args:
        con: a connection to a database that this process ships.
        seconds: how long to wait at most; 0 does not wait.

    Returns:
        True, or False if the time has passed: the status has the reason.

    Raises:
        sqlite3.OperationalError: this connection has a transaction open (``code`` 3); nothing ships
            the database in this process; shipping has failed for good, with the reason.
    """
    module = module_of(con)
    with coded(module):
        if not seconds >= 0:
            raise failure(module.ProgrammingError, f"seconds={seconds}: use a time in seconds, 0 or more")
        end = time.monotonic() + seconds
        ticket = _ask(con, module, "SELECT densite_replicate_ticket()")
        free = time.monotonic()
        while True:
            left = max(0.0, min(_SLICE_SECONDS, end - time.monotonic()))
            try:
                if _ask(con, module, "SELECT densite_replicate_wait(?, ?)", left, ticket):
                    return True
                free = time.monotonic()
            except module.OperationalError as error:
                # A statement of another thread is a transaction while it runs.
                is_over = time.monotonic() - free > _SLICE_SECONDS
                if is_over or code_of(error) != 3 or not may_be_shared(con, module):
                    raise
                time.sleep(_PAUSE_SECONDS)
            if time.monotonic() >= end:
                return False


def replica_status(con: sqlite3.Connection) -> Optional[ReplicaStatus]:
    """How far the replica of a database is.

    Returns:
        for a database that this process ships, ``role`` is ``"shipper"``. For a connection that
        follows a replica (``densite.connect("s3://my-bucket/app/")``), it is ``"follower"``. None
        for any other connection. docs/reference.md has all fields.
    """
    module = module_of(con)
    with coded(module):
        return _status(con, module, "densite_replica_status()")


def _status(con: Any, module: Any, call: str, *parameters: Any) -> Optional[ReplicaStatus]:
    import json  # noqa: PLC0415: imported only where it is needed

    found = _ask(con, module, f"SELECT {text('status')} FROM (SELECT {call} AS status)", *parameters)
    return None if found is None else cast(ReplicaStatus, json.loads(found))


def _ask(con: Any, module: Any, sql: str, *parameters: Any) -> Any:
    with closed_after(cursor_of(con, module), module) as cursor:
        # While another thread uses the connection, CPython's driver can lose the row (seen with 3.11).
        # Asking twice changes nothing.
        rows = ask(cursor, sql, *parameters) or ask(cursor, sql, *parameters)
        return rows[0][0]

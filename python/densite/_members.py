"""A database as a member of a stream: rows that any member writes through ingest come to all."""

from __future__ import annotations

import os
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple, Union

from ._driver import ask, closed_after, cursor_of, module_of, text
from ._log import alone, coded

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    _Path = Union[str, "os.PathLike[str]"]


class StreamStatus(NamedTuple):
    """How far a member of a stream is: see :func:`stream_status`."""

    #: The address of the stream, without secrets.
    address: str
    #: The name of this member.
    origin: str
    #: The number of the last message that is applied here.
    message: int
    #: The number of the last message in the stream; None while it cannot be reached.
    last_message: Optional[int]
    #: Messages of the stream that are not applied here; None while it cannot be reached.
    messages_behind: Optional[int]
    #: Rows of this member that the stream does not have; None if another process sends them, or
    #: until the stream was reached.
    rows_to_send: Optional[int]
    #: The names of all members, in the order in which they joined.
    members: Tuple[str, ...]
    #: Messages of the stream that no member wrote, and that all skipped: at most the last 1,000, which
    #: the table densite_skipped lists.
    skipped_messages: int
    #: Why this member applies no more messages; None while it does.
    stopped: Optional[str]
    #: Why rows do not come or are not sent at the moment; None if they are.
    trouble: Optional[str]


def join(
    con: sqlite3.Connection,
    address: str,
    *,
    origin: Optional[str] = None,
    credentials: Optional[_Path] = None,
    ca_file: Optional[_Path] = None,
    client_certificate: Optional[_Path] = None,
    client_key: Optional[_Path] = None,
    monitor: Union[str, Sequence[str]] = (),
    replicas: Optional[int] = None,
    trust_server: bool = False,
    moved: bool = False,
    discard: bool = False,
    after_loss: bool = False,
    right: bool = False,
) -> str:
    """Makes the database of a connection a member of a stream, as ``densite join`` does.

        con = densite.connect("app.db")
        densite.join(con, "nats://host:4222/APP", monitor="http://host:8222")

    The first database founds the stream with its content. A further one is a copy of a member, or
    empty if the stream began with an empty database. A process that has a member's database open
    applies the rows of the others and sends those of this one. A database that is a member already
    takes the new address and settings.

    Args:
        con: a connection of :func:`densite.connect`, without an open transaction.
        address: ``nats://HOST:4222/STREAM`` or ``tls://HOST:4222/STREAM``; several hosts of a
            cluster have commas between them.
        origin: the name of a new member. Default: that of the machine, and random letters.
        credentials: the file of credentials, as NATS's own tools write it.
        ca_file: certificates in PEM that are trusted beside the system's.
        client_certificate, client_key: the client's certificate and its key, in PEM.
        monitor: the monitoring ports of all servers, such as ``http://host:8222``: there the sync
            interval is read.
        replicas: how many servers keep each message of a new stream (default 1).
        trust_server: the server loses nothing that it acknowledged, although its sync interval is
            not known or not ``always``.
        moved: the database is the member itself at another place, and the original is gone.
        discard: give up the rows in the log of this copy; the original sends them.
        after_loss: the stream lost messages that this member has applied: read it again.
        right: the members differ, and this one is right: it goes on.

    Returns:
        the name of the member.

    Raises:
        sqlite3.OperationalError: what stands against joining, in one sentence; the stream cannot be
            reached.
        sqlite3.ProgrammingError: a transaction is open.
    """
    settings: Dict[str, Any] = {}
    for name, path in (("credentials", credentials), ("ca_file", ca_file), ("client_certificate", client_certificate), ("client_key", client_key)):
        if path is not None:
            # Other processes with other working directories read the file, too.
            settings[name] = os.path.abspath(os.fspath(path))
    monitors = [monitor] if isinstance(monitor, str) else list(monitor)
    given = {"monitor": monitors, "trust_server": trust_server, "moved": moved, "discard": discard, "after_loss": after_loss, "right": right}
    settings.update((name, value) for name, value in given.items() if value)
    settings.update((name, value) for name, value in (("origin", origin), ("replicas", replicas)) if value is not None)
    return str(_changed(con, "a database joins a stream", "densite_join(?, ?)", address, _json(settings)))


def leave(con: sqlite3.Connection, force: bool = False, *, member: Optional[str] = None) -> str:
    """Makes a member an independent database. Rows in its log that it has not applied from the
    stream are applied from the log.

    Args:
        con: a connection to it, without an open transaction.
        force: leave also if the stream cannot be told.
        member: another member, whose database is gone: it has left, and this one stays.

    Returns:
        the name that it had.

    Raises:
        sqlite3.OperationalError: the database is no member; it has rejects; there is no such
            member; the stream cannot be reached.
        sqlite3.ProgrammingError: a transaction is open.
    """
    return str(_changed(con, "a database leaves its stream", "densite_leave(?)", _json({"force": bool(force), "member": member})))


def schema(con: sqlite3.Connection, sql: str) -> int:
    """Changes the schema on all members: each runs the statement at the same place in the order of
    the rows.

    Args:
        con: a connection to a member, without an open transaction.
        sql: one CREATE, ALTER or DROP statement.

    Returns:
        the sequence number of the change in the log, for ``densite_wait(number)`` and
        :meth:`Ingest.wait`. The statement has run here when that returns.

    Raises:
        sqlite3.OperationalError: the database is no member; the statement is none of these, fails
            here, or gives another value on each member.
        sqlite3.ProgrammingError: a transaction is open.
    """
    module = module_of(con)
    with coded(module), closed_after(cursor_of(con, module), module) as cursor:
        alone(con, module, "the schema of a stream changes")
        return int(ask(cursor, "SELECT densite_schema(?)", sql)[0][0])


def stream_status(con: sqlite3.Connection) -> Optional[StreamStatus]:
    """How far a member is. It asks the server for the end of the stream.

    Returns:
        the figures, or None if the database is no member of a stream.
    """
    module = module_of(con)
    columns = ", ".join(name if name.endswith(("message", "messages", "behind", "send")) else text(name) for name in StreamStatus._fields)
    with coded(module), closed_after(cursor_of(con, module), module) as cursor:
        rows = ask(cursor, f"SELECT {columns} FROM densite_stream_status()")
    if not rows:
        return None
    found = StreamStatus(*rows[0])
    return found._replace(members=tuple(str(rows[0][6]).split()))


def _json(settings: Dict[str, Any]) -> str:
    import json  # noqa: PLC0415: imported only where it is needed

    return json.dumps(settings)


def _changed(con: Any, what: str, call: str, *parameters: Any) -> Any:
    module = module_of(con)
    with coded(module), closed_after(cursor_of(con, module), module) as cursor:
        alone(con, module, what)
        return ask(cursor, f"SELECT {text('origin')} FROM (SELECT {call} AS origin)", *parameters)[0][0]

"""Densite for Python: SQLite databases that are stored compressed and stay small.

    import densite
    con = densite.connect("app.db")          # a sqlite3.Connection, as from sqlite3.connect
    con.execute("CREATE TABLE t(a)")

After ``densite.attach()`` every other way to open a database works as well:
``sqlite3.connect("file:app.db?vfs=densite", uri=True)``, and so does every package that is built on
that module.

Plain SQLite files stay plain and can be used normally. New and empty files become Densite files.

- :func:`connect`, :func:`attach`: opening;
- :func:`insert`, :func:`query`: write and read many rows at once, as Arrow, NumPy or rows;
- :func:`ingest`, :func:`subscribe`: many small writes, each durable after one sync of a log; and
    reading the changes from that log;
- :func:`replicate`, :func:`replicate_wait`, :func:`replica_status`: a replica in a bucket or on
    another disk;
- :func:`join`, :func:`leave`, :func:`schema`, :func:`stream_status`: one database on many machines;
- :func:`compress`, :func:`decompress`, :func:`publish`, :func:`vacuum`, :func:`check`, :func:`info`: files.
"""

from ._attach import attach
from ._connect import connect
from ._library import __version__, library_path

# Like typing.TYPE_CHECKING, whose import takes longer than all the rest and has no use at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._files import check as check
    from ._files import compress as compress
    from ._files import decompress as decompress
    from ._files import info as info
    from ._files import publish as publish
    from ._files import vacuum as vacuum
    from ._ingest import Ingest as Ingest
    from ._ingest import Reject as Reject
    from ._ingest import ingest as ingest
    from ._insert import insert as insert
    from ._members import StreamStatus as StreamStatus
    from ._members import join as join
    from ._members import leave as leave
    from ._members import schema as schema
    from ._members import stream_status as stream_status
    from ._query import Result as Result
    from ._query import query as query
    from ._replica import replica_status as replica_status
    from ._replica import replicate as replicate
    from ._replica import replicate_wait as replicate_wait
    from ._results import Checked as Checked
    from ._results import Conversion as Conversion
    from ._results import Info as Info
    from ._results import ReplicaStatus as ReplicaStatus
    from ._results import Vacuumed as Vacuumed
    from ._subscribe import Batch as Batch
    from ._subscribe import Change as Change
    from ._subscribe import Subscription as Subscription
    from ._subscribe import subscribe as subscribe

__all__ = [
    "Batch",
    "Change",
    "Checked",
    "Conversion",
    "Info",
    "Ingest",
    "Reject",
    "ReplicaStatus",
    "Result",
    "StreamStatus",
    "Subscription",
    "Vacuumed",
    "__version__",
    "attach",
    "check",
    "compress",
    "connect",
    "decompress",
    "info",
    "ingest",
    "insert",
    "join",
    "leave",
    "library_path",
    "publish",
    "query",
    "replica_status",
    "replicate",
    "replicate_wait",
    "schema",
    "stream_status",
    "subscribe",
    "vacuum",
]

#: Imported on first use, so that importing the package is fast.
_LATER = {
    "check": "_files",
    "compress": "_files",
    "decompress": "_files",
    "info": "_files",
    "publish": "_files",
    "vacuum": "_files",
    "Ingest": "_ingest",
    "Reject": "_ingest",
    "ingest": "_ingest",
    "insert": "_insert",
    "StreamStatus": "_members",
    "join": "_members",
    "leave": "_members",
    "schema": "_members",
    "stream_status": "_members",
    "Result": "_query",
    "query": "_query",
    "replica_status": "_replica",
    "replicate": "_replica",
    "replicate_wait": "_replica",
    "Checked": "_results",
    "Conversion": "_results",
    "Info": "_results",
    "ReplicaStatus": "_results",
    "Vacuumed": "_results",
    "Batch": "_subscribe",
    "Change": "_subscribe",
    "Subscription": "_subscribe",
    "subscribe": "_subscribe",
}


def __getattr__(name: str) -> "Any":
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # noqa: PLC0415: it is loaded anyway

    found = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> "list[str]":
    return sorted(__all__)

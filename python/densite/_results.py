"""The results of the functions for files. They are dictionaries: the objects that the command
writes with ``--json`` (docs/CLI.md).

Sizes are in bytes, times in seconds. A later version can add keys.
"""

from __future__ import annotations

from typing import Dict, List, Optional, TypedDict


class Conversion(TypedDict):
    """The result of :func:`densite.compress`, :func:`densite.decompress` and
    :func:`densite.publish`."""

    #: "compress", "decompress" or "publish".
    verb: str
    source: str
    destination: str
    #: Always False: a file that has the form already is an error here.
    already: bool
    #: Whether the source was replaced.
    in_place: bool
    page_size: int
    pages: int
    free_pages_zeroed: int
    #: Pages on the freelist that tables use.
    free_pages_in_use: int
    source_bytes: int
    destination_bytes: int
    #: Destination to source; 0 for an empty source.
    ratio: float
    seconds: float


class Vacuumed(TypedDict):
    """The result of :func:`densite.vacuum`."""

    verb: str
    path: str
    dry_run: bool
    #: "plain" or "compressed".
    form: str
    chroma: None
    #: False if the new file was larger. Then the old file stays.
    replaced: bool
    written_bytes: int
    page_size: int
    pages_before: int
    pages_after: int
    bytes_before: int
    bytes_after: int
    allocated_before_bytes: int
    allocated_after_bytes: int
    freed_bytes: int
    tables: int
    indexes: int
    rows: int
    seconds: float


class Problem(TypedDict):
    """A damaged part of a file."""

    what: str
    #: The position in the file, in bytes.
    offset: int
    #: The page of the database, from 1.
    page: Optional[int]
    problem: str


class Checked(TypedDict):
    """The result of :func:`densite.check`."""

    path: str
    form: str
    ok: bool
    pages: int
    #: The number of verified frames; None for a plain database.
    frames: Optional[int]
    problems: List[Problem]
    #: Describes commits that a power cut removed before they were durable. This is not damage.
    cut: Optional[str]
    #: The result of SQLite's integrity check; ["ok"] without a problem.
    integrity_check: List[str]
    #: Tables that only their application can check, each with the reason.
    not_verified: List[str]
    #: Damage of b-trees. If it is empty, SQL repairs what the integrity check found.
    damaged_trees: List[str]
    #: How to repair it.
    remedies: List[str]


class Process(TypedDict):
    """A process that holds a lock."""

    pid: int
    name: Optional[str]


class SubscriberInfo(TypedDict):
    """A subscriber of a log."""

    name: str
    position: int
    rows_behind: int
    bytes_behind: int


class LogInfo(TypedDict, total=False):
    """The log of a database. If it cannot be read, the only key is ``problem``."""

    problem: str
    directory: str
    id: str
    first: int
    last: int
    segments: int
    bytes: int
    free_segment_bytes: int
    #: The last applied row; None if the database does not name the log.
    applied: Optional[int]
    unapplied_rows: Optional[int]
    unapplied_bytes: Optional[int]
    #: About how long the oldest waiting row waits; None if no row waits.
    oldest_unapplied_seconds: Optional[float]
    #: Rows applied in a second, a mean over about the last ten seconds.
    applied_per_second: Optional[float]
    #: Whether a process is applying rows now.
    applying: bool
    #: Why log and database do not belong together.
    misfit: Optional[str]
    rejects: Optional[int]
    #: Tables that ``densite_pause`` has paused.
    paused: Optional[List[str]]
    auto_prune: bool
    max_unapplied_bytes: int
    retain_bytes: int
    max_retained_bytes: int
    subscribers: List[SubscriberInfo]
    slowest: Optional[SubscriberInfo]


class VacuumGain(TypedDict):
    """Estimates of the space that a vacuum would free."""

    live_bytes: int
    dead_bytes: int
    free_bytes: int
    unallocated_bytes: int
    #: Whether ``unallocated_bytes`` is extrapolated from some of the pages.
    unallocated_estimated: bool
    maintained_bytes: int
    vacuumed_bytes: int
    reclaimable_bytes: int
    needed_bytes: int
    vacuum_seconds: float


class ColumnInfo(TypedDict):
    """A column of a table, and how its values are encoded."""

    name: str
    encodings: List[str]


class ObjectInfo(TypedDict):
    """A table or an index."""

    kind: str
    #: None for pages that belong to no object.
    name: Optional[str]
    table: Optional[str]
    pages: int
    raw_bytes: int
    #: None for a plain database, like ``ratio``.
    stored_bytes: Optional[int]
    ratio: Optional[float]
    unallocated_bytes: int
    #: The number of pages by codec.
    codecs: Dict[str, int]
    model_pages: int
    columns: List[ColumnInfo]


class Info(TypedDict):
    """The figures of a database: the result of :func:`densite.info`."""

    path: str
    form: str
    logical_bytes: int
    stored_bytes: int
    allocated_bytes: int
    ratio: Optional[float]
    page_size: int
    pages: int
    free_pages: int
    #: The well-known program that could not open it compressed.
    program: Optional[str]
    journal_mode: str
    #: "none", "full" or "incremental".
    auto_vacuum: str
    journal_bytes: int
    wal_bytes: int
    #: Processes whose read transactions prevent a reset of the WAL.
    wal_readers: List[Process]
    #: The database, and what belongs to it: journal, WAL, shared memory, the log's directory.
    files: List[str]
    #: Files left by a vacuum or conversion that did not complete.
    leftovers: List[str]
    #: Figures of the store by name; None for a plain database.
    store: Optional[Dict[str, int]]
    #: What reading a remote file has cost; None for a local one.
    remote: Optional[Dict[str, int]]
    log: Optional[LogInfo]
    vacuum: Optional[VacuumGain]
    objects: List[ObjectInfo]
    objects_broken_pages: int
    objects_problem: Optional[str]


class ReplicaStatus(TypedDict, total=False):
    """The result of :func:`densite.replicate` and :func:`densite.replica_status`. The fields from
    ``database`` on are those of a shipper alone, the last one is that of a follower."""

    #: "shipper" or "follower".
    role: str
    #: The replica, without secrets.
    replica: str
    #: The name of its generation; None before the first contact.
    generation: Optional[str]
    #: The newest restore point in the bucket, or the one that the follower reads.
    restore_point: Optional[int]
    #: When it was taken, in UTC: "2026-01-01T12:30:00.000Z".
    time: Optional[str]
    #: Commits that are older are in the bucket; or the age of the bucket's last answer.
    lag_seconds: Optional[float]
    database: str
    #: False if shipping has ended.
    shipping: bool
    #: Whether a long transaction holds back the next restore point.
    held_back: bool
    #: The last failure, if nothing has succeeded since.
    error: Optional[str]
    #: Whether shipping has ended for that reason.
    failed: bool
    #: What was sent.
    requests: int
    bytes: int
    #: Newer restore points that the process knows; None if there is a newer generation.
    restore_points_behind: Optional[int]

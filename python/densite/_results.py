"""What the functions for files return: dictionaries, the objects that the command writes with ``--json`` (docs/CLI.md).

Sizes are in bytes, times in seconds. A later version can add keys.
"""

from __future__ import annotations

from typing import Dict, List, Optional, TypedDict


class Conversion(TypedDict):
    """What :func:`densite.compress` and :func:`densite.decompress` did."""

    #: "compress" or "decompress".
    verb: str
    source: str
    destination: str
    already: bool
    #: Whether the source was replaced.
    in_place: bool
    page_size: int
    pages: int
    free_pages_zeroed: int
    source_bytes: int
    destination_bytes: int
    #: Destination to source; None for an empty source.
    ratio: Optional[float]
    seconds: float


class Vacuumed(TypedDict):
    """What :func:`densite.vacuum` did."""

    verb: str
    path: str
    dry_run: bool
    #: "plain" or "compressed".
    form: str
    chroma: None
    #: False where the new file would not have been smaller.
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
    """A damaged place."""

    what: str
    #: Where in the file it is.
    offset: int
    #: The page of the database; 1 is the first.
    page: Optional[int]
    problem: str


class Checked(TypedDict):
    """What :func:`densite.check` found."""

    path: str
    form: str
    ok: bool
    pages: int
    frames: int
    problems: List[Problem]
    #: Commits that a power cut took before they were durable, described. That is no damage.
    cut: Optional[str]
    #: What SQLite's integrity check said; ["ok"] if it is fine.
    integrity_check: List[str]


class Process(TypedDict):
    """A process that holds a lock."""

    pid: int
    name: Optional[str]


class SubscriberInfo(TypedDict):
    """A named position in a log."""

    name: str
    position: int
    rows_behind: int
    bytes_behind: int


class LogInfo(TypedDict, total=False):
    """The log of a database; only ``problem`` if it cannot be read."""

    problem: str
    directory: str
    id: str
    first: int
    last: int
    segments: int
    bytes: int
    free_segment_bytes: int
    #: The last row that is in its table; None while the database does not name the log.
    applied: Optional[int]
    unapplied_rows: Optional[int]
    unapplied_bytes: Optional[int]
    #: Whether a process is applying rows now.
    applying: bool
    #: Why log and database do not belong together.
    misfit: Optional[str]
    rejects: Optional[int]
    auto_prune: bool
    max_unapplied_bytes: int
    retain_bytes: int
    subscribers: List[SubscriberInfo]
    slowest: Optional[SubscriberInfo]


class VacuumGain(TypedDict):
    """What a vacuum would free. Estimates."""

    live_bytes: int
    dead_bytes: int
    free_bytes: int
    unallocated_bytes: int
    #: Whether ``unallocated_bytes`` was extrapolated from a part of the pages.
    unallocated_estimated: bool
    maintained_bytes: int
    vacuumed_bytes: int
    gives_back_bytes: int
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
    #: None in a plain database, as is the ratio.
    stored_bytes: Optional[int]
    ratio: Optional[float]
    unallocated_bytes: int
    #: Pages by the codec that they are stored with.
    codecs: Dict[str, int]
    model_pages: int
    columns: List[ColumnInfo]


class Info(TypedDict):
    """The figures of a database: what :func:`densite.info` returns."""

    path: str
    form: str
    logical_bytes: int
    stored_bytes: int
    allocated_bytes: int
    ratio: Optional[float]
    page_size: int
    pages: int
    free_pages: int
    journal_mode: str
    journal_bytes: int
    wal_bytes: int
    #: Processes whose reading keeps the WAL from being reset.
    wal_readers: List[Process]
    #: Files that a crashed vacuum or conversion left.
    leftovers: List[str]
    #: Figures of the store, by their names; None for a plain database.
    store: Optional[Dict[str, int]]
    log: Optional[LogInfo]
    vacuum: Optional[VacuumGain]
    objects: List[ObjectInfo]
    objects_broken_pages: int
    objects_problem: Optional[str]

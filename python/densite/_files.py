"""Converts, vacuums and checks files: what the command does, within the process and on its
SQLite."""

from __future__ import annotations

import os
import sqlite3
from ctypes import byref, c_void_p
from typing import Any, Callable, Optional, Union

from . import _native
from ._attach import attach
from ._connect import path_bytes, whole
from ._results import Checked, Conversion, Info, Vacuumed

_Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
#: Called with the phase, the amount done and the total (both in bytes; a total of 0 is unknown).
Progress = Callable[[str, int, int], Any]


_PAGE_SIZES = {1 << n for n in range(9, 17)}


def _host() -> int:
    """The SQLite for the library to work on: that of the sqlite3 module."""
    attach()
    con = sqlite3.connect(":memory:")
    try:
        (host,) = con.execute("SELECT densite_host()").fetchone()
    finally:
        con.close()
    return int(host)


def _options(level: Optional[int], threads: Optional[int], page_size: Optional[int], archive: bool, timeout: Optional[float]) -> _native.Options:
    options = _native.Options()
    _native.library().densite_options_init(byref(options))
    for name, value, least, allowed in (
        ("level", level, -(2**31), "-7 to 22"),
        ("threads", threads, 0, "0 or more threads"),
        ("page_size", page_size, 1, "a power of two from 512 to 65536"),
    ):
        if value is not None:
            if not least <= whole(name, value) < 2**31:
                raise sqlite3.ProgrammingError(f"{name}={value} is out of range: use {allowed}")
            setattr(options, name, value)
    if page_size is not None and page_size not in _PAGE_SIZES:
        raise sqlite3.ProgrammingError(f"page_size={page_size}: use a power of two from 512 to 65536")
    options.archive = int(archive)
    if timeout is not None:
        # NaN is not >= 0 either.
        if not timeout >= 0:
            raise sqlite3.ProgrammingError(f"timeout={timeout}: use a time in seconds, 0 or more")
        options.wait_ms = int(min(timeout, 1e9) * 1000)
    return options


def _run(progress: Optional[Progress], function: str, *arguments: Any) -> Any:
    """Calls a function of the library and returns its JSON as a dict. All functions except
    densite_info take a progress callback."""
    import json  # noqa: PLC0415: imported only where it is needed

    def tell(state: _native.State) -> None:
        if progress is not None and state.message is None:
            progress(state.phase.decode(), state.done, state.total)

    # Always set: Python notices Ctrl-C only while Python code runs.
    listener = _native.Listener(tell)
    out = c_void_p()
    callback = () if function == "densite_info" else (listener.progress, listener.context)
    code = getattr(_native.library(), function)(_host(), *arguments, *callback, byref(out))
    answer = _native.text(out) if out else "{}"
    if listener.raised:
        raise listener.raised[0]
    if code != 0:
        _native.fail(sqlite3, code)
    answer = json.loads(answer)
    assert isinstance(answer, dict)
    return answer


def compress(
    src: _Path,
    dst: Optional[_Path] = None,
    *,
    level: Optional[int] = None,
    threads: Optional[int] = None,
    page_size: Optional[int] = None,
    archive: bool = False,
    known_program: bool = False,
    timeout: Optional[float] = None,
    progress: Optional[Progress] = None,
) -> Conversion:
    """Turns a plain SQLite database into a Densite file.

    Args:
        src: the database.
        dst: the new file, which must not exist. Without it the verified copy replaces the database.
        level: zstd level, -7 to 22 (default 3).
        threads: background threads, 0 for none (default: 1 less than the cores, at least 1).
        page_size: size of the pages in bytes (default: unchanged).
        archive: whether small size is more important than fast reads.
        known_program: whether to replace also the database of a program that opens it with a SQLite of
            its own and could not open it any more; otherwise that is an error (``kind``
            ``known_program``).
        timeout: how long to wait for the lock of another connection, in seconds (default 5).
        progress: called with the phase, bytes done and bytes in all, about once for each MiB. If it
            raises, the work stops and the exception is passed on.

    Returns:
        the object of ``densite compress --json`` (docs/CLI.md): sizes in bytes, ``ratio``,
        ``seconds``.

    Raises:
        sqlite3.OperationalError: locked, no space, no such file, the destination exists, or `src`
            has that form already (``kind`` ``already_compressed`` or ``already_plain``; the command
            does not report this as an error without a destination). ``kind`` and ``code`` (the
            command's exit code) say which.
        sqlite3.DatabaseError: the file is damaged or not a database.
        sqlite3.ProgrammingError: a setting is out of range.
        TypeError, ValueError: a setting is not a number; a path is not a path, or contains a NUL.
        After any error the content of `src` is unchanged.
    """
    options = _options(level, threads, page_size, archive, timeout)
    options.known_program = int(known_program)
    return _run(progress, "densite_compress", path_bytes(src), None if dst is None else path_bytes(dst), byref(options))


def decompress(
    src: _Path,
    dst: Optional[_Path] = None,
    *,
    threads: Optional[int] = None,
    timeout: Optional[float] = None,
    progress: Optional[Progress] = None,
) -> Conversion:
    """Turns a Densite file into a plain SQLite database. Arguments, result and errors as for
    :func:`compress`."""
    options = _options(None, threads, None, False, timeout)
    return _run(progress, "densite_decompress", path_bytes(src), None if dst is None else path_bytes(dst), byref(options))


def publish(
    src: _Path,
    dst: _Path,
    *,
    level: Optional[int] = None,
    threads: Optional[int] = None,
    timeout: Optional[float] = None,
    progress: Optional[Progress] = None,
) -> Conversion:
    """Writes a copy of a database that needs few requests when it is read from a web server or
    object storage. A database at `dst` is replaced atomically. Arguments, result and errors as for :func:`compress`."""
    options = _options(level, threads, None, False, timeout)
    return _run(progress, "densite_publish", path_bytes(src), path_bytes(dst), byref(options))


def vacuum(
    path: _Path,
    *,
    level: Optional[int] = None,
    threads: Optional[int] = None,
    timeout: Optional[float] = None,
    progress: Optional[Progress] = None,
) -> Vacuumed:
    """Rewrites a database in place, without deleted data and free space. A plain database stays
    plain, a Densite file stays one. It does not ask for confirmation.

    Args:
        path: the database.
        level, threads, progress: as for :func:`compress`.
        timeout: how long to wait for the lock of another connection, in seconds (default 5).

    Returns:
        the object of ``densite vacuum --json``: sizes before and after in bytes, ``freed_bytes``,
        ``rows``, ``seconds``.

    Raises:
        as :func:`compress`; after any error the content of the database is unchanged.
    """
    options = _options(level, threads, None, False, timeout)
    return _run(progress, "densite_vacuum", path_bytes(path), byref(options))


def check(path: _Path, *, progress: Optional[Progress] = None) -> Checked:
    """Verifies every stored page and the page map, and runs SQLite's integrity check.

    Returns:
        the object of ``densite check --json``. Damage is part of the result, not an exception:
        ``ok`` is False, and ``problems`` and ``integrity_check`` say what is wrong and where.
        ``not_verified`` names the tables whose rows only the application can check, because they
        need its functions or collations.

    Raises:
        as :func:`compress`, if the check cannot run at all.
    """
    return _run(progress, "densite_check", path_bytes(path))


def info(path: _Path) -> Info:
    """Returns the figures of a database: the object of ``densite info --json``, with sizes in
    bytes.

    Raises:
        as :func:`compress`.
    """
    return _run(None, "densite_info", path_bytes(path))

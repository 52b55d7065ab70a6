"""Opens a database."""

from __future__ import annotations

import operator
import os
import sqlite3

from ._attach import attach
from ._explained import Connection, explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Tuple, Union

    _Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

#: The position of ``factory`` among the arguments after the path.
_FACTORY = 4


def connect(
    database: _Path,
    *args: Any,
    level: Optional[int] = None,
    threads: Optional[int] = None,
    decoded_cache: Optional[int] = None,
    uri: bool = False,
    **kwargs: Any,
) -> sqlite3.Connection:
    """Opens a database through Densite.

    Args:
        database: a path, or the URL of a remote database (``https://``, ``http://`` or ``s3://``),
            which can only be read; ``":memory:"`` and ``""`` have the same meaning as in
            :mod:`sqlite3`. With ``uri=True`` a URI, whose parameters are kept. Without it, a name
            that begins with ``file:`` is that of an existing file.
        level: zstd level for new pages, -7 to 22 (default 3).
        threads: background threads, 0 for none (default: 1 less than the cores, at least 1).
        decoded_cache: budget in MiB of the cache of decoded pages of this file in this process
            (default: all files of the process together take up to an eighth of the available
            memory).
        args, kwargs: as for :func:`sqlite3.connect`. Journal mode, foreign keys and all other
            settings have SQLite's defaults.

    Returns:
        a :class:`sqlite3.Connection` (of the given ``factory``, if there is one). Without a
        ``factory``, the text of an exception also says what Densite found, where SQLite has only a
        few words such as "database disk image is malformed": the file, the page and what to do.

    Raises:
        sqlite3.OperationalError: the database cannot be opened, or a parameter is out of range; the
            message names it.
        sqlite3.NotSupportedError: see :func:`densite.attach`.
        TypeError, ValueError: a parameter is not a whole number; the path is not a path, or
            contains a NUL, or is a URI without ``uri=True``.
    """
    attach()
    if not uri and path_bytes(os.fspath(database)).startswith(b"file:") and not os.path.lexists(database):
        raise ValueError(f"{database!r} is a URI: add uri=True; or create a file of this literal name first")
    name, uri = location(database, uri, level, threads, decoded_cache)
    if len(args) <= _FACTORY:
        kwargs.setdefault("factory", Connection)
    try:
        con: sqlite3.Connection = sqlite3.connect(name, *args, uri=uri, **kwargs)
    except sqlite3.DatabaseError as error:
        explain(error, None, os.fsdecode(database))
        raise
    return con


def whole(name: str, value: Any) -> int:
    """The number of a setting."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; give a whole number") from None


def path_bytes(path: _Path) -> bytes:
    """A path as bytes for the library. The library's texts end at a NUL, so a path with a NUL would
    name another file."""
    raw = os.fsencode(path)
    if b"\0" in raw:
        raise ValueError(f"{path!r} has a NUL; give a path without one")
    return raw


def location(
    database: _Path, uri: bool = False, level: Optional[int] = None, threads: Optional[int] = None, decoded_cache: Optional[int] = None
) -> Tuple[Union[str, bytes], bool]:
    """The name for a driver to open a database through Densite, and whether it is a URI. Arguments
    as for :func:`connect`; the VFS must be attached."""
    settings = {"level": level, "threads": threads, "decoded_cache": decoded_cache}
    given = "".join(f"&{name}={whole(name, value)}" for name, value in settings.items() if value is not None)
    if uri:
        name = os.fsdecode(database)
        if name.startswith("file:"):
            name, hash_mark, fragment = name.partition("#")
            before, mark, query = name.partition("?")
            own = query.split("&") if mark else []
            if not any(part.partition("=")[0] == "vfs" for part in own):
                own.append("vfs=densite")
            return before + "?" + "&".join(filter(None, own)) + given + hash_mark + fragment, True
    path = os.fspath(database)
    if path in ("", ":memory:", b"", b":memory:"):
        return path, uri
    from urllib.parse import quote  # noqa: PLC0415: imported only where it is needed

    # An absolute path needs two more slashes; otherwise the text after the first two would be a
    # host.
    raw = path_bytes(path)
    start = "file://" if raw.startswith(b"/") else "file:"
    return f"{start}{quote(raw)}?vfs=densite{given}", True

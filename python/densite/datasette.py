"""The plugin for Datasette: with this package installed, ``datasette app.db`` serves Densite files
like plain files.

Datasette opens its files before it calls any hook. So its driver module is replaced by one that
adds the VFS. A hook restricts the SQL of visitors: it refuses functions that change the log of a
database, that wait, or that reveal details of the process. Another adds the remote databases that
the plugin's configuration names.
"""

from __future__ import annotations

import re
from typing import Any

from datasette import database as _databases
from datasette import hookimpl

from . import attach
from ._connect import connect, location

#: From sqlite3.h: four actions of an authorizer, and its results.
_PRAGMA, _READ, _ATTACH, _FUNCTION, _OK, _DENY, _IGNORE = 19, 20, 24, 31, 0, 1, 2
_FUNCTIONS = {"densite_version"}
_TABLES = {"densite_log", "densite_columns", "densite_columns_few"}


class _Driver:
    """A driver's module that opens files through Densite."""

    def __init__(self, module: Any) -> None:
        attach(module)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def connect(self, name: str, *args: Any, uri: bool = False, **kwargs: Any) -> Any:
        if uri and name.startswith("file:") and "mode=memory" not in name:
            name, uri = location(name, True)  # type: ignore[assignment]
        elif uri and name == ":memory:":
            # With --crossdb, files are attached to it through its VFS.
            name = "file::memory:?vfs=densite"
        return self._module.connect(name, *args, uri=uri, **kwargs)


def _authorized(action: int, first: Any, second: Any, *_: Any) -> int:
    if action == _FUNCTION and second.lower().startswith("densite_") and second.lower() not in _FUNCTIONS:
        return _DENY
    if action == _READ and first.lower() in _TABLES:
        return _DENY
    return _OK


def _authorized_remote(action: int, first: Any, second: Any, *rest: Any) -> int:
    """Also hides the URL, which can have a secret in it."""
    if action == _PRAGMA and first.lower() == "database_list":
        return _DENY
    return _authorized(action, first, second, *rest)


@hookimpl
def prepare_connection(conn: Any, database: Any, datasette: Any) -> None:
    remote = [db for db in datasette.databases.values() if isinstance(db, _Remote)]

    def authorized_memory(action: int, first: Any, *rest: Any) -> int:
        """Passes over remote databases with --crossdb: it would attach them without their secrets."""
        if action == _ATTACH and any(first.startswith(f"file:{db.path}?") for db in remote):
            return _IGNORE
        return _authorized(action, first, *rest)

    of_one = datasette.databases.get(database)
    if isinstance(of_one, _Remote):
        conn.set_authorizer(_authorized_remote)
    elif of_one is not None and of_one.is_memory:
        conn.set_authorizer(authorized_memory)
    else:
        conn.set_authorizer(_authorized)


class _Remote(_databases.Database):  # type: ignore[misc]
    """A remote database. Datasette's own class asks the disk about its files."""

    hash = None
    mtime_ns = None

    def __init__(self, ds: Any, url: str) -> None:
        # Datasette shows the path. A query can be secret; within a URI its mark is encoded.
        shown = re.split(r"\?|#|%3[Ff]", url)[0]
        super().__init__(ds, path=shown, is_mutable=False)
        self._url = url
        con = self.connect()
        self.cached_size = con.execute("SELECT value FROM densite_info WHERE name IN ('stored_bytes', 'size')").fetchone()[0]

    def connect(self, write: bool = False) -> Any:
        con = connect(self._url, uri=self._url.startswith("file:"), check_same_thread=False)
        self._all_file_connections.append(con)
        return con

    async def attached_databases(self) -> Any:
        return []


@hookimpl
def startup(datasette: Any) -> None:
    configuration = datasette.plugin_config("densite") or {}
    for name, url in configuration.get("databases", {}).items():
        datasette.add_database(_Remote(datasette, url), name=name)


_databases.sqlite3 = _Driver(_databases.sqlite3)

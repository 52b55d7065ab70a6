"""The plugin for Datasette: with this package installed, ``datasette app.db`` serves Densite files
like plain files.

Datasette opens its files before it calls any hook. So its driver module is replaced by one that
adds the VFS. The hook restricts the SQL of visitors: it refuses functions that change the log of a
database, that wait, or that reveal details of the process.
"""

from __future__ import annotations

from typing import Any

from datasette import database as _databases
from datasette import hookimpl

from . import attach
from ._connect import location

#: From sqlite3.h: two actions of an authorizer, and its results.
_READ, _FUNCTION, _OK, _DENY = 20, 31, 0, 1
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
        return self._module.connect(name, *args, uri=uri, **kwargs)


def _authorized(action: int, first: Any, second: Any, *_: Any) -> int:
    if action == _FUNCTION and second.lower().startswith("densite_") and second.lower() not in _FUNCTIONS:
        return _DENY
    if action == _READ and first.lower() in _TABLES:
        return _DENY
    return _OK


@hookimpl
def prepare_connection(conn: Any) -> None:
    conn.set_authorizer(_authorized)


_databases.sqlite3 = _Driver(_databases.sqlite3)

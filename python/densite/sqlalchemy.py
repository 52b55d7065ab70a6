"""SQLAlchemy's SQLite dialect, with files opened through Densite.

    engine = sqlalchemy.create_engine("sqlite+densite:///app.db?level=9")
    engine = sqlalchemy.ext.asyncio.create_async_engine("sqlite+densite:///app.db")     # with aiosqlite

The path is that of ``sqlite:///``; it can also be the URL of a remote database. Parameters are those
that SQLAlchemy passes to sqlite3.connect, such as ``timeout``, and those of Densite's URI
(docs/reference.md), such as ``level``. ``uri=true`` is not needed.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Type
from urllib.parse import quote, urlencode

from sqlalchemy import URL
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from . import attach
from ._connect import location

#: The parameters that SQLAlchemy passes to sqlite3.connect.
_DRIVERS = {"timeout", "isolation_level", "detect_types", "check_same_thread", "cached_statements"}


class _OpensThroughDensite(SQLiteDialect_pysqlite):
    driver = "densite"
    supports_statement_cache = True

    def create_connect_args(self, url: URL) -> Any:
        attach(sqlite3)
        drivers = {name: value for name, value in url.query.items() if name in _DRIVERS}
        parameters = {name: value for name, value in url.query.items() if name not in {*_DRIVERS, "uri"}}
        # SQLAlchemy checks the URL, makes the path absolute, and converts the driver's parameters.
        (path,), options = super().create_connect_args(url.set(query=drivers))
        database = url.database or ""
        is_uri = database.startswith("file:")
        name, options["uri"] = location(database if is_uri or "://" in database else path, is_uri)
        if options["uri"] and parameters:
            name = f"{name}&{urlencode(parameters, quote_via=quote)}"
        return [name], options


class DensiteDialect(_OpensThroughDensite):
    supports_statement_cache = True

    @classmethod
    def get_async_dialect_cls(cls, url: URL) -> Type[AsyncDensiteDialect]:  # noqa: ARG003: SQLAlchemy's name
        return AsyncDensiteDialect


class AsyncDensiteDialect(_OpensThroughDensite, SQLiteDialect_aiosqlite):
    """The dialect that ``create_async_engine`` finds by the same URL."""

    supports_statement_cache = True

"""Bulk insert."""

from __future__ import annotations

import re
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import _native
from ._attach import attach
from ._columns import Set, sets

#: Told how many rows were read so far.
Progress = Callable[[int], Any]

_CONFLICTS = ("abort", "fail", "ignore", "replace", "rollback")


class _Table(NamedTuple):
    """What is known of the target."""

    name: str
    columns: List[str]
    #: Columns to sort by, with flags (1 descending, 2 without regard to case).
    key: List[Tuple[str, int]]
    #: Whether the order of rows means nothing for the result but for which row is in the way of another with the same key.
    any_order: bool
    has_triggers: bool


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def module_of(con: Any) -> Any:
    """The driver's module: sqlite3, pysqlite3 or what a connection's class comes from."""
    for kind in type(con).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in ("sqlite3", "_sqlite3"):
            import sqlite3  # noqa: PLC0415

            return sqlite3
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "connect") and hasattr(module, "DataError"):
            return module
    import sqlite3  # noqa: PLC0415

    raise sqlite3.NotSupportedError(
        f"a connection of type {type(con).__module__}.{type(con).__qualname__} is none of a driver that densite knows; "
        "use one of sqlite3 or pysqlite3, from densite.connect or after densite.attach"
    )


def cursor_of(con: Any, module: Any) -> Any:
    """A cursor with plain rows, on a connection that knows the library's functions."""
    attach(module)
    cursor = con.cursor()
    cursor.row_factory = None
    try:
        cursor.execute("SELECT densite_host()").fetchall()
    except module.Error as error:
        if "belongs to process" in str(error):
            raise module.ProgrammingError(str(error)) from None
        if "no such function" not in str(error):
            raise
        raise module.NotSupportedError(
            "this connection was opened before densite.attach(); open it by densite.connect, or call densite.attach() first"
        ) from None
    return cursor


def _missing(ask: Callable[..., List[Any]], schema: str, table: str) -> str:
    """What to say of a table that is not there: it may be in another schema, or the schema written into its name."""
    text = f"no such table: {table if schema == 'main' else f'{schema}.{table}'}"
    other, _, name = table.rpartition(".")
    where = [found for (found,) in ask("SELECT schema FROM pragma_table_list WHERE name = ? COLLATE NOCASE", name) if found != schema]
    if other:
        where = [found for found in where if found.lower() == other.lower()] or where
    return f'{text}; there is one in the schema {where[0]}: insert(con, "{name}", data, schema="{where[0]}")' if where else text


def _described(cursor: Any, schema: str, table: str, module: Any) -> _Table:
    def ask(sql: str, *parameters: Any) -> List[Any]:
        rows = cursor.execute(sql, parameters).fetchall()
        return [tuple(v.decode() if isinstance(v, bytes) else v for v in row) for row in rows]

    found = ask("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?, ?)", table, schema)
    if not found:
        raise module.OperationalError(_missing(ask, schema, table))
    columns = [name for name, _, _, hidden in found if hidden == 0]
    indexes = ask('SELECT name, "unique", origin, partial FROM pragma_index_list(?, ?)', table, schema)
    unique = [name for name, is_unique, _, partial in indexes if is_unique and not partial]
    primary = [name for name, _, origin, _ in indexes if origin == "pk"]
    alias = [name for name, _, pk, _ in found if pk]
    key: List[Tuple[str, int]] = []
    if primary or (unique and not alias):
        for name, descending, collation in ask(
            'SELECT name, "desc", coll FROM pragma_index_xinfo(?, ?) WHERE key AND cid >= 0 ORDER BY seqno', (primary or unique)[0], schema
        ):
            key.append((name, (1 if descending else 0) | (2 if collation.upper() == "NOCASE" else 0)))
    elif alias:
        key = [(alias[0], 0)]
    triggers = ask(
        f"SELECT 1 FROM {quoted(schema)}.sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE"
        " UNION ALL SELECT 1 FROM temp.sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE LIMIT 1",
        table,
        table,
    )
    # An INTEGER PRIMARY KEY is unique without an index.
    rules = len([name for name, is_unique, _, _ in indexes if is_unique]) + (1 if alias and not primary else 0)
    return _Table(table, columns, key, rules <= 1 and not triggers, bool(triggers))


def insert(
    con: Any,
    table: str,
    data: Any,
    on_conflict: str = "abort",
    *,
    schema: str = "main",
    progress: Optional[Progress] = None,
) -> int:
    """Inserts many rows at native speed, all of them or none.

    Args:
        con: a connection of sqlite3 or pysqlite3, from :func:`densite.connect` or opened after :func:`densite.attach`.
        table: the table (a view with INSTEAD OF triggers, or a virtual table, will do).
        data: one of

            - what has ``__arrow_c_stream__`` or ``__arrow_c_array__``: pyarrow, polars, pandas (with pyarrow), duckdb;
            - a dict of columns by name, all of shape (n,): NumPy arrays and what else has a buffer, not copied if they are contiguous;
              sequences of Python values; a structured array; a pandas frame without pyarrow;
            - an iterable of rows: tuples or lists with a value for each column of the table, in its order; or dicts.

            Columns that are not given get their defaults. Integers, floating point (NaN becomes NULL), text, bytes, booleans (0 and 1), None.
            Dates are stored as ``2024-02-29``, timestamps as ``2024-02-29 12:30:00`` with 3, 6 or 9 digits of a fraction that is not zero (Python's: 6),
            with ``+00:00`` (and in UTC) if they have a time zone, times as ``12:30:00``, durations as integers of their unit; decimals as text with all
            their digits, which a column of NUMERIC affinity turns into a number and one of TEXT affinity keeps. Dictionary-encoded columns are stored
            as their values.
        on_conflict: what a row does that breaks a UNIQUE, NOT NULL or CHECK constraint, as in SQLite: ``abort`` (an exception, and nothing is
            inserted), ``ignore``, ``replace``, ``rollback`` (also rolls back the caller's transaction), ``fail`` (as ``abort`` here).
        schema: the database of the table: main, temp or an attached one's name.
        progress: called about every 65,536 rows with how many were read so far. What it raises stops the insert and is passed on.

    Rows are sorted by the table's primary key first (or its first unique index), where that cannot change the result: equal keys keep their order, and
    with ``ignore`` or ``replace`` nothing is sorted for a table with triggers or several unique keys. An Arrow stream is read 4 million rows at a
    time, an iterator 262,144; each such part is sorted by itself.

    All rows go in within one transaction: the caller's, if one is open (a savepoint undoes them if they fail), otherwise one that is committed at the end.

    Returns:
        how many rows were inserted.

    Raises:
        sqlite3.IntegrityError: a constraint; the message names row (from 0), columns and values, but for tables with triggers (SQLite reads all rows
            before it writes the first) and foreign keys that are deferred to the commit.
        sqlite3.DataError: a value that SQLite cannot store: an integer beyond 64 bits, text that is not UTF-8, a list; names column, row and value. Columns that differ
            in length.
        sqlite3.OperationalError: no such table or column; locked; no space.
        sqlite3.ProgrammingError: the data is none of the above, the connection is closed, or another process's (before a fork).
        sqlite3.NotSupportedError: the connection's driver is unknown, or the connection is older than densite.attach().
        Whatever it is, no row was inserted.
    """
    module = module_of(con)
    how = on_conflict.lower()
    if how not in _CONFLICTS:
        raise module.ProgrammingError(f"on_conflict is {on_conflict!r}; use one of {', '.join(_CONFLICTS)}")
    cursor = cursor_of(con, module)
    target = _described(cursor, schema, table, module)
    sort = how in ("abort", "fail", "rollback") and not target.has_triggers or target.any_order
    own = not con.in_transaction
    cursor.execute("BEGIN IMMEDIATE" if own and schema != "temp" else "BEGIN" if own else "SAVEPOINT densite_insert")
    inserted, read = 0, 0
    try:
        for part in sets(data, target.columns, module):
            inserted += _insert_part(cursor, schema, target, part, how, sort, read, progress, module)
            read += part.rows
        cursor.execute("COMMIT" if own else "RELEASE densite_insert")
    except BaseException:
        # A conflict may have ended the transaction already.
        if con.in_transaction:
            if own:
                cursor.execute("ROLLBACK")
            else:
                cursor.execute("ROLLBACK TO densite_insert")
                cursor.execute("RELEASE densite_insert")
        raise
    finally:
        cursor.close()
    return inserted


def _insert_part(
    cursor: Any, schema: str, target: _Table, part: Set, how: str, sort: bool, before: int, progress: Optional[Progress], module: Any
) -> int:
    folded = {name.lower(): name for name in target.columns}
    unknown = [name for name in part.names if name.lower() not in folded]
    if unknown:
        raise module.OperationalError(f"table {target.name} has no column {unknown[0]}; its columns are {', '.join(target.columns)}")
    places = {name.lower(): place for place, name in enumerate(part.names)}
    if len(places) < len(part.names):
        raise module.ProgrammingError(f"the data has a column twice: {', '.join(part.names)}")
    if not part.names:
        return 0
    if sort:
        keys = []
        for name, flags in target.key:
            if name.lower() not in places:
                break
            keys.append((places[name.lower()], flags))
        part.sort(keys)
    raised: List[BaseException] = []

    # Always there: only while Python code runs does Python see Ctrl-C.
    @_native.Rows
    def tell(_context: Any, rows: int) -> int:
        try:
            if progress is not None:
                progress(before + rows)
        except BaseException as error:  # noqa: BLE001: it is raised again when the statement has ended
            raised.append(error)
            return 1
        return 0

    part.progress(tell)
    names = ", ".join(map(quoted, part.names))
    values = ", ".join(f"c{i}" for i in range(len(part.names)))
    # Nothing stays of a statement that fails, so "fail" would only leave rows to be undone.
    word = "ABORT" if how == "fail" else how.upper()
    sql = f"INSERT OR {word} INTO {quoted(schema)}.{quoted(target.name)} ({names}) SELECT {values} FROM {part.function}(?)"
    try:
        cursor.execute(sql, (part.handle,))
        return int(cursor.rowcount)
    except (module.IntegrityError, module.DataError) as error:
        raise _with_row(error, cursor, schema, target, part, places, module) from None
    except module.OperationalError:
        if raised:
            raise raised[0] from None
        raise


_NAMES = re.compile(r"(?:constraint failed: |column )(.+)$")


def _with_row(error: Exception, cursor: Any, schema: str, target: _Table, part: Set, places: Any, module: Any) -> Exception:
    """The same error, telling the row that was in the way where that can be known."""
    said = str(error)
    if "FOREIGN KEY" in said:
        # SQLite counts them and looks when the statement ends; it does not say which row.
        values = _orphan(cursor, schema, target, part, places, module)
        if not values:
            return error
    elif target.has_triggers:
        # SQLite reads all rows before it writes the first.
        return error
    else:
        names = _NAMES.search(said)
        columns = [name.rpartition(".")[2].strip() for name in names.group(1).split(",")] if names else []
        values = [f"{name} is {part.last_value(places[name.lower()])}" for name in columns if name.lower() in places]
    told = type(error)(f"row {part.last_row()}: {said}{'; ' if values else ''}{', '.join(values)}")
    for attribute in ("sqlite_errorcode", "sqlite_errorname"):
        if hasattr(error, attribute):
            setattr(told, attribute, getattr(error, attribute))
    return told


def _orphan(cursor: Any, schema: str, target: _Table, part: Set, places: Any, module: Any) -> List[str]:
    """Has the columns' cursor stand on the first row that refers to a row that is not there; what it refers to, in words. Nothing is inserted yet."""
    part.progress(None)
    keys: Dict[int, List[Tuple[str, str, Optional[str]]]] = {}
    for number, parent, child, referred in cursor.execute(
        'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?, ?) ORDER BY id DESC, seq', (target.name, schema)
    ).fetchall():
        keys.setdefault(number, []).append((parent, child, referred))
    for key in keys.values():
        parent = key[0][0]
        primary = cursor.execute("SELECT name FROM pragma_table_info(?, ?) WHERE pk ORDER BY pk", (parent, schema)).fetchall()
        pairs = [(child, referred or primary[i][0]) for i, (_, child, referred) in enumerate(key) if referred or i < len(primary)]
        if len(pairs) < len(key) or any(child.lower() not in places for child, _ in pairs):
            continue
        column = {child: f"k.c{places[child.lower()]}" for child, _ in pairs}
        terms = [f"{place} IS NOT NULL" for place in column.values()]
        same = " AND ".join(f"p.{quoted(referred)} = {column[child]}" for child, referred in pairs)
        terms.append(f"NOT EXISTS (SELECT 1 FROM {quoted(schema)}.{quoted(parent)} p WHERE {same})")
        if parent.lower() == target.name.lower():
            # The row that is referred to may be among those that were to come.
            if len(pairs) > 1 or pairs[0][1].lower() not in places:
                continue
            other = f"c{places[pairs[0][1].lower()]}"
            terms.append(f"{column[pairs[0][0]]} NOT IN (SELECT {other} FROM {part.function}({part.handle}) WHERE {other} IS NOT NULL)")
        try:
            found = cursor.execute(f"SELECT k.rowid FROM {part.function}({part.handle}) k WHERE {' AND '.join(terms)} LIMIT 1").fetchall()
            if found:
                # To that row and no further, so that it is the one that was read last.
                cursor.execute(f"SELECT 1 FROM {part.function}({part.handle}) LIMIT 1 OFFSET ?", found[0]).fetchall()
                return [
                    f"{', '.join(f'{child} is {part.last_value(places[child.lower()])}' for child, _ in pairs)}, "
                    f"which {parent} has not as {', '.join(referred for _, referred in pairs)}"
                ]
        except module.Error:
            # A parent that is missing, or has other columns: the first error says so.
            continue
    return []

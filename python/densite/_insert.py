"""Bulk insert."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import _aside, _native
from ._change import Change
from ._columns import Set, sets
from ._driver import ask, closed_after, cursor_of, has_transaction, module_of, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

#: Told how many rows were read so far.
Progress = Callable[[int], Any]

#: A statement that reads so many rows is over soon: Ctrl-C is seen at its end.
_FEW_ROWS = 1 << 16

#: All or nothing: which of two rows is in the other's way does not matter.
_ABORTING = ("abort", "fail", "rollback")
_CONFLICTS = (*_ABORTING, "ignore", "replace")


class _Key(NamedTuple):
    """A column to sort by."""

    name: str
    #: 1 descending, 2 without regard to case.
    flags: int
    #: Which types its values may have (each a sum as :meth:`Set.types`) so that those equal in the table are equal in sorting, and keep their order.
    stable: Tuple[int, ...]
    #: An INTEGER PRIMARY KEY: NULL becomes the next number, which depends on the rows before it.
    is_rowid: bool = False
    #: NOT NULL with a DEFAULT: with ``replace`` NULL becomes that, which other rows may have as it is.
    has_default: bool = False


class _Table(NamedTuple):
    """What is known of the target."""

    name: str
    columns: List[str]
    key: List[_Key]
    #: Whether the order of rows means nothing for the result but for which row is in the way of another with the same key.
    any_order: bool
    has_triggers: bool
    #: Whether SQLite, which looks at foreign keys when a statement ends, may find a row's parent among rows of the same statement that come later.
    needs_all: bool


def _stable(declared: str, is_strict: bool, collation: str) -> Tuple[int, ...]:
    """See :class:`_Key`: sorting looks at values as they are given, the table at what its affinity makes of them (integers 1, floating point 2, text 4,
    blobs 8), by its collation."""
    kind = declared.upper()
    if "INT" in kind:
        types: Tuple[int, ...] = (11,)
    elif any(part in kind for part in ("CHAR", "CLOB", "TEXT")):
        # Of numbers among text, or floating point, which is rounded, several may become one text.
        types = (9, 12)
    elif not kind or "BLOB" in kind or (is_strict and kind == "ANY"):
        types = (15,)
    else:
        # Integers beyond 2^53 may become one number.
        types = (10,) if any(part in kind for part in ("REAL", "FLOA", "DOUB")) else (11,)
    if collation.upper() in ("BINARY", "NOCASE"):
        return types
    # It says by itself which texts are equal.
    return (8,) if types == (9, 12) else (types[0] & ~4,)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def folded(name: str) -> str:
    """A name as SQLite compares names: only A to Z have another case."""
    return name.lower() if name.isascii() else "".join(letter.lower() if letter.isascii() else letter for letter in name)


def _missing(cursor: Any, schema: str, table: str) -> str:
    """What to say of a table that is not there: it may be in another schema, or the schema written into its name."""
    said = f"no such table: {table if schema == 'main' else f'{schema}.{table}'}"
    other, _, name = table.rpartition(".")
    where = [found for (found,) in ask(cursor, f"SELECT {text('schema')} FROM pragma_table_list WHERE name = ? COLLATE NOCASE", name) if found != schema]
    if other:
        where = [found for found in where if found.lower() == other.lower()] or where
    return f'{said}; there is one in the schema {where[0]}: insert(con, "{name}", data, schema="{where[0]}")' if where else said


def _described(cursor: Any, schema: str, table: str, module: Any) -> _Table:
    found = ask(cursor, f"SELECT {text('name')}, {text('type')}, pk, hidden, \"notnull\" AND dflt_value IS NOT NULL FROM pragma_table_xinfo(?, ?)", table, schema)
    if not found:
        raise module.OperationalError(_missing(cursor, schema, table))
    columns = [name for name, _, _, hidden, _ in found if hidden == 0]
    defaults = {name for name, *_, has_default in found if has_default}
    indexes = ask(cursor, f'SELECT {text("name")}, "unique", {text("origin")}, partial FROM pragma_index_list(?, ?)', table, schema)
    unique = [name for name, is_unique, _, partial in indexes if is_unique and not partial]
    primary = [name for name, _, origin, _ in indexes if origin == "pk"]
    alias = [name for name, _, pk, *_ in found if pk]
    declared = {name: kind or "" for name, kind, *_ in found}
    (is_strict,) = (ask(cursor, "SELECT strict FROM pragma_table_list(?) WHERE schema = ? COLLATE NOCASE", table, schema) or [(0,)])[0]
    key: List[_Key] = []
    if primary or (unique and not alias):
        columns_of = f'SELECT {text("name")}, "desc", {text("coll")} FROM pragma_index_xinfo(?, ?) WHERE key AND cid >= 0 ORDER BY seqno'
        for name, descending, collation in ask(cursor, columns_of, (primary or unique)[0], schema):
            flags = (1 if descending else 0) | (2 if collation.upper() == "NOCASE" else 0)
            key.append(_Key(name, flags, _stable(declared[name], bool(is_strict), collation), has_default=name in defaults))
    elif alias:
        key = [_Key(alias[0], 0, (11,), is_rowid=True)]
    triggers = ask(
        cursor,
        f"SELECT 1 FROM {quoted(schema)}.sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE"
        " UNION ALL SELECT 1 FROM temp.sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE LIMIT 1",
        table,
        table,
    )
    # An INTEGER PRIMARY KEY is unique without an index.
    rules = len([name for name, is_unique, _, _ in indexes if is_unique]) + (1 if alias and not primary else 0)
    # A row that is replaced may take others of the table with it.
    parents = [folded(parent) for (parent,) in ask(cursor, f'SELECT {text("table")} FROM pragma_foreign_key_list(?, ?)', table, schema)]
    refers_to_itself = folded(table) in parents
    # A trigger may add the parent.
    needs_all = bool(refers_to_itself or (parents and triggers)) and bool(ask(cursor, "PRAGMA foreign_keys")[0][0])
    return _Table(table, columns, key, rules <= 1 and not triggers and not refers_to_itself, bool(triggers), needs_all)


def _is_followed(cursor: Any, schema: str, table: str) -> bool:
    """Whether rows of other tables go, or change, with those of this one, by foreign keys: they may take further rows of this one with them."""
    if not ask(cursor, "PRAGMA foreign_keys")[0][0]:
        return False
    followers = (
        "SELECT 1 FROM pragma_table_list AS l JOIN pragma_foreign_key_list(l.name, l.schema) AS k WHERE l.schema = ? COLLATE NOCASE"
        " AND k.\"table\" = ? COLLATE NOCASE AND k.on_delete NOT IN ('NO ACTION', 'RESTRICT') LIMIT 1"
    )
    return bool(ask(cursor, followers, schema, table))


def insert(
    con: sqlite3.Connection,
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
              sequences of Python values; a structured array; a pandas frame without pyarrow. Of pandas' index only what has a name is a column;
            - an iterable of rows: tuples or lists with a value for each column of the table, in its order; or dicts.

            Each value keeps its own type, also where a column has several (as ``object`` in pandas and polars), and the column's affinity converts it, as
            with sqlite3's executemany. Arrow data has one type a column.

            999 columns at most; those that are not given get their defaults. Integers, floating point (NaN becomes NULL), text, bytes, booleans (0 and 1), None.
            Dates are stored as ``2024-02-29``, timestamps as ``2024-02-29 12:30:00`` with the fewest of 3, 6 or 9 digits that hold a fraction which is not zero,
            with ``+00:00`` (and in UTC) if they have a time zone, times as ``12:30:00``, durations as integers of their unit; decimals as text with all
            their digits, which a column of NUMERIC affinity turns into a number and one of TEXT affinity keeps. Dictionary-encoded columns are stored
            as their values.
        on_conflict: what a row does that breaks a UNIQUE, NOT NULL or CHECK constraint, as in SQLite: ``abort`` (an exception, and nothing is
            inserted), ``ignore``, ``replace``, ``rollback`` (also rolls back the caller's transaction), ``fail`` (as ``abort`` here). As in SQLite it goes
            before an ON CONFLICT of the table's own.
        schema: the database of the table: main, temp or an attached one's name.
        progress: called about every 65,536 rows with how many were read so far. What it raises stops the insert and is passed on. Neither it nor an iterator
            of rows may close the connection or end its transaction.

    Rows are sorted by the table's primary key first (or its first unique index), where that cannot change the result: equal keys keep their order, and
    with ``ignore`` or ``replace`` nothing is sorted for a table with triggers, several unique keys, a reference to itself or (``replace``) others with ON DELETE
    to it, nor where keys that differ
    may be equal in the table (numbers and text in a column, text in one of numbers, a collation of your own); nor by an INTEGER PRIMARY KEY with NULLs, which
    become the next number, nor with ``replace`` by a NOT NULL column with NULLs, which become its DEFAULT. An Arrow stream is read 4 million rows at a
    time, an iterator 262,144; each such part is sorted by itself. All of it is one part where the table refers to itself, or has foreign keys and triggers,
    and foreign_keys is on: a row's parent may come later.

    On a connection that other threads may use the statement runs on a thread of its own; `progress` is called on the caller's.

    As in one statement of SQLite's, foreign keys are looked at when all rows of a part are there: with ``replace`` a row without a parent may be replaced by
    a later one.

    All rows go in within one transaction: the caller's, if one is open (a savepoint undoes them if they fail), otherwise one that is committed at the end,
    for which ``PRAGMA defer_foreign_keys`` holds if it was set just before.

    Returns:
        how many rows were inserted.

    Raises:
        sqlite3.IntegrityError: a constraint; the message names row (from 0), columns and values (of CHECK the row's), but for tables with triggers (SQLite reads all rows
            before it writes the first) and foreign keys that are deferred to the commit.
        sqlite3.DataError: a value that SQLite cannot store: an integer beyond 64 bits, text that is not UTF-8, a list, tuple, dict, complex number or other object; names column, row and value. Columns that differ
            in length.
        sqlite3.OperationalError: no such table or column; locked; no space.
        sqlite3.ProgrammingError: the data is none of the above, the connection is closed, or another process's (before a fork).
        sqlite3.NotSupportedError: the connection's driver is unknown, or the connection is older than densite.attach().
        Whatever it is, no row was inserted.
    """
    module = module_of(con)
    for what, name in (("table", table), ("schema", schema)):
        if not isinstance(name, str):
            raise module.ProgrammingError(f"{what} is {name!r}; it is a name, as text")
    how = on_conflict.lower() if isinstance(on_conflict, str) else on_conflict
    if how not in _CONFLICTS:
        raise module.ProgrammingError(f"on_conflict is {on_conflict!r}; use one of {', '.join(_CONFLICTS)}")
    with closed_after(cursor_of(con, module), module) as cursor:
        own = not con.in_transaction
        begin = "BEGIN IMMEDIATE" if own and schema != "temp" else "BEGIN" if own else "SAVEPOINT densite_insert"
        begun, inserted, read = own, 0, 0
        try:
            # Within, for Ctrl-C may come between it and whatever follows.
            cursor.execute(begin)
            begun = True
            # Within too: a SELECT before it would end what PRAGMA defer_foreign_keys says.
            target = _described(cursor, schema, table, module)
            sort = how in _ABORTING and not target.has_triggers or target.any_order and not (how == "replace" and _is_followed(cursor, schema, table))
            shared = _aside.may_be_shared(con, module)
            for part in sets(data, target.columns, module, whole=target.needs_all):
                inserted += _insert_part(con, cursor, schema, target, part, how, sort, read, progress, shared, module)
                read += part.rows
            cursor.execute("COMMIT" if own else "RELEASE densite_insert")
        except BaseException:
            # A conflict may have ended the transaction already.
            if begun and has_transaction(con, module):
                if own:
                    cursor.execute("ROLLBACK")
                else:
                    cursor.execute("ROLLBACK TO densite_insert")
                    cursor.execute("RELEASE densite_insert")
            raise
    return inserted


def _insert_part(
    con: Any, cursor: Any, schema: str, target: _Table, part: Set, how: str, sort: bool, before: int, progress: Optional[Progress], shared: bool, module: Any
) -> int:
    known = set(map(folded, target.columns))
    places = {folded(name): place for place, name in enumerate(part.names)}
    unknown = [name for name in part.names if folded(name) not in known]
    if unknown:
        shown = unknown[0] if unknown[0].isprintable() and unknown[0] else repr(unknown[0])
        raise module.OperationalError(f"table {target.name} has no column {shown}; its columns are {', '.join(target.columns)}")
    if len(places) < len(part.names):
        raise module.ProgrammingError(f"the data has a column twice: {', '.join(part.names)}")
    if not part.names:
        return 0
    if sort:
        keys = []
        for key in target.key:
            place = places.get(folded(key.name))
            if place is None or ((key.is_rowid or (key.has_default and how == "replace")) and part.has_null(place)):
                break
            if how not in _ABORTING and not any(part.types(place) | allowed == allowed for allowed in key.stable):
                break
            keys.append((place, key.flags))
        part.sort(keys)
    names = ", ".join(map(quoted, part.names))
    values = ", ".join(f"c{i}" for i in range(len(part.names)))
    # Nothing stays of a statement that fails, so "fail" would only leave rows to be undone.
    word = "ABORT" if how == "fail" else how.upper()
    sql = f"INSERT OR {word} INTO {quoted(schema)}.{quoted(target.name)} ({names}) SELECT {values} FROM {part.function}"
    tell = None if progress is None else lambda rows: _tell(progress, before + rows, con, module)
    try:
        if tell is None and not shared and part.rows <= _FEW_ROWS:
            # Nothing of Python's is called meanwhile.
            cursor.execute(f"{sql}(?)", (part.handle,))
            return int(cursor.rowcount)
        with Change(cursor, f"{sql}({part.handle})") as change:
            (_aside.run if shared else _run)(change, part, tell)
            return change.rows
    except (module.IntegrityError, module.DataError) as error:
        raise _with_row(error, cursor, schema, target, part, places, module) from None


def _tell(progress: Progress, rows: int, con: Any, module: Any) -> None:
    """Calls the caller's function, which must leave the connection open."""
    progress(rows)
    try:
        con.in_transaction  # noqa: B018: of a closed connection there is no answer
    except module.ProgrammingError:
        raise module.ProgrammingError("progress closed the connection; nothing was inserted") from None


def _run(change: Change, part: Set, tell: Optional[Progress]) -> None:
    """Runs a statement that reads a set, as :func:`_aside.run` does, on this thread alone."""
    # Always there: only while Python code runs does Python see Ctrl-C.
    listener = _native.Listener(lambda told: tell(told.done) if tell is not None else None)
    part.progress(listener)
    change.run()
    if listener.raised:
        raise listener.raised[0]
    change.check()


#: How many columns of a row are shown where SQLite does not name one.
_SHOWN = 10
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
        if "datatype mismatch" in said:
            # Of an INTEGER PRIMARY KEY, which is what a row is found by and cannot be anything else.
            columns = [key.name for key in target.key[:1]]
        known = set(map(folded, target.columns))
        values = [f"{name} is {part.last_value(places[folded(name)]) if folded(name) in places else 'not given'}" for name in columns if folded(name) in known]
        if not values:
            # A CHECK, an index on an expression, a row that is too long: whichever columns it is about, they are among these.
            values = [f"{name} is {part.last_value(place)}" for place, name in enumerate(part.names[:_SHOWN])]
            values += ["..."] * (len(part.names) > _SHOWN)
    told = type(error)(f"row {part.last_row()}: {said}{'; ' if values else ''}{', '.join(values)}")
    for attribute in ("sqlite_errorcode", "sqlite_errorname"):
        if hasattr(error, attribute):
            setattr(told, attribute, getattr(error, attribute))
    return told


def _orphan(cursor: Any, schema: str, target: _Table, part: Set, places: Any, module: Any) -> List[str]:
    """Has the columns' cursor stand on the first row that refers to a row that is not there; what it refers to, in words. Nothing is inserted yet."""
    part.progress(None)
    keys: Dict[int, List[Tuple[str, str, Optional[str]]]] = {}
    parts = f"SELECT id, {text('table')}, {text('from')}, {text('to')} FROM pragma_foreign_key_list(?, ?) ORDER BY id DESC, seq"
    for number, parent, child, referred in ask(cursor, parts, target.name, schema):
        keys.setdefault(number, []).append((parent, child, referred))
    for key in keys.values():
        parent = key[0][0]
        primary = ask(cursor, f"SELECT {text('name')} FROM pragma_table_info(?, ?) WHERE pk ORDER BY pk", parent, schema)
        pairs = [(child, referred or primary[i][0]) for i, (_, child, referred) in enumerate(key) if referred or i < len(primary)]
        if len(pairs) < len(key) or any(folded(child) not in places for child, _ in pairs):
            continue
        column = {child: f"k.c{places[folded(child)]}" for child, _ in pairs}
        terms = [f"{place} IS NOT NULL" for place in column.values()]
        same = " AND ".join(f"p.{quoted(referred)} = {column[child]}" for child, referred in pairs)
        terms.append(f"NOT EXISTS (SELECT 1 FROM {quoted(schema)}.{quoted(parent)} p WHERE {same})")
        if folded(parent) == folded(target.name):
            # The row that is referred to may be among those that were to come.
            if len(pairs) > 1 or folded(pairs[0][1]) not in places:
                continue
            other = f"c{places[folded(pairs[0][1])]}"
            terms.append(f"{column[pairs[0][0]]} NOT IN (SELECT {other} FROM {part.function}({part.handle}) WHERE {other} IS NOT NULL)")
        try:
            found = cursor.execute(f"SELECT k.rowid FROM {part.function}({part.handle}) k WHERE {' AND '.join(terms)} LIMIT 1").fetchall()
            if found:
                # To that row and no further, so that it is the one that was read last.
                cursor.execute(f"SELECT 1 FROM {part.function}({part.handle}) LIMIT 1 OFFSET ?", found[0]).fetchall()
                return [
                    f"{', '.join(f'{child} is {part.last_value(places[folded(child)])}' for child, _ in pairs)}, "
                    f"which {parent} has not as {', '.join(referred for _, referred in pairs)}"
                ]
        except module.Error:
            # A parent that is missing, or has other columns: the first error says so.
            continue
    return []

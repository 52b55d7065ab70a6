"""Bulk insert."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import _aside, _native
from ._change import Change
from ._columns import Set, sets
from ._driver import ask, closed_after, cursor_of, has_transaction, module_of, text
from ._turns import turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

#: Called with the number of rows read so far.
Progress = Callable[[int], Any]

#: A statement that reads this few rows ends soon, so Ctrl-C is handled at its end.
_FEW_ROWS = 1 << 16

#: Nothing is inserted after an error, so it does not matter which of two conflicting rows comes
#: first.
_ABORTING = ("abort", "fail", "rollback")
_CONFLICTS = (*_ABORTING, "ignore", "replace")


class _Key(NamedTuple):
    """A column to sort by."""

    name: str
    #: 1 descending, 2 ignoring case.
    flags: int
    #: The types that its values can have (each a sum as from :meth:`Set.types`) so that values that
    #: are equal in the table are also equal in sorting and keep their order.
    stable: Tuple[int, ...]
    #: An INTEGER PRIMARY KEY: NULL becomes the next number, which depends on the rows before it.
    is_rowid: bool = False
    #: NOT NULL with a DEFAULT: with ``replace`` NULL becomes the default, which other rows can have
    #: too.
    has_default: bool = False


class _Table(NamedTuple):
    """The properties of the target."""

    name: str
    columns: List[str]
    key: List[_Key]
    #: Whether the order of rows affects only which of two rows with the same key stays.
    any_order: bool
    has_triggers: bool
    #: Whether SQLite can find the parent of a row among later rows of the same statement, because
    #: it checks foreign keys when a statement ends.
    needs_all: bool


def _stable(declared: str, is_strict: bool, collation: str) -> Tuple[int, ...]:
    """See :class:`_Key`: sorting compares the given values, but the table compares them after its
    affinity has converted them (integers 1, floating point 2, text 4, blobs 8), with its
    collation."""
    kind = declared.upper()
    if "INT" in kind:
        types: Tuple[int, ...] = (11,)
    elif any(part in kind for part in ("CHAR", "CLOB", "TEXT")):
        # Several numbers among text, or several rounded floating point numbers, can become one
        # text.
        types = (9, 12)
    elif not kind or "BLOB" in kind or (is_strict and kind == "ANY"):
        types = (15,)
    else:
        # Several integers beyond 2^53 can become one number.
        types = (10,) if any(part in kind for part in ("REAL", "FLOA", "DOUB")) else (11,)
    if collation.upper() in ("BINARY", "NOCASE"):
        return types
    # The collation itself decides which texts are equal.
    return (8,) if types == (9, 12) else (types[0] & ~4,)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def folded(name: str) -> str:
    """A name in the form in which SQLite compares names: only A to Z have two cases."""
    return name.lower() if name.isascii() else "".join(letter.lower() if letter.isascii() else letter for letter in name)


def _missing(cursor: Any, schema: str, table: str) -> str:
    """The message for a missing table: it can be in another schema, or the schema can be part of
    the name."""
    said = f"no such table: {table if schema == 'main' else f'{schema}.{table}'}"
    other, _, name = table.rpartition(".")
    where = [found for (found,) in ask(cursor, f"SELECT {text('schema')} FROM pragma_table_list WHERE name = ? COLLATE NOCASE", name) if found != schema]
    if other:
        where = [found for found in where if found.lower() == other.lower()] or where
    return f'{said}; there is one in the schema {where[0]}: use insert(con, "{name}", data, schema="{where[0]}")' if where else said


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
    # Replacing a row can delete other rows of the table.
    parents = [folded(parent) for (parent,) in ask(cursor, f'SELECT {text("table")} FROM pragma_foreign_key_list(?, ?)', table, schema)]
    refers_to_itself = folded(table) in parents
    # A trigger can add the parent.
    needs_all = bool(refers_to_itself or (parents and triggers)) and bool(ask(cursor, "PRAGMA foreign_keys")[0][0])
    return _Table(table, columns, key, rules <= 1 and not triggers and not refers_to_itself, bool(triggers), needs_all)


def _is_followed(cursor: Any, schema: str, table: str) -> bool:
    """Whether foreign keys delete or change rows of other tables together with rows of this one,
    which can delete further rows of this one."""
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
        con: a connection of sqlite3 or pysqlite3, from :func:`densite.connect` or opened after
            :func:`densite.attach`.
        table: the table; a view with INSTEAD OF triggers or a virtual table is also allowed.
        data: one of

            - objects with ``__arrow_c_stream__`` or ``__arrow_c_array__``: pyarrow, polars, pandas
              (with pyarrow), duckdb;
            - a dict of columns by name, all of shape (n,): NumPy arrays and other objects with a
              buffer, which are not copied if contiguous; sequences of Python values; a structured
              array; a pandas frame without pyarrow. Of a pandas index only named levels become
              columns;
            - an iterable of rows: tuples or lists with a value for each column of the table, in
              order; or dicts.

            Each value keeps its own type, even in a column with several types (``object`` in pandas
            and polars). The column's affinity converts it, as with executemany of sqlite3. Arrow
            data have one type for each column.

            At most 999 columns; missing columns get their defaults. Values are integers, floating
            point (NaN becomes NULL), text, bytes, booleans (0 and 1), and None. Dates are stored as
            ``2024-02-29``. Timestamps are stored as ``2024-02-29 12:30:00`` with the fewest of 3, 6
            or 9 digits that hold a nonzero fraction, and in UTC with ``+00:00`` if they have a time
            zone. Times are stored as ``12:30:00``, and durations as integers of their unit.
            Decimals are stored as text with all digits, which a column of NUMERIC affinity converts
            to a number and one of TEXT affinity keeps. Dictionary-encoded columns are stored as
            their values.
        on_conflict: what happens to a row that violates a UNIQUE, NOT NULL or CHECK constraint, as
            in SQLite: ``abort`` (an exception, and nothing is inserted), ``ignore``, ``replace``,
            ``rollback`` (also rolls back the caller's transaction), ``fail`` (here the same as
            ``abort``). As in SQLite it overrides an ON CONFLICT of the table.
        schema: the database of the table: main, temp, or the name of an attached one.
        progress: called about every 65,536 rows with the number of rows read so far. If it raises,
            the insert stops and the exception is passed on. Neither it nor an iterator of rows may
            close the connection or end its transaction.

    Rows are first sorted by the primary key of the table (or its first unique index) if this cannot
    change the result. Equal keys keep their order. Rows are not sorted in these cases:

    - the table has triggers;
    - the key is an INTEGER PRIMARY KEY with NULLs, which become the next number;
    - ``ignore`` or ``replace``, and the table has several unique keys or a reference to itself;
    - ``ignore`` or ``replace``, and different keys can be equal in the table: numbers and text in
      one column, text in a column of numbers, or a collation of your own;
    - ``replace``, and other tables refer to it with ON DELETE;
    - ``replace``, and a NOT NULL key column has NULLs, which become its DEFAULT.

    An Arrow stream is read 4 million rows at a time, a list of rows 1,048,576 and another iterable
    262,144. Each such part is sorted by itself. All data are one part if foreign_keys is on and the
    table refers to itself or has foreign keys and triggers, because the parent of a row can come
    later.

    On a connection that other threads can use, the statement runs on its own thread; `progress` is
    called on the caller's. Inserts of several threads on one connection wait for each other. What
    other threads write through the connection meanwhile belongs to the transaction of the insert.

    As in one statement of SQLite, foreign keys are checked when all rows of a part are there: with
    ``replace`` a later row can replace a row without a parent. If rows of other tables lacked their
    parent before, SQLite's count of violations depends on the order of rows: run ``PRAGMA
    foreign_key_check`` before you switch foreign keys on.

    All rows are inserted in one transaction. If the caller has one open, it is used, and a
    savepoint undoes the rows after an error. Otherwise a new one is committed at the end, and
    ``PRAGMA defer_foreign_keys`` applies to it if it was set just before.

    Returns:
        the number of inserted rows.

    Raises:
        sqlite3.IntegrityError: a constraint is violated. The message names row (from 0), columns
            and values (for CHECK those of the row). It does not for tables with triggers, because
            SQLite reads all rows before it writes the first, and for foreign keys that are deferred
            to the commit.
        sqlite3.DataError: SQLite cannot store a value: an integer beyond 64 bits, text that is not
            UTF-8, a list, tuple, dict, complex number or other object. The message names column,
            row and value. Also if columns differ in length.
        sqlite3.OperationalError: no such table or column; locked; no space.
        sqlite3.ProgrammingError: the data have none of these shapes; the connection is closed, or
            belongs to another process (before a fork).
        sqlite3.NotSupportedError: the connection's driver is unknown, or the connection was opened
            before densite.attach().
        After any error no row was inserted.
    """
    module = module_of(con)
    for what, name in (("table", table), ("schema", schema)):
        if not isinstance(name, str):
            raise module.ProgrammingError(f"{what} is {name!r}; give a name, as text")
    how = on_conflict.lower() if isinstance(on_conflict, str) else on_conflict
    if how not in _CONFLICTS:
        raise module.ProgrammingError(f"on_conflict is {on_conflict!r}; use one of {', '.join(_CONFLICTS)}")
    with turn(con), closed_after(cursor_of(con, module), module) as cursor:
        own = not con.in_transaction
        begin = "BEGIN IMMEDIATE" if own and schema != "temp" else "BEGIN" if own else "SAVEPOINT densite_insert"
        begun, inserted, read = own, 0, 0
        try:
            # Inside the try block, because Ctrl-C can come before the next statement.
            cursor.execute(begin)
            begun = True
            # Also after BEGIN: a SELECT before it would end the effect of PRAGMA
            # defer_foreign_keys.
            target = _described(cursor, schema, table, module)
            sort = how in _ABORTING and not target.has_triggers or target.any_order and not (how == "replace" and _is_followed(cursor, schema, table))
            shared = _aside.may_be_shared(con, module)
            for part in sets(data, target.columns, module, whole=target.needs_all):
                inserted += _insert_part(con, cursor, schema, target, part, how, sort, read, progress, shared, module)
                read += part.rows
            cursor.execute("COMMIT" if own else "RELEASE densite_insert")
        except BaseException:
            # A conflict can have ended the transaction already.
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
        raise module.ProgrammingError(f"the data has a column twice: {', '.join(part.names)}; give each column its own name")
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
    # A failed statement leaves nothing, so "fail" would only leave rows that must be undone.
    word = "ABORT" if how == "fail" else how.upper()
    sql = f"INSERT OR {word} INTO {quoted(schema)}.{quoted(target.name)} ({names}) SELECT {values} FROM {part.function}"
    tell = None if progress is None else lambda rows: _tell(progress, before + rows, con, module)
    try:
        if tell is None and not shared and part.rows <= _FEW_ROWS:
            # No Python code is called while it runs.
            cursor.execute(f"{sql}(?)", (part.handle,))
            return int(cursor.rowcount)
        with Change(cursor, f"{sql}({part.handle})") as change:
            (_aside.run if shared else _run)(change, part, tell)
            return change.rows
    except (module.IntegrityError, module.DataError) as error:
        raise _with_row(error, cursor, schema, target, part, places, module) from None


def _tell(progress: Progress, rows: int, con: Any, module: Any) -> None:
    """Calls the caller's function, which must not close the connection."""
    progress(rows)
    try:
        con.in_transaction  # noqa: B018: raises if the connection is closed
    except module.ProgrammingError:
        raise module.ProgrammingError("progress closed the connection; nothing was inserted") from None


def _run(change: Change, part: Set, tell: Optional[Progress]) -> None:
    """Runs a statement that reads a set, like :func:`_aside.run`, but on this thread."""
    # Always set: Python notices Ctrl-C only while Python code runs.
    listener = _native.Listener(lambda state: tell(state.done) if tell is not None else None)
    part.progress(listener)
    change.run()
    if listener.raised:
        raise listener.raised[0]
    change.check()


#: The number of columns that are shown if SQLite does not name one.
_SHOWN = 10
_NAMES = re.compile(r"(?:constraint failed: |column )(.+)$")


def _with_row(error: Exception, cursor: Any, schema: str, target: _Table, part: Set, places: Any, module: Any) -> Exception:
    """The same error with the row that caused it, if known."""
    said = str(error)
    if "FOREIGN KEY" in said:
        # SQLite counts violations and checks the count when the statement ends. It does not name
        # the row.
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
            # The error concerns an INTEGER PRIMARY KEY, which identifies the row and accepts only
            # integers.
            columns = [key.name for key in target.key[:1]]
        known = set(map(folded, target.columns))
        values = [f"{name} is {part.last_value(places[folded(name)]) if folded(name) in places else 'not given'}" for name in columns if folded(name) in known]
        if not values:
            # A CHECK, an index on an expression, or a row that is too long: the relevant columns
            # are among these.
            values = [f"{name} is {part.last_value(place)}" for place, name in enumerate(part.names[:_SHOWN])]
            values += ["..."] * (len(part.names) > _SHOWN)
    named = type(error)(f"row {part.last_row()}: {said}{'; ' if values else ''}{', '.join(values)}")
    for attribute in ("sqlite_errorcode", "sqlite_errorname"):
        if hasattr(error, attribute):
            setattr(named, attribute, getattr(error, attribute))
    return named


def _orphan(cursor: Any, schema: str, target: _Table, part: Set, places: Any, module: Any) -> List[str]:
    """Positions the cursor of the columns on the first row that refers to a missing row, and
    returns the reference as text. Nothing is inserted yet."""
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
            # The parent can be among later rows.
            if len(pairs) > 1 or folded(pairs[0][1]) not in places:
                continue
            other = f"c{places[folded(pairs[0][1])]}"
            terms.append(f"{column[pairs[0][0]]} NOT IN (SELECT {other} FROM {part.function}({part.handle}) WHERE {other} IS NOT NULL)")
        try:
            found = cursor.execute(f"SELECT k.rowid FROM {part.function}({part.handle}) k WHERE {' AND '.join(terms)} LIMIT 1").fetchall()
            if found:
                # Reads up to that row and no further, so that it is the last read one.
                cursor.execute(f"SELECT 1 FROM {part.function}({part.handle}) LIMIT 1 OFFSET ?", found[0]).fetchall()
                return [
                    f"{', '.join(f'{child} is {part.last_value(places[folded(child)])}' for child, _ in pairs)}, "
                    f"which {parent} does not have as {', '.join(referred for _, referred in pairs)}"
                ]
        except module.Error:
            # A parent table is missing or has other columns: the first error says so.
            continue
    return []

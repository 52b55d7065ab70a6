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

_CONFLICTS = ("abort", "fail", "rollback", "ignore", "replace")


class _Key(NamedTuple):
    """A column to sort by."""

    name: str
    #: 1 descending, 2 ignoring case.
    flags: int
    #: A NULL would become another value.
    without_null: bool
    #: The types (each a sum as from :meth:`Set.types`) of which one must contain those of all
    #: values, so that values that are equal in the table are also equal in sorting; none: any.
    types: Tuple[int, ...]


class _Table(NamedTuple):
    """The target, as ``densite_insert_plan`` describes it (features/bulk/src/insert_plan.rs)."""

    name: str
    columns: List[str]
    #: The columns to sort by; none if that can change the result.
    key: List[_Key]
    #: The INTEGER PRIMARY KEY.
    rowid: List[str]
    has_triggers: bool
    #: Whether SQLite can find the parent of a row among later rows of the same statement, because
    #: it checks foreign keys when a statement ends.
    needs_all: bool


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def folded(name: str) -> str:
    """A name in the form in which SQLite compares names: only A to Z have two cases."""
    return name.lower() if name.isascii() else "".join(letter.lower() if letter.isascii() else letter for letter in name)


def _missing(cursor: Any, schema: str, table: str, elsewhere: List[str]) -> str:
    """The message for a missing table: it can be in another schema, or the schema can be part of
    the name."""
    said = f"no such table: {table if schema == 'main' else f'{schema}.{table}'}"
    other, _, name = table.rpartition(".")
    if other and ask(cursor, "SELECT 1 FROM densite_insert_plan(?, ?, 'abort') WHERE fact = 'column' LIMIT 1", name, other):
        elsewhere = [other]
    return f'{said}; there is one in the schema {elsewhere[0]}: use insert(con, "{name}", data, schema="{elsewhere[0]}")' if elsewhere else said


def _described(cursor: Any, schema: str, table: str, module: Any, how: str = "abort") -> _Table:
    plan: Dict[str, List[Tuple[str, int, Optional[str]]]] = {}
    facts = f"SELECT {text('fact')}, {text('name')}, flags, {text('types')} FROM densite_insert_plan(?, ?, ?)"
    for fact, *rest in ask(cursor, facts, table, schema, how):
        plan.setdefault(fact, []).append((rest[0], rest[1], rest[2]))
    names = {fact: [name for name, _, _ in found] for fact, found in plan.items()}
    if "column" not in plan:
        raise module.OperationalError(_missing(cursor, schema, table, names.get("elsewhere", [])))
    key = [_Key(name, flags & 3, bool(flags & 4), tuple(map(int, (types or "").split()))) for name, flags, types in plan.get("key", [])]
    return _Table(table, names["column"], key, names.get("rowid", []), "triggers" in plan, "whole" in plan)


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
            target = _described(cursor, schema, table, module, how)
            shared = _aside.may_be_shared(con, module)
            for part in sets(data, target.columns, module, whole=target.needs_all):
                inserted += _insert_part(con, cursor, schema, target, part, how, read, progress, shared, module)
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
    con: Any, cursor: Any, schema: str, target: _Table, part: Set, how: str, before: int, progress: Optional[Progress], shared: bool, module: Any
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
    keys = []
    for key in target.key:
        place = places.get(folded(key.name))
        if place is None or (key.without_null and part.has_null(place)):
            break
        if key.types and not any(part.types(place) | allowed == allowed for allowed in key.types):
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
        values = _orphan(cursor, schema, target, part, places)
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
            columns = target.rowid
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


def _orphan(cursor: Any, schema: str, target: _Table, part: Set, places: Any) -> List[str]:
    """Positions the cursor of the columns on the first row that refers to a missing row, and
    returns the reference as text. Nothing is inserted yet."""
    part.progress(None)
    names = ", ".join(map(text, ("parent", "child", "referred")))
    found = ask(cursor, f"SELECT position, {names} FROM densite_insert_orphan(?, ?, ?)", part.handle, target.name, schema)
    if not found:
        return []
    # Reads up to that row and no further, so that it is the last read one.
    cursor.execute(f"SELECT 1 FROM {part.function}({part.handle}) LIMIT 1 OFFSET ?", found[0][:1]).fetchall()
    values = [f"{child} is {part.last_value(places[folded(child)])}" for _, _, child, _ in found]
    return [f"{', '.join(values)}, which {found[0][1]} does not have as {', '.join(referred for *_, referred in found)}"]

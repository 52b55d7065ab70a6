"""Bulk query: a statement with a table of keys, and its rows as Arrow, NumPy or tuples."""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import contextmanager, suppress
from ctypes import c_void_p
from functools import lru_cache
from threading import get_ident
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from . import _native
from ._columns import Set, sets
from ._driver import cursor_of, module_of
from ._insert import folded, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

#: What may stand before a statement's first word.
# A comment has one end, or a text that begins with many would be tried with each of them.
_BLANK = r"(?:\s|--[^\n]*(?:\n|$)|/\*(?:(?!\*/).)*\*/)*"
_WITH = re.compile(rf"({_BLANK})WITH\b(?:{_BLANK}RECURSIVE\b)?", re.IGNORECASE | re.DOTALL)


@lru_cache(maxsize=None)
def _new_capsule() -> Callable[..., Any]:
    """PyCapsule_New. A prototype of our own: that of ctypes.pythonapi is everybody's."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    _native.library().densite_capsule_init(ctypes.cast(get_pointer, c_void_p))
    return ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_void_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))


class Result:
    """The rows of a statement, read once: by ``__arrow_c_stream__``, by :meth:`to_numpy`, or as tuples.

    Reading is streamed: 65,536 rows at a time are in memory at most but for what the reader keeps. Until its end it holds the connection's read
    transaction, as an open cursor does; :meth:`close` ends it.
    """

    def __init__(self, con: Any, sql: str, parameters: Any, keys: Any, columns: Optional[Sequence[str]]) -> None:
        self._module = module_of(con)
        if not isinstance(sql, str):
            raise self._module.ProgrammingError(f"sql is of type {type(sql).__name__}; it is the text of a statement")
        self._process, self._thread = os.getpid(), get_ident()
        self._query = 0
        self._rows: Optional[Any] = None
        self._cursor = cursor_of(con, self._module)
        self._query = _native.library().densite_query_new()
        self._sql = sql
        kept = None
        try:
            if keys is not None:
                source = sets(keys, columns, self._module, copy=True, whole=True)
                kept = next(source)
                if not kept.names:
                    raise self._module.ProgrammingError("keys has no columns; name them, also where there are no rows: columns=[...]")
                if len(set(map(folded, kept.names))) < len(kept.names):
                    raise self._module.ProgrammingError(f"keys has a column twice: {', '.join(kept.names)}")
                kept.sort([(i, 0) for i in range(len(kept.names))])
                self._sql = _with_keys(sql, kept)
            named = hasattr(parameters, "keys")
            values = _values(parameters, self._module)
            # Kept for a reader of tuples; what was an iterator is at its end now.
            self._parameters = parameters if named else values
            self._compile(values, named, kept)
            if kept is not None:
                kept.hand_over(self._query)
        except BaseException:
            if kept is not None:
                kept.release()
            self._end()
            raise

    def _compile(self, values: List[Any], named: bool, kept: Optional[Set]) -> None:
        marks = ", ".join("?" * (3 + len(values)))
        try:
            self._cursor.execute(f"SELECT densite_query({marks})", (self._query, self._sql, int(named), *values)).fetchall()
        except self._module.OperationalError as error:
            if kept is not None and "no such column" in str(error):
                raise type(error)(f"{error}; keys has the columns {', '.join(kept.names)}") from None
            raise
        except (self._module.InterfaceError, self._module.ProgrammingError) as error:
            # Of a call that the library refuses, drivers make one or the other, by their version; and they count parameters of ours.
            where = _unbound(self._cursor, values, named, self._module)
            raise self._module.ProgrammingError(where or str(error)) from None

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise self._module.ProgrammingError(
                f"the result belongs to process {self._process}, which was forked; open a connection in this process and run the query again"
            )

    def _stream(self, place: int) -> None:
        self._check_process()
        if not self._query:
            raise self._module.ProgrammingError("the result was read already, or closed; run the query again")
        code = _native.library().densite_query_stream(self._query, place)
        if code == 0:
            # From here on the stream owns the statement.
            self._release()
        _native.done(code, self._module)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows for any Arrow consumer: ``pyarrow.table(result)``, ``polars.DataFrame(result)``. It is given once; duckdb asks twice, and takes
        ``pyarrow.RecordBatchReader.from_stream(result)``.

        Columns are int64, float64, utf8 or binary, by what their first 65,536 rows hold, in whatever order. Integers among floating point become that, or
        are an error where it is not exact. Numbers among text become SQLite's text of them, as by ``CAST(... AS TEXT)``. Text among blobs becomes its bytes.
        Numbers and blobs in one column are an error. A later value that does not fit that is an error of the
        reader's that names column, row and value.
        """
        lib = _native.library()
        place = lib.densite_capsule_new()
        # The name is the library's: a capsule keeps the pointer, and may outlive this module.
        capsule = _new_capsule()(place, lib.densite_capsule_name(), ctypes.cast(lib.densite_capsule_destroy, c_void_p))
        self._stream(place)
        return capsule

    def to_numpy(self) -> Dict[str, Any]:
        """All rows as a dict of NumPy arrays by column, each of shape (n,).

        Integers are int64, as a masked array where some are NULL; floating point is float64, NULL is NaN; text and blobs are arrays of ``str``
        and ``bytes`` objects, NULL is None; a column of NULLs alone is an array of None.

        Raises:
            sqlite3.DataError: a column has values of several types, or two columns have one name.
        """
        from ._arrow import to_numpy  # noqa: PLC0415: it imports numpy

        return to_numpy(self._stream, self._module)

    def _read(self) -> Any:
        """A cursor over the rows, for those who want tuples."""
        self._check_process()
        if self._rows is None:
            if not self._query:
                raise self._module.ProgrammingError("the result was read already, or closed; run the query again")
            self._rows = self._cursor.execute(self._sql, self._parameters)
        return self._rows

    @contextmanager
    def _ended_by_failure(self) -> Iterator[None]:
        """Whatever fails within, or leaves a loop, ends the result: who keeps it, or the exception, keeps nothing of the connection's open by that. Not what the driver refuses because of the thread that asks."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, self._module.ProgrammingError) or self._thread == get_ident():
                self._end()
            raise

    def fetchall(self) -> List[Tuple[Any, ...]]:
        """All rows, as sqlite3 gives them."""
        with self._ended_by_failure():
            rows = list(self._read().fetchall())
        self._release()
        return rows

    def fetchmany(self, size: int = 1000) -> List[Tuple[Any, ...]]:
        """The next rows, as sqlite3 gives them; an empty list at the end."""
        with self._ended_by_failure():
            rows = list(self._read().fetchmany(size))
        if not rows and size:
            self._release()
        return rows

    def fetchone(self) -> Optional[Tuple[Any, ...]]:
        """The next row, or None."""
        with self._ended_by_failure():
            row = self._read().fetchone()
        if row is None:
            self._release()
            return None
        return tuple(row)

    def __iter__(self) -> Iterator[Tuple[Any, ...]]:
        with self._ended_by_failure():
            return self._each(self._read())

    def _each(self, rows: Any) -> Iterator[Tuple[Any, ...]]:
        """Rows, by a frame that keeps `self`: nobody else does in `for row in densite.query(...)`, and its end closes the cursor."""
        with self._ended_by_failure():
            yield from rows
        self._release()

    def _release(self) -> None:
        """Lets go of the statement that a stream would read, and of keys: rows that were read to their end need them no more."""
        if self._query:
            _native.library().densite_query_release(self._query)
            self._query = 0

    def _end(self) -> None:
        """After a failure. As :func:`closed_after`, the cursor holds nothing either."""
        if self._process != os.getpid():
            return
        self._rows = None
        self._release()
        # The connection may be closed already, or this be another thread than its own.
        with suppress(self._module.ProgrammingError):
            self._cursor.close()

    def close(self) -> None:
        """Ends reading. A stream that was handed out lives on until its consumer is done."""
        if self._process != os.getpid():
            # The statement is its parent's.
            return
        begun, self._rows = self._rows is not None, None
        try:
            if begun:
                self._cursor.close()
        finally:
            # The connection may be closed already.
            self._release()

    def __enter__(self) -> Result:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # noqa: BLE001, S110: the connection may be gone, or on another thread; then its end is the statement's
            pass


def _values(parameters: Any, module: Any) -> List[Any]:
    """Parameters as values in turn; those with names with their names before them."""
    if hasattr(parameters, "keys") and hasattr(parameters, "__getitem__"):
        names = list(parameters.keys())
        odd = next((name for name in names if not isinstance(name, str)), None)
        if odd is not None:
            raise module.ProgrammingError(f"a parameter's name is {odd!r}, which is no text; give parameters of ? as a tuple")
        return [part for name in names for part in (name, parameters[name])]
    # A text is a sequence of letters, and hardly meant as such.
    if isinstance(parameters, (str, bytes, bytearray)) or not hasattr(parameters, "__iter__"):
        raise module.ProgrammingError(f"parameters are of type {type(parameters).__name__}; give a tuple, as (value,), or a dict by name")
    return list(parameters)


def _unbound(cursor: Any, values: List[Any], named: bool, module: Any) -> Optional[str]:
    """Which parameter the driver cannot hand over, in words; None if it can all of them."""
    step = 2 if named else 1
    for i in range(step - 1, len(values), step):
        try:
            cursor.execute("SELECT ? IS NULL", (values[i],)).fetchall()
        except module.Error:
            which = f":{values[i - 1]}" if named else str(i + 1)
            return f"parameter {which} is of type {type(values[i]).__name__}, which is none that SQLite stores; convert it, to text for example"
    return None


def _with_keys(sql: str, kept: Set) -> str:
    """The statement with a table `keys` in front of its own tables."""
    columns = ", ".join(map(quoted, kept.names))
    values = ", ".join(f"c{i}" for i in range(len(kept.names)))
    keys = f"keys({columns}) AS NOT MATERIALIZED (SELECT {values} FROM {kept.function}({kept.handle}))"
    found = _WITH.match(sql)
    return f"{found.group(0)} {keys}, {sql[found.end():]}" if found else f"WITH {keys} {sql}"


def query(con: sqlite3.Connection, sql: str, parameters: Any = (), *, keys: Any = None, columns: Optional[Sequence[str]] = None) -> Result:
    """Runs a query, with a table of keys in it if there are some, and gives its rows column by column or one by one.

        pairs = {"a": numpy.array([...]), "b": numpy.array([...])}
        result = densite.query(con, "SELECT k.a, k.b, r.val FROM keys k JOIN result r USING (a, b)", keys=pairs)
        table = pyarrow.table(result)           # or polars.DataFrame(result), result.to_numpy(), result.fetchall()

    Args:
        con: a connection of sqlite3 or pysqlite3, from :func:`densite.connect` or opened after :func:`densite.attach`.
        sql: one statement that reads.
        parameters: for its ``?`` (a sequence) or ``:name`` (a mapping), as in sqlite3; at most 100, by name 60. Many values are keys.
        keys: the rows of the table ``keys`` in the statement, in any shape that :func:`densite.insert` takes. They are copied, and sorted by their
            columns in order, so that looking them up goes through an index from one end to the other; rows come out in that order unless the
            statement says ORDER BY. Give the columns of the index in its order. They have no type: the affinity of a column that they are compared with
            converts them, as it does those of ``CREATE TABLE keys(a)``. A view that unites columns of several types has one affinity, by SQLite's rules, and
            a key may equal rows of one of its tables only: convert keys or view with CAST.
        columns: the names of keys that are tuples (otherwise c0, c1, ...).

    Raises:
        sqlite3.OperationalError: SQLite's, at once for a statement that does not compile: no such table or column (and which columns keys has).
        sqlite3.DataError: a key that SQLite cannot store; names column, row and value.
        sqlite3.ProgrammingError: the statement changes the database, answers no rows (run it with the connection's own execute), or is more than one or
            none; parameters that are too few, too many, or of a type that SQLite does not store; keys of no shape that is known; the connection is
            closed.
        sqlite3.NotSupportedError: as :func:`densite.insert`.
    """
    return Result(con, sql, parameters, keys, columns)

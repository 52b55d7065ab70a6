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

#: The text that can precede the first word of a statement. A comment ends at its first `*/`: with
#: a choice of ends, many comments would need exponential time.
_BLANK = r"(?:\s|--[^\n]*(?:\n|$)|/\*(?:(?!\*/).)*\*/)*"
_WITH = re.compile(rf"({_BLANK})WITH\b(?:{_BLANK}RECURSIVE\b)?", re.IGNORECASE | re.DOTALL)


@lru_cache(maxsize=None)
def _new_capsule() -> Callable[..., Any]:
    """PyCapsule_New, with its own prototype: a prototype set on ctypes.pythonapi would affect all
    code of the process."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    _native.library().densite_capsule_init(ctypes.cast(get_pointer, c_void_p))
    return ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_void_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))


class _Row(tuple):  # type: ignore[type-arg]
    """A row of a loop over a result: a tuple that also has the names of its columns, as ``_fields``.
    ``pandas.DataFrame(result)`` takes them from there."""

    __slots__ = ()
    _fields: Tuple[str, ...] = ()

    def __reduce__(self) -> Any:
        # pickle would look for the class of these columns by its name.
        return tuple, (tuple(self),)


@lru_cache(maxsize=256)
def _row_of(names: Tuple[str, ...]) -> type:
    """The class of rows with these columns. collections.namedtuple would refuse names such as
    ``count(*)``."""
    return type("_Row", (_Row,), {"__slots__": (), "_fields": names})


class Result:
    """The rows of a statement. They can be read once: as an Arrow stream
    (``__arrow_c_stream__``), as NumPy arrays (:meth:`to_numpy`), or as tuples. The tuples of a loop
    know the names of their columns, so ``pandas.DataFrame(result)`` has them if there is a row.

    Reading is streamed: at most 65,536 rows are in memory at a time, apart from those that the
    reader keeps. Until its end the result keeps the connection's read transaction open, as a cursor
    does. :meth:`close` ends it.
    """

    def __init__(self, con: Any, sql: str, parameters: Any, keys: Any, columns: Optional[Sequence[str]]) -> None:
        self._module = module_of(con)
        if not isinstance(sql, str):
            raise self._module.ProgrammingError(f"sql is of type {type(sql).__name__}; give the text of a statement")
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
                    raise self._module.ProgrammingError("keys has no columns; name them with columns=[...], even if there are no rows")
                if len(set(map(folded, kept.names))) < len(kept.names):
                    raise self._module.ProgrammingError(f"keys has a column twice: {', '.join(kept.names)}; give each column its own name")
                kept.sort([(i, 0) for i in range(len(kept.names))])
                self._sql = _with_keys(sql, kept)
                kept.hand_over(self._query)
            named = hasattr(parameters, "keys")
            values = _values(parameters, self._module)
            # Reading tuples needs them again. An iterator is consumed by now, so its values are
            # kept.
            self._parameters = parameters if named else values
            self._compile(values, named)
        except BaseException:
            if kept is not None:
                kept.release()
            self._end()
            raise

    def _compile(self, values: List[Any], named: bool) -> None:
        marks = ", ".join("?" * (3 + len(values)))
        try:
            self._cursor.execute(f"SELECT densite_query({marks})", (self._query, self._sql, int(named), *values)).fetchall()
        except (self._module.InterfaceError, self._module.ProgrammingError) as error:
            # The class for a refused call depends on the driver's version. Its message counts the
            # parameters of densite_query, not those of the caller.
            unbound = _unbound(self._cursor, values, named, self._module)
            raise self._module.ProgrammingError(unbound or str(error)) from None

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise self._module.ProgrammingError(
                f"the result belongs to process {self._process}, which was forked; open a connection in this process and run the query again"
            )

    def _stream(self, address: int) -> None:
        """Moves the rows to an Arrow stream at this address."""
        self._check_process()
        if not self._query:
            raise self._module.ProgrammingError("the result was already read or closed; run the query again")
        code = _native.library().densite_query_stream(self._query, address)
        if code == 0:
            # From here on the stream owns the statement.
            self._release()
        _native.done(code, self._module)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows for an Arrow consumer: ``pyarrow.table(result)``, ``polars.DataFrame(result)``.
        The stream can be requested once. duckdb requests it twice: give it
        ``pyarrow.RecordBatchReader.from_stream(result)``.

        A column is int64, float64, utf8 or binary, depending on its first 65,536 rows. Their order
        does not matter:

        - integers and floating point: float64; an integer that is not exact as float64 is an error;
        - numbers and text: utf8; numbers become SQLite's text, as by ``CAST(... AS TEXT)``;
        - text and blobs: binary; text becomes its bytes;
        - numbers and blobs: an error.

        If a later value does not fit, reading fails. The error names column, row and value.
        """
        lib = _native.library()
        address = lib.densite_capsule_new()
        # The capsule keeps a pointer to its name and can outlive this module, so the library owns
        # the name.
        capsule = _new_capsule()(address, lib.densite_capsule_name(), ctypes.cast(lib.densite_capsule_destroy, c_void_p))
        self._stream(address)
        return capsule

    def to_numpy(self) -> Dict[str, Any]:
        """All rows as a dict of NumPy arrays by column, each of shape (n,).

        Types of columns are as for ``__arrow_c_stream__``. Integers are int64, in a masked array if
        some are NULL. Floating point is float64, and NULL is NaN. Text and blobs are arrays of
        ``str`` and ``bytes`` objects, and NULL is None. A column with only NULLs has its declared
        type; without one it is an array of None.

        Raises:
            sqlite3.DataError: a column has values of types that do not fit together, or two columns
                have the same name.
        """
        from ._arrow import to_numpy  # noqa: PLC0415: it imports numpy

        return to_numpy(self._stream, self._module)

    def _read(self) -> Any:
        """The cursor that reads the rows as tuples."""
        self._check_process()
        if self._rows is None:
            if not self._query:
                raise self._module.ProgrammingError("the result was already read or closed; run the query again")
            self._rows = self._cursor.execute(self._sql, self._parameters)
        return self._rows

    @contextmanager
    def _ended_by_failure(self) -> Iterator[None]:
        """Ends the result if the block raises, or if a loop over the rows is left. Then a kept
        result or exception does not keep the connection's files open. A driver's refusal because of
        the calling thread does not end the result."""
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
            rows = self._read()
            names = tuple(column[0] for column in rows.description)
            return self._each(map(_row_of(names), rows))

    def _each(self, rows: Any) -> Iterator[Tuple[Any, ...]]:
        """The rows. This generator keeps `self` alive: in `for row in densite.query(...)` nothing
        else does, and :meth:`__del__` closes the cursor."""
        with self._ended_by_failure():
            yield from rows
        self._release()

    def _release(self) -> None:
        """Frees the statement for a stream, and the keys. Rows that were read to their end do not
        need them."""
        if self._query:
            _native.library().densite_query_release(self._query)
            self._query = 0

    def _end(self) -> None:
        """Ends the result after a failure. Closing the cursor frees its failed statement, as in
        :func:`closed_after`."""
        if self._process != os.getpid():
            return
        self._rows = None
        self._release()
        # The connection can be closed already, or belong to another thread.
        with suppress(self._module.ProgrammingError):
            self._cursor.close()

    def close(self) -> None:
        """Ends reading. A stream that a consumer has received stays valid until the consumer ends
        it."""
        if self._process != os.getpid():
            # The statement belongs to the parent process.
            return
        begun, self._rows = self._rows is not None, None
        try:
            if begun:
                self._cursor.close()
        finally:
            # Also if the connection is closed already.
            self._release()

    def __enter__(self) -> Result:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # noqa: BLE001, S110
            # The connection can be closed or belong to another thread. Then closing the connection
            # ends the statement.
            pass


def _values(parameters: Any, module: Any) -> List[Any]:
    """The values of the parameters, in order. A named value is preceded by its name."""
    if hasattr(parameters, "keys") and hasattr(parameters, "__getitem__"):
        names = list(parameters.keys())
        odd = next((name for name in names if not isinstance(name, str)), None)
        if odd is not None:
            raise module.ProgrammingError(f"a parameter's name is {odd!r}, which is not text; use text, or give a tuple for parameters written as ?")
        return [part for name in names for part in (name, parameters[name])]
    # A text would be a sequence of letters. This is never what the caller wants.
    if isinstance(parameters, (str, bytes, bytearray)) or not hasattr(parameters, "__iter__"):
        raise module.ProgrammingError(f"parameters are of type {type(parameters).__name__}; give a tuple, such as (value,), or a dict by name")
    return list(parameters)


def _unbound(cursor: Any, values: List[Any], named: bool, module: Any) -> Optional[str]:
    """A message that names the first parameter that the driver cannot bind, or None."""
    step = 2 if named else 1
    for i in range(step - 1, len(values), step):
        try:
            cursor.execute("SELECT ? IS NULL", (values[i],)).fetchall()
        except module.Error:
            which = f":{values[i - 1]}" if named else str(i + 1)
            return f"parameter {which} is of type {type(values[i]).__name__}, which SQLite cannot store; convert it, for example to text"
    return None


def _with_keys(sql: str, kept: Set) -> str:
    """The statement with a table `keys` in front of its own tables."""
    columns = ", ".join(map(quoted, kept.names))
    values = ", ".join(f"c{i}" for i in range(len(kept.names)))
    keys = f"keys({columns}) AS NOT MATERIALIZED (SELECT {values} FROM {kept.function}({kept.handle}))"
    clause = _WITH.match(sql)
    return f"{clause.group(0)} {keys}, {sql[clause.end():]}" if clause else f"WITH {keys} {sql}"


def query(con: sqlite3.Connection, sql: str, parameters: Any = (), *, keys: Any = None, columns: Optional[Sequence[str]] = None) -> Result:
    """Runs a query and returns its rows, by column or as tuples. The query can use a table ``keys``
    with rows of the caller.

        pairs = {"a": numpy.array([...]), "b": numpy.array([...])}
        result = densite.query(con, "SELECT k.a, k.b, r.val FROM keys k JOIN result r USING (a, b)", keys=pairs)
        table = pyarrow.table(result)           # or polars.DataFrame(result), result.to_numpy(), result.fetchall()

    Args:
        con: a connection of sqlite3 or pysqlite3, from :func:`densite.connect` or opened after
            :func:`densite.attach`.
        sql: one statement that reads.
        parameters: the values for ``?`` (a sequence) or ``:name`` (a mapping), as in sqlite3. At
            most 100 values, or 60 named ones; for more values use `keys`.
        keys: the rows of the table ``keys``, in any shape that :func:`densite.insert` takes. They
            are copied and sorted by their columns in order, so that lookups go through an index
            from one end to the other. Give the columns of the index in its order. Rows come out in
            this order, unless the statement has an ORDER BY. Keys have no type: they take the
            affinity of the column that they are compared with, as in ``CREATE TABLE keys(a)``. A
            view that unites columns of several types has one affinity, by SQLite's rules. There a
            key can miss equal rows of some of its tables: convert keys or view with CAST.
        columns: the names of the columns, if the keys are tuples (default: c0, c1, ...).

    Raises:
        sqlite3.OperationalError: SQLite's errors. A statement that does not compile fails at once.
            For a missing column, the message lists the columns of keys.
        sqlite3.DataError: SQLite cannot store a key. The message names column, row and value.
        sqlite3.ProgrammingError: the statement changes the database; it returns no columns (run it
            with the connection's execute); there is not exactly one statement; there are too few or
            too many parameters, or SQLite cannot store one; the keys have no known shape; the
            connection is closed.
        sqlite3.NotSupportedError: as :func:`densite.insert`.
    """
    return Result(con, sql, parameters, keys, columns)

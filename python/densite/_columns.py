"""Converts a caller's data to sets of columns of the library.

Three shapes are supported: Arrow data through the PyCapsule interface; a mapping of names to
columns (NumPy arrays, other objects with a buffer, or sequences of Python values); and rows, as
tuples or mappings, from any iterable. No package is imported for any of them.
"""

from __future__ import annotations

import ctypes
from array import array
from ctypes import byref, c_void_p
from itertools import accumulate, chain, islice
from typing import Any, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from . import _native

# densite.h
_INT64, _FLOAT64, _BOOL, _TEXT, _BLOB, _ANY, _DATE, _COPY = 4, 11, 12, 13, 14, 15, 16, 256
_NUMBERS = {"i1": 1, "i2": 2, "i4": 3, "i8": 4, "u1": 5, "u2": 6, "u4": 7, "u8": 8, "f2": 9, "f4": 10, "f8": 11, "b1": 12}
_FORMATS = {"e": 9, "f": 10, "d": 11, "?": 12}
_UNITS = {"s": 17, "ms": 18, "us": 19, "ns": 20}
#: Units of NumPy's datetimes that are stored in another unit.
_BASES = {"": "D", "Y": "D", "M": "D", "W": "D", "D": "D", "h": "s", "m": "s"}
_NOT_A_TIME = -(2**63)

#: Number of rows of a stream or an iterator that are sorted and inserted at a time.
STREAM_ROWS = 1 << 22
ITERATOR_ROWS = 1 << 18
#: The same number for a list.
LIST_ROWS = 1 << 20
#: The largest number of columns of densite_columns_few.
FEW = 16


class Set:
    """A registered set of columns, and the objects that own its memory."""

    def __init__(self, handle: int, names: Sequence[str], first: int, keep: Any) -> None:
        self.handle, self.names, self.first, self._keep = handle, list(names), first, keep
        self._listener: Any = None

    @property
    def function(self) -> str:
        """The table-valued function for this number of columns: SQLite needs longer to declare the
        one for all numbers."""
        return "densite_columns_few" if len(self.names) <= FEW else "densite_columns"

    @property
    def rows(self) -> int:
        return int(_native.library().densite_columns_rows(self.handle))

    def sort(self, keys: Sequence[Tuple[int, int]]) -> None:
        """Sorts by columns and flags (1 descending, 2 ignoring case)."""
        if keys:
            packed = (_native.SortKey * len(keys))(*(_native.SortKey(column, flags) for column, flags in keys))
            _native.done(_native.library().densite_columns_sort(self.handle, packed, len(keys), None))

    def types(self, column: int) -> int:
        """The types of a column's values, as a sum: 1 integer, 2 floating point, 4 text, 8
        blob."""
        return _native.number(_native.library().densite_columns_types(self.handle, column))

    def has_null(self, column: int) -> bool:
        """Whether a value of a column is NULL, or NaN, which is stored as NULL."""
        return _native.number(_native.library().densite_columns_has_null(self.handle, column)) != 0

    def progress(self, listener: Union[_native.Listener, _native.Watch, None]) -> None:
        """Sets a listener for the rows that statements read from the set, and keeps it alive. None
        removes it."""
        call, context = (listener.rows, listener.context) if listener else (_native.Rows(), None)
        _native.done(_native.library().densite_columns_progress(self.handle, call, context))
        self._listener = listener

    def last_row(self) -> int:
        """The number, in all data, of the row that a statement read last."""
        return self.first + int(_native.library().densite_columns_last_row(self.handle))

    def last_value(self, column: int) -> str:
        """The value of that row as text."""
        out = c_void_p()
        _native.done(_native.library().densite_columns_last_value(self.handle, column, byref(out)))
        return _native.text(out)

    def hand_over(self, query: int) -> None:
        """Makes a query the owner of the set. Only for a set that was made with `copy` or owns its
        memory."""
        _native.done(_native.library().densite_query_keep(query, self.handle))
        self.handle = 0

    def release(self) -> None:
        if self.handle:
            # A statement that reads the set still uses the memory. Leaking it is safe, freeing it
            # is not.
            if _native.library().densite_columns_release(self.handle) != 0:
                _never_freed.append((self._keep, self._listener))
            self.handle, self._keep, self._listener = 0, None, None


_never_freed: List[Any] = []


def sets(data: Any, names: Optional[Sequence[str]], errors: Any, copy: bool = False, whole: bool = False) -> Iterator[Set]:
    """The data as sets, one after the other. Each is valid until the next one is requested.

    Args:
        data: see the module.
        names: the columns of rows that have no names of their own.
        errors: a driver's module or connection, for its exception classes.
        copy: whether the sets must not use the caller's memory.
        whole: whether to return all data in one set.
    """
    is_mixed = False
    dtypes = getattr(data, "dtypes", None)
    if isinstance(dtypes, list) and "Object" in map(str, dtypes) and hasattr(data, "get_columns"):
        # For Python objects polars exports only addresses.
        return _from_columns([(values.name, values.to_list()) for values in data.get_columns()], errors, copy)
    if hasattr(data, "reset_index") and hasattr(data, "iloc") and hasattr(data, "columns"):
        data = _with_index(data)
        is_mixed = _is_mixed(data)
    stream = None if is_mixed else getattr(data, "__arrow_c_stream__", None)
    if stream is not None:
        try:
            capsule = stream()
        except Exception:  # noqa: BLE001: the single columns can still work
            # pandas without pyarrow, or with a column of several types.
            if not _has_columns(data):
                raise
            capsule = None
        if capsule is not None:
            return _from_stream(capsule, errors, whole)
    one = getattr(data, "__arrow_c_array__", None)
    if one is not None:
        return _from_array(one(), errors)
    if _has_columns(data):
        keys = list(data.keys())
        if len(set(keys)) < len(keys):
            # In a data frame, each of these names would select both columns.
            raise errors.ProgrammingError(f"the data has a column twice: {', '.join(map(str, keys))}; give each column its own name")
        return _from_columns([(str(name), data[name]) for name in keys], errors, copy)
    fields = getattr(getattr(data, "dtype", None), "names", None)
    if fields:
        return _from_columns([(name, data[name]) for name in fields], errors, copy)
    if isinstance(data, (str, bytes, bytearray)) or not hasattr(data, "__iter__") or getattr(data, "shape", None) == ():
        raise errors.ProgrammingError(
            f"data of type {type(data).__name__} is neither columns nor rows; give a data frame, Arrow data, a dict of columns or an iterable of rows"
        )
    return _from_rows(data, names, errors, copy, whole)


def _with_index(frame: Any) -> Any:
    """A pandas frame with its named index as columns. Otherwise pandas exports the index, an
    additional column for an index without a name, or nothing for an index of consecutive
    numbers."""
    names = list(frame.index.names)
    unnamed = [level for level, name in enumerate(names) if name is None or name in frame.columns]
    if unnamed:
        frame = frame.reset_index(level=unnamed, drop=True)
    return frame.reset_index() if len(unnamed) < len(names) else frame


def _is_mixed(frame: Any) -> bool:
    """Whether a column of a pandas frame has Python values of several types. Arrow would convert
    them to one type, depending on their order."""
    for index, dtype in enumerate(frame.dtypes):
        if str(dtype) != "object":
            continue
        values = frame.iloc[:, index].tolist()
        kinds = {kind for kind in set(map(type, values)) if kind.__name__ not in ("NoneType", "NAType")}
        # Missing values can be NaN.
        if len(kinds) > 1 and float in kinds and all(value != value for value in values if type(value) is float):  # noqa: PLR0124
            kinds.remove(float)
        if len(kinds) > 1:
            return True
    return False


def _has_columns(data: Any) -> bool:
    return hasattr(data, "keys") and hasattr(data, "__getitem__")


def _pointer(capsule: Any, name: bytes, errors: Any) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, (ctypes.py_object, ctypes.c_char_p)
    try:
        pointer = get(capsule, name)
    except ValueError:
        raise errors.ProgrammingError(
            f"the data returns {type(capsule).__name__} instead of a capsule named {name.decode()}, against the Arrow PyCapsule interface; give other data"
        ) from None
    assert isinstance(pointer, int)
    return pointer


def _names_of(handle: int) -> List[str]:
    lib = _native.library()
    names = []
    for column in range(lib.densite_columns_count(handle)):
        out = c_void_p()
        _native.done(lib.densite_columns_name(handle, column, byref(out)))
        names.append(_native.text(out))
    return names


def _from_stream(capsule: Any, errors: Any, whole: bool) -> Iterator[Set]:
    lib = _native.library()
    handle = _native.number(lib.densite_columns_from_stream(_pointer(capsule, b"arrow_array_stream", errors)), errors)
    # Its batches own their memory and have the row numbers themselves.
    found = Set(handle, _names_of(handle), 0, None)
    try:
        first = True
        while _native.number(lib.densite_columns_read(handle, 1 << 62 if whole else STREAM_ROWS), errors) or first:
            yield found
            first = False
    finally:
        found.release()


def _from_array(capsules: Tuple[Any, Any], errors: Any) -> Iterator[Set]:
    try:
        schema, batch = capsules
    except (TypeError, ValueError):
        raise errors.ProgrammingError(f"the data returns {type(capsules).__name__} instead of two capsules, of a schema and an array; give other data") from None
    lib = _native.library()
    pointers = _pointer(schema, b"arrow_schema", errors), _pointer(batch, b"arrow_array", errors)
    handle = _native.number(lib.densite_columns_from_array(*pointers), errors)
    found = Set(handle, _names_of(handle), 0, None)
    try:
        yield found
    finally:
        found.release()


def _from_columns(columns: Iterable[Tuple[str, Any]], errors: Any, copy: bool, first: int = 0) -> Iterator[Set]:
    lib = _native.library()
    names: List[str] = []
    keep: List[Any] = []
    found = Set(lib.densite_columns_new(), names, first, keep)
    try:
        for name, values in columns:
            names.append(name)
            found.names = names
            column, kept = _column(name, values, errors, first)
            column.size = ctypes.sizeof(column)
            if copy:
                column.type |= _COPY
            else:
                keep.append(kept)
            # No table has a column whose name UTF-8 cannot hold, so SQLite reports the missing
            # column.
            encoded = name.encode("utf-8", "replace").replace(b"\0", b"?")
            _native.done(lib.densite_columns_add(found.handle, encoded, byref(column)), errors)
        yield found
    finally:
        found.release()


def _from_rows(rows: Iterable[Any], names: Optional[Sequence[str]], errors: Any, copy: bool, whole: bool) -> Iterator[Set]:
    size = LIST_ROWS if isinstance(rows, (list, tuple)) else ITERATOR_ROWS
    iterator = iter(rows)
    first = 0
    while True:
        part = list(iterator if whole else islice(iterator, size))
        if not part and first:
            return
        yield from _from_columns(_turned(part, names, errors, first), errors, copy, first)
        first += len(part)
        if not part or whole:
            return


def _turned(rows: List[Any], names: Optional[Sequence[str]], errors: Any, first: int) -> List[Tuple[str, Any]]:
    """Rows as columns."""
    if not rows:
        return [(name, ()) for name in names or ()]
    if hasattr(rows[0], "keys"):
        keys = list(rows[0].keys())
        if not keys:
            raise errors.ProgrammingError(f"row {first} has no columns; for a row of defaults, give one column with its default or None")
        turned: List[Tuple[str, Any]] = []
        for key in keys:
            try:
                turned.append((str(key), [row[key] for row in rows]))
            except (KeyError, IndexError, TypeError):
                bad = next(i for i, row in enumerate(rows) if not hasattr(row, "keys") or key not in row.keys())  # noqa: SIM118
                raise errors.ProgrammingError(f"row {first + bad} has no {key!r}, which the first row has; give it a value, None for NULL") from None
        for i, row in enumerate(rows):
            if len(row) != len(keys):
                more = next(key for key in row.keys() if key not in keys)  # noqa: SIM118
                raise errors.ProgrammingError(f"row {first + i} has {more!r}, which the first row does not have; give every row the same names")
        return turned
    # For the other types too: the letters of a text and the names of a dict could pass for values.
    odd = {kind for kind in set(map(type, rows)) if not _is_row(kind)}
    for i, row in enumerate(rows if odd else ()):
        if type(row) in odd:
            raise errors.ProgrammingError(f"row {first + i} is of type {type(row).__name__}; give rows as tuples or lists, or all rows as dicts")
    wanted = len(names) if names is not None else len(rows[0])
    for i, row in enumerate(rows):
        if len(row) != wanted:
            raise errors.ProgrammingError(f"row {first + i} has {len(row)} values, but there are {wanted} columns: {', '.join(names or ())}")
    return list(zip(names or [f"c{i}" for i in range(wanted)], zip(*rows)))


def _is_row(kind: type) -> bool:
    """Whether a type is that of a row with ordered values without names."""
    return hasattr(kind, "__len__") and hasattr(kind, "__getitem__") and not hasattr(kind, "keys") and not issubclass(kind, (str, bytes, bytearray))


def _column(name: str, values: Any, errors: Any, first: int) -> Tuple[_native.Column, Any]:
    """A column, and the object that owns its memory."""
    if hasattr(values, "iloc") and hasattr(values, "to_numpy"):
        # A series with a pandas type of its own (Int64) would become an array of floating point if
        # values are missing, which is not exact.
        values = values.tolist() if hasattr(values.dtype, "na_value") else values.to_numpy()
    if hasattr(values, "filled") and hasattr(values, "mask"):
        # In the list of a masked array, masked values are None. For times the list would have other
        # types.
        values = values.filled(values.dtype.type("NaT")) if values.dtype.kind in "mM" else values.tolist()
    interface = getattr(values, "__array_interface__", None)
    # Arrays of other packages can have their data elsewhere.
    if isinstance(interface, dict) and isinstance(interface.get("data"), tuple):
        return _from_numpy(name, values, interface, errors, first)
    if isinstance(values, (str, bytes, bytearray)) or not (hasattr(values, "__iter__") or hasattr(values, "__len__")):
        raise errors.ProgrammingError(f"column {name} is a single {type(values).__name__}; give a column with a value for each row")
    if not isinstance(values, (list, tuple)):
        found = _from_buffer(name, values, errors)
        if found is not None:
            return found
        for method in ("to_pylist", "to_list", "tolist"):
            if hasattr(values, method):
                try:
                    values = getattr(values, method)()
                except NotImplementedError as error:
                    raise errors.ProgrammingError(f"column {name}: {error}; give it as a NumPy array or a list") from None
                break
        else:
            values = list(values)
    return _from_values(name, values, errors, first)


def _from_numpy(name: str, values: Any, interface: Any, errors: Any, first: int) -> Tuple[_native.Column, Any]:
    if len(interface["shape"]) != 1:
        raise errors.ProgrammingError(f"column {name} has {len(interface['shape'])} dimensions; give a column with one")
    (rows,) = interface["shape"]
    kind = interface["typestr"]
    order, kind, unit = kind[0], kind[1:].partition("[")[0], kind.partition("[")[2].rstrip("]")
    address, strides = interface["data"][0], interface.get("strides")
    # A single value for all rows is stored once (stride 0).
    is_one = bool(rows and strides and strides[0] == 0)
    if kind in ("M8", "m8"):
        return _from_times(name, values, kind, unit, order == ">" or is_one, errors, first)
    number = _NUMBERS.get(kind)
    if number is None or order == ">" or is_one:
        return _from_values(name, values.tolist(), errors, first)
    return _native.Column(type=number, rows=rows, values=address, stride=strides[0] if strides else 0), (values, interface)


def _from_times(name: str, values: Any, kind: str, unit: str, must_copy: bool, errors: Any, first: int) -> Tuple[_native.Column, Any]:
    """Datetimes (M8) or durations (m8) of NumPy: 64-bit numbers of a unit, of which the smallest is
    "not a time". Converting them to a list would give integers or Python's types, depending on the
    unit."""
    if kind == "m8":
        numbers = values.astype("int64").tolist() if must_copy or (values != values).any() else None
        if numbers is not None:
            return _from_values(name, [None if n == _NOT_A_TIME else n for n in numbers], errors, first)
        number = _INT64
    else:
        base = unit.lstrip("0123456789")
        known = base if base in _UNITS else _BASES.get(base, "ns")
        if known != unit or must_copy:
            given, values = values, values.astype(f"datetime64[{known}]", order="C")
            # Convert back to check: a comparison would overflow in the same way as the conversion.
            changed = (values.astype(given.dtype) != given) & (given == given)
            if changed.any():
                row = int(changed.argmax())
                raise errors.DataError(f"column {name}, row {first + row}: {given[row]} is not exact in a unit that can be stored ({known}); round it, or convert it to text")
        number = _DATE if known == "D" else _UNITS[known]
    interface = values.__array_interface__
    strides = interface.get("strides")
    column = _native.Column(type=number, rows=len(values), values=interface["data"][0], stride=strides[0] if strides else 0)
    return column, (values, interface)


def _from_buffer(name: str, values: Any, errors: Any) -> Optional[Tuple[_native.Column, Any]]:
    """A column of numbers, if the object has a buffer of numbers; otherwise None."""
    try:
        view = memoryview(values)
    except TypeError:
        return None
    form = view.format.lstrip("@=<") if view.format else "B"
    if view.ndim != 1:
        raise errors.ProgrammingError(f"column {name} has {view.ndim} dimensions; give a column with one")
    number = _FORMATS.get(form)
    if number is None and form in tuple("bhilqn"):
        number = _NUMBERS[f"i{view.itemsize}"]
    elif number is None and form in tuple("BHILQN"):
        number = _NUMBERS[f"u{view.itemsize}"]
    if number is None or not view.contiguous:
        return None
    rows = len(view)
    raw = view.cast("B")
    # ctypes does not give the address of a read-only buffer, so its bytes are copied.
    keep: Any = (ctypes.c_char * raw.nbytes).from_buffer(raw) if not raw.readonly and raw.nbytes else raw.tobytes()
    address = ctypes.addressof(keep) if isinstance(keep, ctypes.Array) else ctypes.cast(ctypes.c_char_p(keep), c_void_p).value
    return _native.Column(type=number, rows=rows, values=address), (keep, view)


def _address(values: array) -> int:  # type: ignore[type-arg]
    return values.buffer_info()[0]


def _from_values(name: str, values: Sequence[Any], errors: Any, first: int) -> Tuple[_native.Column, Any]:
    """A column of Python values."""
    kinds = set(map(type, values))
    rows = len(values)
    try:
        if kinds == {int}:
            numbers = array("q", values)
            return _native.Column(type=_INT64, rows=rows, values=_address(numbers)), numbers
        if kinds == {float}:
            numbers = array("d", values)
            return _native.Column(type=_FLOAT64, rows=rows, values=_address(numbers)), numbers
        if kinds == {str} or kinds == {bytes}:
            return _strings(values, kinds == {str})
    except (OverflowError, UnicodeEncodeError):
        pass  # The error is found again below, row by row.
    return _any(name, values, errors, first)


def _strings(values: Sequence[Any], is_text: bool) -> Tuple[_native.Column, Any]:
    joined = "".join(values) if is_text else b"".join(values)
    data = joined.encode() if isinstance(joined, str) else joined
    lengths = map(len, values) if len(data) == len(joined) else (len(value.encode()) for value in values)
    ends = array("q", accumulate(chain((0,), lengths)))
    column = _native.Column(
        type=_TEXT if is_text else _BLOB,
        rows=len(values),
        values=ctypes.cast(ctypes.c_char_p(data), c_void_p),
        offsets=_address(ends),
        values_bytes=len(data),
    )
    return column, (data, ends)


def _any(name: str, values: Sequence[Any], errors: Any, first: int) -> Tuple[_native.Column, Any]:
    """A column whose values have several types or include NULL."""
    tags = bytearray(len(values))
    payloads = array("q", bytes(8 * len(values)))
    reals: Any = memoryview(payloads).cast("B").cast("d") if values else []
    pieces: List[bytes] = []
    end = 0
    for row, given in enumerate(values):
        value = given
        if type(value) not in _PLAIN:
            value = _plain(name, value, errors, first + row)
        if value is None:
            continue
        if isinstance(value, int):
            tags[row] = 1
            try:
                payloads[row] = value
            except OverflowError:
                raise errors.DataError(
                    f"column {name}, row {first + row}: {value} does not fit into SQLite's integers of 64 bits; store it as text or floating point"
                ) from None
        elif isinstance(value, float):
            tags[row] = 2
            reals[row] = value
        else:
            if isinstance(value, str):
                tags[row] = 3
                try:
                    value = value.encode()
                except UnicodeEncodeError:
                    raise errors.DataError(
                        f"column {name}, row {first + row}: {value!r:.60} has a lone surrogate, which UTF-8 cannot hold; repair the text"
                    ) from None
            else:
                tags[row] = 4
            pieces.append(value)
            end += len(value)
            payloads[row] = end
    data, held = b"".join(pieces), bytes(tags)
    column = _native.Column(
        type=_ANY,
        rows=len(values),
        values=ctypes.cast(ctypes.c_char_p(data), c_void_p),
        offsets=_address(payloads),
        validity=ctypes.cast(ctypes.c_char_p(held), c_void_p),
        values_bytes=len(data),
    )
    return column, (data, payloads, held)


_PLAIN = {type(None), int, float, str, bytes}


def _plain(name: str, value: Any, errors: Any, row: int) -> Any:
    """Converts a value of a type that SQLite does not have."""
    if isinstance(value, (bool, int)):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    # None of these packages is imported here: a caller with such values has imported it. An array
    # or a Series is many values, not one.
    kind = "" if getattr(value, "ndim", 0) else type(value).__module__.partition(".")[0]
    if kind == "decimal":
        if not value.is_finite():
            raise errors.DataError(f"column {name}, row {row}: the decimal {value} is not finite; use None for NULL")
        return format(value, "f")
    if kind in ("datetime", "pandas"):
        # This check comes first: a comparison with pandas.NA is neither true nor false.
        if type(value).__name__ == "NAType" or value != value:  # noqa: PLR0124: pandas.NaT
            return None
        if hasattr(value, "utcoffset") and hasattr(value, "date"):
            offset = value.utcoffset()
            if offset is None:
                return _short(value.isoformat(" "))
            try:
                return _short((value.replace(tzinfo=None) - offset).isoformat(" ")) + "+00:00"
            except OverflowError:
                raise errors.DataError(f"column {name}, row {row}: {value} is beyond the years 1 to 9999 in UTC; convert it, for example to text") from None
        # For a duration, only an array has a unit.
        if hasattr(value, "isoformat") and not hasattr(value, "total_seconds"):
            return _short(value.isoformat())
    if hasattr(value, "item") and kind == "numpy":
        if value.dtype.kind in "mM":
            return _time_of_numpy(name, value, errors, row)
        item = value.item()
        if type(item) in _PLAIN:
            return item
        # A type without a Python equivalent (numpy.longdouble) is its own item.
        if type(item) is not type(value):
            return _plain(name, item, errors, row)
    raise errors.DataError(
        f"column {name}, row {row}: a value of type {type(value).__name__} cannot be stored by SQLite; convert it, for example to text"
    )


def _short(moment: str) -> str:
    """A time with the fewest of 3, 6 or 9 digits that hold its fraction, or none. The library
    writes times of columns in the same way."""
    whole, _, fraction = moment.partition(".")
    digits = -(-len(fraction.rstrip("0")) // 3) * 3
    return f"{whole}.{fraction[:digits]}" if digits else whole


def _time_of_numpy(name: str, value: Any, errors: Any, row: int) -> Any:
    """A datetime or duration of NumPy in the form in which an array of it is stored: text or a
    number."""
    if value != value:  # noqa: PLR0124: NaT
        return None
    if value.dtype.kind == "m":
        return int(value.astype("int64"))
    unit = value.dtype.str.partition("[")[2].rstrip("]").lstrip("0123456789")
    known = unit if unit in _UNITS else _BASES.get(unit, "ns")
    exact = value.astype(f"datetime64[{known}]")
    if exact.astype(value.dtype) != value:
        raise errors.DataError(f"column {name}, row {row}: {value} is not exact in a unit that can be stored ({known}); round it, or convert it to text")
    year, month, rest = str(exact).replace("T", " ").rsplit("-", 2)
    whole, _, fraction = rest.partition(".")
    year = year if len(year) == 4 and year.isdigit() else f"{int(year):+05d}"
    return _short(f"{year}-{month}-{whole}.{fraction}" if fraction else f"{year}-{month}-{whole}")

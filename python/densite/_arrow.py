"""Arrow streams of the library as NumPy arrays."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int64, c_void_p
from typing import Any, Callable, Dict, List

import numpy

from . import _native


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


# The memory layout of the Arrow C data interface.
_Schema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_void_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(_Schema))),
    ("dictionary", c_void_p),
    ("release", ctypes.CFUNCTYPE(None, POINTER(_Schema))),
    ("private_data", c_void_p),
]
_Array._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(_Array))),
    ("dictionary", c_void_p),
    ("release", ctypes.CFUNCTYPE(None, POINTER(_Array))),
    ("private_data", c_void_p),
]
_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, POINTER(_Stream), POINTER(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, POINTER(_Stream), POINTER(_Array))),
    ("get_last_error", c_void_p),
    ("release", ctypes.CFUNCTYPE(None, POINTER(_Stream))),
    ("private_data", c_void_p),
]


def to_numpy(open_stream: Callable[[int], None], errors: Any) -> Dict[str, Any]:
    """Reads all batches of a stream of the library into one array for each column. Arrays of the
    library have no offsets. The batches are released when this function returns."""
    stream, schema = _Stream(), _Schema()
    batches: List[_Array] = []
    open_stream(ctypes.addressof(stream))
    try:
        if stream.get_schema(stream, schema):
            _native.fail(errors)
        children = [schema.children[i].contents for i in range(schema.n_children)]
        names = [child.name.decode() for child in children]
        formats = [child.format for child in children]
        schema.release(schema)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise errors.DataError(f"two columns are called {twice}; give one of them another name with AS")
        parts: List[List[Any]] = [[] for _ in names]
        while True:
            batch = _Array()
            if stream.get_next(stream, batch):
                _native.fail(errors)
            if not batch.release:
                break
            batches.append(batch)
            for i, form in enumerate(formats):
                parts[i].append(_values(batch.children[i].contents, form))
        return {name: _joined(values, form) for name, values, form in zip(names, parts, formats)}
    finally:
        for batch in batches:
            batch.release(batch)
        if stream.release:
            stream.release(stream)


def _joined(parts: List[Any], form: bytes) -> Any:
    if not parts:
        return numpy.empty(0, {b"l": numpy.int64, b"g": numpy.float64}.get(form, object))
    if len(parts) == 1:
        # The numbers still belong to the batch.
        return parts[0].copy()
    return (numpy.ma if any(isinstance(part, numpy.ma.MaskedArray) for part in parts) else numpy).concatenate(parts)


def _buffer(array: _Array, index: int, dtype: Any, count: int) -> Any:
    """A view of a buffer, valid as long as the batch."""
    size = numpy.dtype(dtype).itemsize * count
    if not count:
        return numpy.empty(0, dtype)
    return numpy.frombuffer((ctypes.c_char * size).from_address(array.buffers[index]), dtype, count)


def _values(array: _Array, form: bytes) -> Any:
    """The values of a column. Numbers stay in the memory of the batch."""
    n = array.length
    if form == b"n":
        return numpy.full(n, None, object)
    nulls = None
    if array.null_count:
        bits = _buffer(array, 0, numpy.uint8, (n + 7) // 8)
        nulls = numpy.unpackbits(bits, count=n, bitorder="little") == 0
    if form == b"l":
        values = _buffer(array, 1, numpy.int64, n)
        return values if nulls is None else numpy.ma.MaskedArray(values, nulls)
    if form == b"g":
        values = _buffer(array, 1, numpy.float64, n)
        return values if nulls is None else numpy.where(nulls, numpy.nan, values)
    ends = _buffer(array, 1, numpy.int32, n + 1).tolist()
    data = ctypes.string_at(array.buffers[2], ends[-1]) if ends[-1] else b""
    if form == b"u":
        text = data.decode()
        if len(text) == len(data):
            pieces: List[Any] = [text[start:end] for start, end in zip(ends, ends[1:])]
        else:
            pieces = [data[start:end].decode() for start, end in zip(ends, ends[1:])]
    else:
        pieces = [data[start:end] for start, end in zip(ends, ends[1:])]
    found = numpy.empty(n, object)
    found[:] = pieces
    if nulls is not None:
        found[nulls] = None
    return found

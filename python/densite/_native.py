"""The library's C API (include/densite.h) through ctypes, and its errors as exceptions of
sqlite3."""

from __future__ import annotations

import ctypes
import sqlite3
from ctypes import c_char_p, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, Generator, List, NoReturn, Optional

from ._library import library_path

Progress = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_uint64, c_uint64, c_char_p)
Rows = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64)


class Options(ctypes.Structure):
    """densite_options"""

    _fields_ = [
        ("size", c_uint32),
        ("level", c_int32),
        ("threads", c_int32),
        ("page_size", c_uint32),
        ("archive", c_int32),
        ("known_program", c_int32),
        ("wait_ms", c_int64),
    ]


class Column(ctypes.Structure):
    """densite_column"""

    _fields_ = [
        ("size", c_uint32),
        ("type", c_int32),
        ("rows", c_int64),
        ("values", c_void_p),
        ("stride", c_int64),
        ("offsets", c_void_p),
        ("validity", c_void_p),
        ("values_bytes", c_int64),
    ]


class SortKey(ctypes.Structure):
    """densite_sort_key"""

    _fields_ = [("column", c_int32), ("flags", c_int32)]


_P = ctypes.POINTER
#: The result type and argument types of each function. Text that the caller must free is a plain
#: pointer.
_FUNCTIONS = {
    "densite_errmsg": (c_char_p, ()),
    "densite_errkind": (c_char_p, ()),
    "densite_sqlite_errcode": (c_int, ()),
    "densite_free": (None, (c_void_p,)),
    "densite_options_init": (None, (_P(Options),)),
    "densite_compress": (c_int, (c_int64, c_char_p, c_char_p, _P(Options), Progress, c_void_p, _P(c_void_p))),
    "densite_publish": (c_int, (c_int64, c_char_p, c_char_p, _P(Options), Progress, c_void_p, _P(c_void_p))),
    "densite_decompress": (c_int, (c_int64, c_char_p, c_char_p, _P(Options), Progress, c_void_p, _P(c_void_p))),
    "densite_vacuum": (c_int, (c_int64, c_char_p, _P(Options), Progress, c_void_p, _P(c_void_p))),
    "densite_check": (c_int, (c_int64, c_char_p, Progress, c_void_p, _P(c_void_p))),
    "densite_info": (c_int, (c_int64, c_char_p, _P(c_void_p))),
    "densite_columns_new": (c_int64, ()),
    "densite_columns_add": (c_int, (c_int64, c_char_p, _P(Column))),
    "densite_columns_from_array": (c_int64, (c_void_p, c_void_p)),
    "densite_columns_from_stream": (c_int64, (c_void_p,)),
    "densite_columns_read": (c_int64, (c_int64, c_int64)),
    "densite_columns_sort": (c_int, (c_int64, _P(SortKey), c_int32, _P(c_int))),
    "densite_columns_rows": (c_int64, (c_int64,)),
    "densite_columns_count": (c_int64, (c_int64,)),
    "densite_columns_types": (c_int64, (c_int64, c_int32)),
    "densite_columns_has_null": (c_int64, (c_int64, c_int32)),
    "densite_columns_name": (c_int, (c_int64, c_int32, _P(c_void_p))),
    "densite_columns_last_row": (c_int64, (c_int64,)),
    "densite_columns_last_value": (c_int, (c_int64, c_int32, _P(c_void_p))),
    "densite_columns_progress": (c_int, (c_int64, Rows, c_void_p)),
    "densite_columns_release": (c_int, (c_int64,)),
    "densite_query_new": (c_int64, ()),
    "densite_query_keep": (c_int, (c_int64, c_int64)),
    "densite_query_stream": (c_int, (c_int64, c_void_p)),
    "densite_query_release": (c_int, (c_int64,)),
    "densite_capsule_init": (None, (c_void_p,)),
    "densite_capsule_name": (c_void_p, ()),
    "densite_capsule_new": (c_void_p, ()),
    "densite_capsule_destroy": (None, (c_void_p,)),
    "densite_capsule_change_new": (c_int64, ()),
    "densite_capsule_change_run": (c_int64, (c_int64,)),
    "densite_capsule_change_release": (c_int, (c_int64,)),
}

_library: Optional[ctypes.CDLL] = None
_path: Optional[str] = None


class State(ctypes.Structure):
    """The progress of a statement or verb: `done` rows, or `done` of `total` bytes in a phase, or a
    message. The library calls `call` after each change. If it is null, another thread reads `done`
    and can set `stop` to end the work."""

    _fields_ = [
        ("call", ctypes.CFUNCTYPE(c_int, c_void_p)),
        ("phase", c_char_p),
        ("done", c_uint64),
        ("total", c_uint64),
        ("message", c_char_p),
        ("stop", c_int),
    ]


class Watch:
    """The progress of a statement, which another thread polls. The statement calls no Python
    code."""

    def __init__(self) -> None:
        self._state = State()
        self.context = ctypes.addressof(self._state)

    @property
    def rows(self) -> Any:
        """A densite_rows for `context`."""
        return Rows(("densite_capsule_rows", library()))

    @property
    def rows_read(self) -> int:
        return int(self._state.done)

    def stop(self) -> None:
        """Ends the statement after at most 65,536 more rows."""
        self._state.stop = 1


class Listener:
    """Calls a function while the library works. If it raises, the work stops, and the exception is
    stored in `raised`.

    Python raises KeyboardInterrupt for Ctrl-C as soon as Python code runs, and ctypes drops an
    exception at the start of a callback. So the callback resumes a generator that is already inside
    its `try` block.
    """

    def __init__(self, tell: Callable[[State], Any]) -> None:
        self.raised: List[BaseException] = []
        self._state = State()
        listening = _listening(tell, self.raised)
        next(listening)
        self._state.call = type(self._state.call)(listening.send)
        self.context = ctypes.addressof(self._state)

    @property
    def progress(self) -> Any:
        """A densite_progress for `context`."""
        return Progress(("densite_capsule_progress", library()))

    @property
    def rows(self) -> Any:
        """A densite_rows for `context`."""
        return Rows(("densite_capsule_rows", library()))


def _listening(tell: Callable[[State], Any], raised: List[BaseException]) -> Generator[int, int, None]:
    answer = 0
    while True:
        try:
            address = yield answer
            tell(State.from_address(address))
        except GeneratorExit:
            return
        except BaseException as error:  # noqa: BLE001: raised again when the work has ended
            raised.append(error)
            answer = 1


def use(path: str) -> None:
    """The path of the copy of the library that serves SQLite. Another part of the program can have
    loaded it before the package's own."""
    global _path  # noqa: PLW0603
    _path = path


def library() -> ctypes.CDLL:
    """The shared library with its functions declared."""
    global _library  # noqa: PLW0603
    if _library is None:
        loaded = ctypes.CDLL(_path or library_path())
        for name, (answer, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = answer, arguments
        _library = loaded
    return _library


def text(pointer: c_void_p) -> str:
    """The text that a function returned. The pointer is freed."""
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        library().densite_free(pointer)


#: Exceptions by kind of failure. Any other kind is an OperationalError.
_BY_KIND = {
    "value": "DataError",
    "type": "DataError",
    "misuse": "ProgrammingError",
    "setting": "ProgrammingError",
    "unsupported": "NotSupportedError",
    "newer_format": "NotSupportedError",
    "damaged": "DatabaseError",
    "not_a_database": "DatabaseError",
    "is_directory": "DatabaseError",
    "internal": "InternalError",
}
#: Exceptions by SQLite's primary result code, as in the sqlite3 module.
_BY_CODE = {2: "InternalError", 11: "DatabaseError", 18: "DataError", 19: "IntegrityError", 20: "IntegrityError", 21: "InterfaceError", 26: "DatabaseError"}


def fail(errors: Any = sqlite3, code: int = 1) -> NoReturn:
    """Raises the newest failure of this thread as an exception of `errors`, a driver's module or
    connection."""
    lib = library()
    kind = lib.densite_errkind().decode()
    sqlite_code = lib.densite_sqlite_errcode()
    name = _BY_CODE.get(sqlite_code & 0xFF, "OperationalError") if kind == "sqlite" else _BY_KIND.get(kind, "OperationalError")
    error = getattr(errors, name)(lib.densite_errmsg().decode("utf-8", "replace"))
    error.code = code
    error.kind = kind
    raise error


def number(code: int, errors: Any = sqlite3) -> int:
    """Returns the number, or raises the failure if it is negative."""
    if code < 0:
        fail(errors)
    return code


def done(code: int, errors: Any = sqlite3) -> None:
    """Raises the failure if the code is not 0."""
    if code != 0:
        fail(errors, code)

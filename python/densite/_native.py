"""The library's C API (include/densite.h) through ctypes, and its errors as sqlite3's exceptions."""

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
#: What each function answers and takes. Text that is to be freed is a plain pointer.
_FUNCTIONS = {
    "densite_errmsg": (c_char_p, ()),
    "densite_errkind": (c_char_p, ()),
    "densite_sqlite_errcode": (c_int, ()),
    "densite_free": (None, (c_void_p,)),
    "densite_options_init": (None, (_P(Options),)),
    "densite_compress": (c_int, (c_int64, c_char_p, c_char_p, _P(Options), Progress, c_void_p, _P(c_void_p))),
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


class Told(ctypes.Structure):
    """What a callback is told: `done` rows, or `done` bytes of `total` in a phase, or a message. Without one, `done` is looked at, and `stop` ends it."""

    _fields_ = [
        ("call", ctypes.CFUNCTYPE(c_int, c_void_p)),
        ("phase", c_char_p),
        ("done", c_uint64),
        ("total", c_uint64),
        ("message", c_char_p),
        ("stop", c_int),
    ]


class Watch:
    """How far a statement is, for another thread to look at: nothing of Python's is called."""

    def __init__(self) -> None:
        self._told = Told()
        self.context = ctypes.addressof(self._told)

    @property
    def rows(self) -> Any:
        """A densite_rows for `context`."""
        return Rows(("densite_capsule_rows", library()))

    @property
    def rows_read(self) -> int:
        return int(self._told.done)

    def stop(self) -> None:
        """Ends the statement within 65,536 rows."""
        self._told.stop = 1


class Listener:
    """Has a function called while the library works; what it raises stops the work and is kept in `raised`.

    Python sees Ctrl-C only when Python code begins to run, and an exception in the first moment of a callback is lost. So what is called is a generator
    that stands within its `try` already.
    """

    def __init__(self, tell: Callable[[Told], Any]) -> None:
        self.raised: List[BaseException] = []
        self._told = Told()
        listening = _listening(tell, self.raised)
        next(listening)
        self._told.call = type(self._told.call)(listening.send)
        self.context = ctypes.addressof(self._told)

    @property
    def progress(self) -> Any:
        """A densite_progress for `context`."""
        return Progress(("densite_capsule_progress", library()))

    @property
    def rows(self) -> Any:
        """A densite_rows for `context`."""
        return Rows(("densite_capsule_rows", library()))


def _listening(tell: Callable[[Told], Any], raised: List[BaseException]) -> Generator[int, int, None]:
    answer = 0
    while True:
        try:
            place = yield answer
            tell(Told.from_address(place))
        except GeneratorExit:
            return
        except BaseException as error:  # noqa: BLE001: it is raised again when the work has ended
            raised.append(error)
            answer = 1


def library() -> ctypes.CDLL:
    """The shared library with its functions declared."""
    global _library  # noqa: PLW0603
    if _library is None:
        found = ctypes.CDLL(library_path())
        for name, (answer, arguments) in _FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = answer, arguments
        _library = found
    return _library


def text(pointer: c_void_p) -> str:
    """The text that a function gave, which is then freed."""
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        library().densite_free(pointer)


#: Exceptions by kind of failure; any other is an OperationalError.
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
#: Exceptions by SQLite's primary code, as the sqlite3 module has them.
_BY_CODE = {2: "InternalError", 11: "DatabaseError", 18: "DataError", 19: "IntegrityError", 20: "IntegrityError", 21: "InterfaceError", 26: "DatabaseError"}


def fail(errors: Any = sqlite3, code: int = 1) -> NoReturn:
    """Raises the newest failure of this thread as one of the exceptions of `errors`, a driver's module or connection."""
    lib = library()
    kind = lib.densite_errkind().decode()
    sqlite_code = lib.densite_sqlite_errcode()
    name = _BY_CODE.get(sqlite_code & 0xFF, "OperationalError") if kind == "sqlite" else _BY_KIND.get(kind, "OperationalError")
    error = getattr(errors, name)(lib.densite_errmsg().decode("utf-8", "replace"))
    error.code = code
    error.kind = kind
    raise error


def number(code: int, errors: Any = sqlite3) -> int:
    """Answers a number that is no failure; raises for -1, which is one."""
    if code < 0:
        fail(errors)
    return code


def done(code: int, errors: Any = sqlite3) -> None:
    """Raises for a code other than 0."""
    if code != 0:
        fail(errors, code)

"""Makes the VFS "densite" known to the SQLite behind a Python driver.

SQLite's usual way is to load an extension into a connection. Many Python builds do not support
this, so another way is used if the driver's SQLite can be reached. The library behind the driver's
module is found through the module's own file, and the extension's entry point is registered with it
(``sqlite3_auto_extension``). The first connection then registers the VFS for the whole process, and
every later connection gets the SQL functions.

Two copies of SQLite in one process do not share state. So the entry point is always registered with
the driver's SQLite; this package contains no SQLite of its own.
"""

from __future__ import annotations

import ctypes
import os
import sys
from _thread import allocate_lock

from ._library import __version__, library_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Optional

_lock = allocate_lock()
#: The oldest version of SQLite that Densite works with.
_OLDEST = (3, 37, 2)
#: Attached modules, by name.
_attached: set[str] = set()

_WORKS = (
    "the sqlite3 module of CPython 3.9 or newer, pysqlite3 and apsw work; so does every driver that can load extensions: "
    "load densite.library_path() into a connection"
)


def attach(sqlite_module: Optional[ModuleType] = None) -> None:
    """Makes ``vfs=densite`` available to all later connections of the SQLite behind a module.

    Args:
        sqlite_module: ``sqlite3`` (the default), ``pysqlite3``, ``apsw``, or another module with
            ``connect`` whose connections can load extensions.

    Calling it again has no cost. It cannot be undone during the life of the process.

    Raises:
        NotSupportedError: the module's SQLite cannot be reached, or is older than 3.37.2. The class
            is the module's own, if it has one, else that of sqlite3.
        OSError: the shared library is missing.
    """
    if sqlite_module is None:
        import sqlite3  # noqa: PLC0415: often not needed

        sqlite_module = sqlite3
    name = getattr(sqlite_module, "__name__", None)
    if not isinstance(name, str) or not callable(getattr(sqlite_module, "connect", getattr(sqlite_module, "Connection", None))):
        raise _not_supported(sqlite_module, f"{sqlite_module!r} is not the module of a driver for SQLite; {_WORKS}")
    with _lock:
        if name in _attached:
            return
        path = library_path()
        if name.partition(".")[0] == "apsw":
            _load_into_apsw(sqlite_module, path)
        else:
            library = _library_behind(sqlite_module)
            if library is not None:
                _register(sqlite_module, library, path)
            else:
                _load(sqlite_module, path)
        _attached.add(name)


def make_default(sqlite_module: ModuleType) -> None:
    """As :func:`attach`, and all later connections of this SQLite open files through Densite, also
    without ``vfs=densite``."""
    attach(sqlite_module)
    library = _library_behind(sqlite_module)
    if library is None:
        con = sqlite_module.connect(":memory:")
        try:
            con.enable_load_extension(True)
            con.execute("SELECT load_extension(?, 'sqlite3_densite_default_init')", (library_path(),)).fetchall()
        finally:
            con.close()
        return
    library.sqlite3_vfs_find.restype = ctypes.c_void_p
    library.sqlite3_vfs_register.argtypes = [ctypes.c_void_p, ctypes.c_int]
    if library.sqlite3_vfs_register(library.sqlite3_vfs_find(b"densite"), 1) != 0:
        raise MemoryError("SQLite has no memory to make Densite the default VFS; free memory and try again")


def _c_module(module: ModuleType) -> Optional[ModuleType]:
    """The compiled module behind a driver: ``_sqlite3`` for ``sqlite3``, ``pysqlite3._sqlite3`` for
    ``pysqlite3``."""
    import importlib  # noqa: PLC0415: often not needed

    name = module.__name__.partition(".")[0]
    for candidate in ("_sqlite3",) if name == "sqlite3" else (f"{name}._sqlite3",):
        try:
            return importlib.import_module(candidate)
        except ImportError:
            continue
    return None


def _library_behind(module: ModuleType) -> Optional[ctypes.CDLL]:
    """The SQLite that a driver uses, if it can be reached."""
    compiled = _c_module(module)
    if compiled is None:
        return None
    # A module that is built into the interpreter has no file: its symbols are those of the program.
    try:
        library = ctypes.CDLL(getattr(compiled, "__file__", None))
        version, source = library.sqlite3_libversion, library.sqlite3_sourceid
        library.sqlite3_auto_extension  # noqa: B018: raises AttributeError if it is missing
    except (AttributeError, OSError):
        return None
    version.restype = source.restype = ctypes.c_char_p
    # Another copy can be loaded too: the symbols must belong to the SQLite that the driver uses.
    con = module.connect(":memory:")
    try:
        answers = con.execute("SELECT sqlite_version(), sqlite_source_id()").fetchone()
    finally:
        con.close()
    reached = (version().decode(), source().decode())
    return library if tuple(answers) == reached else None


def _register(module: ModuleType, library: ctypes.CDLL, path: str) -> None:
    """Registers the extension's entry point with the SQLite of a driver."""
    _check_version(module, library.sqlite3_libversion().decode())
    entry = ctypes.cast(ctypes.CDLL(path).sqlite3_densite_init, ctypes.c_void_p)
    library.sqlite3_auto_extension.argtypes = [ctypes.c_void_p]
    library.sqlite3_cancel_auto_extension.argtypes = [ctypes.c_void_p]
    if library.sqlite3_auto_extension(entry) != 0:
        raise MemoryError("SQLite has no memory to register the extension; free memory and try again")
    try:
        _prime(module, module.connect)
    finally:
        # The first connection has registered another entry point, which all later connections use.
        library.sqlite3_cancel_auto_extension(entry)


def _check_version(module: ModuleType, version: str) -> None:
    """Raises an exception if this version of a driver's SQLite is too old for Densite."""
    if tuple(map(int, version.split("."))) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise _not_supported(module, f"{module.__name__}: Densite needs SQLite {oldest} or newer, and this is {version}; use a newer SQLite")


def _load(module: ModuleType, path: str) -> None:
    """The ordinary way: through a connection that can load extensions."""

    def connect(name: str) -> Any:
        con = module.connect(name)
        try:
            con.enable_load_extension(True)
            _check_version(module, con.execute("SELECT sqlite_version()").fetchone()[0])
            con.load_extension(path)
        except AttributeError:
            con.close()
            raise _not_supported(
                module,
                f"the SQLite of {module.__name__} ({_where(module)}) is hidden from other libraries and cannot load extensions; {_WORKS}",
            ) from None
        except BaseException:
            con.close()
            raise
        return con

    _prime(module, connect)


def _load_into_apsw(apsw: ModuleType, path: str) -> None:
    def connect(name: str) -> Any:
        con = apsw.Connection(name)
        con.enable_load_extension(True)
        _check_version(apsw, con.execute("SELECT sqlite_version()").fetchone()[0])
        con.load_extension(path)
        return con

    _prime(apsw, connect)


def _prime(module: ModuleType, connect: Any) -> None:
    """Opens the connection that registers the extension with SQLite, and checks that it did."""
    con = connect(":memory:")
    try:
        version, path = con.execute("SELECT densite_version(), densite_library()").fetchone()
    finally:
        con.close()
    if version != __version__:
        raise _not_supported(
            module, f"{path}: this process has loaded Densite {version}, and the package is {__version__}; load one of them"
        )
    from . import _native  # noqa: PLC0415: often not needed

    _native.use(path)


def _where(module: ModuleType) -> str:
    compiled = _c_module(module) or module
    path = getattr(compiled, "__file__", None)
    return os.path.abspath(path) if path else f"built into {sys.executable}"


def _not_supported(module: ModuleType, message: str) -> Exception:
    import sqlite3  # noqa: PLC0415

    error = getattr(module, "NotSupportedError", None)
    if not isinstance(error, type) or not issubclass(error, Exception):
        error = sqlite3.NotSupportedError
    return error(message)

"""The shared library."""

import os

__version__ = "0.1.0"

_NAME = "libdensite.so"


def library_path() -> str:
    """The path of the shared library, which any program can load into its SQLite as an extension.

    The environment variable DENSITE_LIBRARY names another one than the package's own.

    Raises:
        OSError: there is no file of that name.
    """
    named = os.environ.get("DENSITE_LIBRARY")
    path = named or os.path.join(os.path.dirname(os.path.abspath(__file__)), _NAME)
    if not os.path.isfile(path):
        hint = (
            "DENSITE_LIBRARY names it: set it to a libdensite.so, or unset it"
            if named
            else "the package is not complete: install it again, or set DENSITE_LIBRARY to a libdensite.so"
        )
        raise OSError(f"{path}: the shared library is not there; {hint}")
    return path

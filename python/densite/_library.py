"""The shared library."""

import os

__version__ = "0.1.0"

_NAME = "libdensite.so"


def library_path() -> str:
    """The path of the shared library, which any program can load into its SQLite as an extension.

    It is the package's own, unless the environment variable DENSITE_LIBRARY names another file.

    Raises:
        OSError: the file does not exist.
    """
    named = os.environ.get("DENSITE_LIBRARY")
    path = named or os.path.join(os.path.dirname(os.path.abspath(__file__)), _NAME)
    if not os.path.isfile(path):
        hint = (
            "DENSITE_LIBRARY names it: set DENSITE_LIBRARY to a libdensite.so, or unset it"
            if named
            else "the package is incomplete: install it again, or set DENSITE_LIBRARY to a libdensite.so"
        )
        raise OSError(f"{path}: the shared library is missing; {hint}")
    return path

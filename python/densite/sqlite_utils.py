"""The plugin for sqlite-utils: with this package installed, its command opens Densite files.

The command opens files by path alone, and attaches some. So if an argument is a Densite file,
Densite becomes the default VFS of this process. Otherwise nothing changes: a new file stays plain.
Programs that import sqlite_utils are not affected, because they do not load its commands. They call
``sqlite_utils.Database(densite.connect(path))``.
"""

from __future__ import annotations

import sys
from typing import Any

from sqlite_utils import hookimpl
from sqlite_utils.utils import sqlite3

from ._attach import make_default

#: The first bytes of a Densite file (docs/FORMAT.md, "Header").
_MAGIC = b"Densite format\r\n"


@hookimpl
def register_commands(cli: Any) -> None:  # noqa: ARG001: the hook's name for it
    if any(map(_is_densite, sys.argv[1:])):
        make_default(sqlite3)


def _is_densite(argument: str) -> bool:
    try:
        with open(argument, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        # Not a file, or one that the command will report itself.
        return False

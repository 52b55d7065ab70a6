"""``python -m densite`` runs the command ``densite`` of this installation."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from importlib import metadata
from typing import Iterator, Optional

_NAME = "densite"


def _candidates() -> Iterator[Optional[str]]:
    """Where the command can be: as the installed package lists it, then beside this interpreter,
    then on PATH."""
    try:
        files = metadata.files("densite") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == _NAME and "bin" in file.parts:
            yield str(file.locate())
    yield os.path.join(sysconfig.get_path("scripts"), _NAME)
    yield os.path.join(os.path.dirname(sys.executable), _NAME)
    yield shutil.which(_NAME)


def main() -> None:
    """Replaces this process by the command, which so gets its signals and its terminal."""
    for path in _candidates():
        if path and os.path.isfile(path) and os.access(path, os.X_OK):
            sys.stdout.flush()
            os.execv(path, [_NAME, *sys.argv[1:]])
    sys.exit("densite: the command was not found beside this interpreter or on PATH; install the package again, or put the command on PATH")


if __name__ == "__main__":
    main()

"""Densite for Python: SQLite databases that are stored compressed and stay small.

    import densite
    con = densite.connect("app.db")          # a sqlite3.Connection, as from sqlite3.connect
    con.execute("CREATE TABLE t(a)")

After ``densite.attach()`` every other way to open a database works as well:
``sqlite3.connect("file:app.db?vfs=densite", uri=True)``, and with it whatever is built on that module.

Plain SQLite files are served as they are; new and empty files become Densite files.
"""

from ._attach import attach
from ._connect import connect
from ._library import __version__, library_path

__all__ = ["__version__", "attach", "connect", "library_path"]

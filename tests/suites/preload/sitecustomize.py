"""Python runs this when it starts: it prepares the SQLite of the sqlite3 module for one run of a suite.

Every connection is recorded, and gets the journal mode (opened.c). Files are opened through Densite
if SUITES_STORE is `densite`. A database in memory becomes a file of its own, in the plain run too.
"""

import ctypes
import itertools
import os

number = itertools.count()


def prepare():
    import _sqlite3
    import sqlite3

    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_auto_extension.argtypes = [ctypes.c_void_p]
    if os.environ["SUITES_STORE"] == "densite":
        from densite._attach import make_default

        make_default(sqlite3)
    opened = ctypes.CDLL(os.environ["SUITES_LIBRARY"]).sqlite3_opened_init
    library.sqlite3_auto_extension(ctypes.cast(opened, ctypes.c_void_p))

    connect = sqlite3.connect

    def connect_to_file(*arguments, **options):
        database = arguments[0] if arguments else options.get("database")
        if database == ":memory:":
            database = f"{os.environ['SUITES_FILES']}/memory-{os.getpid()}-{next(number)}.db"
            if arguments:
                arguments = (database, *arguments[1:])
            else:
                options["database"] = database
        return connect(*arguments, **options)

    sqlite3.connect = sqlite3.dbapi2.connect = connect_to_file


if "SUITES_STORE" in os.environ:
    prepare()

"""Runs in the Python of a driver: `drivers.py DRIVER VERB PATH TMP [STATEMENT...]`. Ends with the
driver's own error."""

import importlib
import sys


def statements(con, given):
    for statement in given:
        print(con.execute(statement).fetchall())


def connect_sqlite3(module, path):
    return importlib.import_module(module).connect(path, isolation_level=None, timeout=0.2)


def connect_apsw(_, path):
    import apsw

    con = apsw.Connection(path)
    con.set_busy_timeout(200)
    return con


def connect_turso(_, path):
    import turso

    return turso.connect(path, isolation_level=None)


def connect_duckdb(_, path):
    import glob
    import os

    import duckdb
    import duckdb_extension_sqlite_scanner as package

    con = duckdb.connect(config={"allow_unsigned_extensions": True})
    con.execute("LOAD '{}'".format(glob.glob(os.path.join(os.path.dirname(package.__file__), "extensions/*/*.duckdb_extension"))[0]))
    con.execute("ATTACH '{}' AS a (TYPE sqlite)".format(path))
    con.execute("USE a")
    return con


def refuse_to_wait(status, *_):
    """sqlite3 waits for a locked database for ever."""
    if status in (5, 6):
        raise TimeoutError("database is locked")


CONNECT = {"apsw": connect_apsw, "turso": connect_turso, "duckdb": connect_duckdb}


def main(driver, verb, path, tmp, *given):
    con = CONNECT.get(driver, connect_sqlite3)(driver, path)
    if verb == "statements":
        statements(con, given)
    elif verb == "iterdump":
        print(len(list(con.iterdump())))
    elif verb == "serialize":
        print(len(con.serialize()))
    else:
        # The database is the source of a backup, or its destination.
        other = CONNECT.get(driver, connect_sqlite3)(driver, tmp + "/other.db")
        source, to = (con, other) if verb == "backup" else (other, con)
        if driver == "apsw":
            with to.backup("main", source, "main") as backup:
                backup.step()
        else:
            source.backup(to, pages=100, progress=refuse_to_wait)


if __name__ == "__main__":
    main(*sys.argv[1:])

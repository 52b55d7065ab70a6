"""Bulk rows in and out of SQLite from Python: Densite beside ADBC, Polars, connectorx and the sqlite3 module, alternately in one run.

    bench/python/run.sh target/release/libdensite.so target/bench-python [--rows N] [--rounds N] [--only WORD] [--dir DIR]

One table (a INTEGER, b INTEGER, val REAL, PRIMARY KEY (a, b)), WAL, synchronous as it is. Every round runs every method once on a fresh file;
inserts include the commit. Printed: medians of rows per second of CPU time (of all the process's threads) and of wall time, and how many times the best peer's that is.
"""

import argparse
import gc
import json
import os
import shutil
import sqlite3
import statistics
import tempfile
import time

import adbc_driver_sqlite.dbapi as adbc
import connectorx
import densite
import numpy
import polars
import pyarrow

options = argparse.ArgumentParser()
options.add_argument("--rows", type=int, default=1_000_000)
options.add_argument("--keys", type=int, default=100_000)
options.add_argument("--rounds", type=int, default=5)
options.add_argument("--only", default="")
options.add_argument("--dir")
options = options.parse_args()

N = options.rows
SIDE = round(N**0.5)
choose = numpy.random.default_rng(7)
number = numpy.arange(N)
SORTED = {"a": number // SIDE, "b": number % SIDE, "val": choose.random(N)}
mixed = choose.permutation(N)
SHUFFLED = {name: values[mixed] for name, values in SORTED.items()}
picked = choose.integers(0, N, options.keys)
KEYS = {"a": picked // SIDE, "b": picked % SIDE}
KEYS_ARROW = pyarrow.table(KEYS)
PAIRS = list(zip(KEYS["a"].tolist(), KEYS["b"].tolist()))
TABLE = "CREATE TABLE result(a INTEGER, b INTEGER, val REAL, PRIMARY KEY (a, b))"
READ = "SELECT a, b, val FROM result"
JOIN = "SELECT k.a, k.b, r.val FROM {} k JOIN result r ON r.a = k.a AND r.b = k.b"
densite.attach()


def prepared(path, kind="plain"):
    con = densite.connect(path) if kind == "densite" else sqlite3.connect(path)
    con.execute("PRAGMA journal_mode=WAL")
    con.execute(TABLE)
    con.commit()
    return con


def by_densite(data, kind):
    def run(path):
        con = prepared(path, kind)
        yield
        densite.insert(con, "result", data)
        yield
        con.close()

    return run


def by_adbc(table):
    def run(path):
        prepared(path).close()
        with adbc.connect(path) as con, con.cursor() as cursor:
            yield
            cursor.adbc_ingest("result", table, mode="append")
            con.commit()
            yield

    return run


def by_polars(frame):
    def run(path):
        prepared(path).close()
        yield
        frame.write_database("result", f"sqlite:///{path}", if_table_exists="append", engine="adbc")
        yield

    return run


def by_executemany(rows):
    def run(path):
        con = prepared(path)
        yield
        con.executemany("INSERT INTO result VALUES (?, ?, ?)", rows)
        con.commit()
        yield
        con.close()

    return run


def keyed_densite(keys):
    def run(path):
        con = densite.connect(path)
        yield
        got = densite.query(con, JOIN.format("keys"), keys=keys).to_numpy()
        yield
        assert len(got["val"]) == options.keys
        con.close()

    return run


def keyed_json(path):
    con = sqlite3.connect(path)
    yield
    rows = con.execute(
        "WITH k(a, b) AS (SELECT value ->> 0, value ->> 1 FROM json_each(?)) " + JOIN.format("k"), (json.dumps(PAIRS),)
    ).fetchall()
    yield
    assert len(rows) == options.keys
    con.close()


def keyed_temp(path):
    con = sqlite3.connect(path)
    yield
    con.execute("CREATE TEMP TABLE k(a, b)")
    con.executemany("INSERT INTO k VALUES (?, ?)", PAIRS)
    rows = con.execute(JOIN.format("k")).fetchall()
    yield
    assert len(rows) == options.keys
    con.close()


def keyed_adbc(path):
    with adbc.connect(path) as con, con.cursor() as cursor:
        yield
        cursor.adbc_ingest("k", KEYS_ARROW, mode="create", temporary=True)
        cursor.execute(JOIN.format("k"))
        table = cursor.fetch_arrow_table()
        yield
        assert table.num_rows == options.keys


def read_densite(path):
    con = densite.connect(path)
    yield
    table = pyarrow.table(densite.query(con, READ))
    yield
    assert table.num_rows == N
    con.close()


def read_connectorx(path):
    yield
    table = connectorx.read_sql(f"sqlite://{path}", READ, return_type="arrow")
    yield
    assert table.num_rows == N


def read_adbc(path):
    with adbc.connect(path) as con, con.cursor() as cursor:
        yield
        cursor.execute(READ)
        table = cursor.fetch_arrow_table()
        yield
        assert table.num_rows == N


def read_sqlite3(path):
    con = sqlite3.connect(path)
    yield
    rows = con.execute(READ).fetchall()
    yield
    assert len(rows) == N
    con.close()


def insert_methods(data):
    table, frame = pyarrow.table(data), polars.DataFrame(data)
    rows = list(zip(*(values.tolist() for values in data.values())))
    return {
        "densite, plain file": by_densite(data, "plain"),
        "densite, Densite file": by_densite(data, "densite"),
        "densite, Arrow, plain file": by_densite(table, "plain"),
        "ADBC": by_adbc(table),
        "Polars": by_polars(frame),
        "executemany": by_executemany(rows),
    }


def measured(run, path):
    gc.collect()
    steps = run(path)
    next(steps)
    cpu, wall = time.process_time(), time.perf_counter()
    next(steps)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    list(steps)
    return cpu, wall


def measure(title, methods, count, fresh, paths):
    if options.only not in title:
        return
    taken = {name: [] for name in methods}
    for _ in range(options.rounds):
        for name, run in methods.items():
            path = paths["densite" if "Densite" in name else "plain"]
            if fresh:
                for end in ("", "-wal", "-shm", "-journal"):
                    if os.path.exists(path + end):
                        os.unlink(path + end)
            taken[name].append(measured(run, path))
    print(f"\n{title}: {count:,} rows, median of {options.rounds}; M rows per second of CPU, of wall time")
    medians = {name: [count / statistics.median(part) / 1e6 for part in zip(*times)] for name, times in taken.items()}
    peers = [speed for name, speed in medians.items() if not name.startswith("densite")]
    for name, speed in medians.items():
        against = [speed[i] / max(peer[i] for peer in peers) for i in (0, 1)]
        print(f"  {name:30} {speed[0]:6.2f} {speed[1]:6.2f}   best peer x {against[0]:.2f}, {against[1]:.2f}")


folder = tempfile.mkdtemp(dir=options.dir)
try:
    paths = {kind: os.path.join(folder, f"{kind}.db") for kind in ("plain", "densite")}
    measure("insert sorted", insert_methods(SORTED), N, True, paths)
    measure("insert shuffled", insert_methods(SHUFFLED), N, True, paths)
    for kind, path in paths.items():
        if os.path.exists(path):
            os.unlink(path)
        con = prepared(path, kind)
        densite.insert(con, "result", SORTED)
        con.close()
    keyed = {
        "densite": keyed_densite(KEYS),
        "densite, Densite file": keyed_densite(KEYS),
        "JSON": keyed_json,
        "temporary table": keyed_temp,
        "ADBC, temporary table": keyed_adbc,
    }
    measure("keyed query", keyed, options.keys, False, paths)
    reads = {"densite": read_densite, "densite, Densite file": read_densite, "connectorx": read_connectorx, "ADBC": read_adbc, "sqlite3": read_sqlite3}
    measure("read", reads, N, False, paths)
finally:
    shutil.rmtree(folder)

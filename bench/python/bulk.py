"""Bulk rows in and out of SQLite from Python: Densite beside ADBC, Polars, connectorx, the sqlite3 module and the methods that a system of pairwise
computations on SQLite was built with, alternately in one run.

    bench/python/run.sh target/release/libdensite.so target/bench-python bulk.py [--rows N] [--rounds N] [--only WORD] [--dir DIR] [--save bench]
    bench/python/run.sh target/release/libdensite.so target/bench-python bulk.py --only import --beside OTHER-CHECKOUT

One table (a INTEGER, b INTEGER, val REAL, PRIMARY KEY (a, b)), synchronous as it is; journal_mode=WAL unless a method says otherwise. Every round runs
every method once, inserts on a fresh file and with the commit; 1b1 takes 1,000 rows. Printed: medians
of rows per second of CPU time (of all the process's threads) and of wall time, and Densite's as multiples of them.

The source's methods: 1b1, a statement and a transaction for each row (select: a statement for each pair); TSC, a statement for each row in one
transaction; BLK, statements of many rows (VALUES (…), (…); WHERE (a, b) IN (VALUES …)); JSON, one statement with json_each(?); SPC, SQL that has the
shape of the problem: all pairs by a join of the samples with themselves.
"""

import argparse
import gc
import itertools
import json
import os
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

import adbc_driver_sqlite.dbapi as adbc
import connectorx
import densite
import numpy
import polars
import pyarrow
import result

options = argparse.ArgumentParser()
options.add_argument("--rows", type=int, default=1_000_000)
options.add_argument("--keys", type=int, default=100_000)
options.add_argument("--rounds", type=int, default=5)
options.add_argument("--only", default="", help="sections whose names have this in them")
options.add_argument("--dir", help="where databases are made; the system's folder for such things otherwise")
options.add_argument("--beside", help="another checkout, whose import is timed in turn with that of this one")
options.add_argument("--save", help="the folder whose results/ gets what was measured, and a picture")
options = options.parse_args()

N = options.rows
SIDE = round(N**0.5)
#: Rows of a method that would take minutes.
SLOW = {"1b1": 1_000}
#: What the targets are about; the source's methods are there to be seen.
PEERS = ("ADBC", "Polars", "temporary table", "ADBC, temporary table", "connectorx")
choose = numpy.random.default_rng(7)
number = numpy.arange(N)
SORTED = {"a": number // SIDE, "b": number % SIDE, "val": choose.random(N)}
mixed = choose.permutation(N)
SHUFFLED = {name: values[mixed] for name, values in SORTED.items()}
picked = choose.integers(0, N, options.keys)
KEYS = {"a": picked // SIDE, "b": picked % SIDE}
KEYS_ARROW = pyarrow.table(KEYS)
PAIRS = list(zip(KEYS["a"].tolist(), KEYS["b"].tolist()))
#: As many samples have N pairs.
SAMPLES = round((1 + (1 + 8 * N) ** 0.5) / 2)
TABLE = "CREATE TABLE result(a INTEGER, b INTEGER, val REAL, PRIMARY KEY (a, b))"
READ = "SELECT a, b, val FROM result"
JOIN = "SELECT k.a, k.b, r.val FROM {} k JOIN result r ON r.a = k.a AND r.b = k.b"
ONE = "INSERT INTO result VALUES (?, ?, ?)"
#: Rows of a statement of BLK.
BLOCK = 300
densite.attach()


def prepared(path, kind="plain", journal="WAL"):
    con = densite.connect(path) if kind == "densite" else sqlite3.connect(path)
    con.execute(f"PRAGMA journal_mode={journal}")
    con.execute(TABLE)
    con.commit()
    return con


# Each method is a generator: it stops before and after what is measured, and says how many rows that was.


def by_densite(data, kind):
    def run(path):
        con = prepared(path, kind)
        yield
        yield densite.insert(con, "result", data)
        con.close()

    return run


def by_adbc(table):
    def run(path):
        prepared(path).close()
        with adbc.connect(path) as con, con.cursor() as cursor:
            yield
            cursor.adbc_ingest("result", table, mode="append")
            con.commit()
            yield table.num_rows

    return run


def by_polars(frame):
    def run(path):
        prepared(path).close()
        yield
        frame.write_database("result", f"sqlite:///{path}", if_table_exists="append", engine="adbc")
        yield len(frame)

    return run


def by_statements(rows, method, journal):
    rows = rows[: SLOW.get(method, N)]

    def run(path):
        con = prepared(path, journal=journal)
        yield
        if method == "1b1":
            for row in rows:
                con.execute(ONE, row)
                con.commit()
        elif method == "TSC":
            for row in rows:
                con.execute(ONE, row)
        elif method == "BLK":
            for start in range(0, len(rows), BLOCK):
                part = rows[start : start + BLOCK]
                con.execute("INSERT INTO result VALUES " + ", ".join(["(?, ?, ?)"] * len(part)), list(itertools.chain.from_iterable(part)))
        elif method == "JSON":
            con.execute("INSERT INTO result SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)", (json.dumps(rows),))
        else:
            con.executemany(ONE, rows)
        con.commit()
        yield len(rows)
        con.close()

    return run


def by_shape(kind, journal="WAL"):
    def run(path):
        con = prepared(path, kind, journal)
        con.execute("CREATE TABLE sample(id INTEGER PRIMARY KEY)")
        con.executemany("INSERT INTO sample VALUES (?)", ((n,) for n in range(SAMPLES)))
        con.commit()
        yield
        pairs = con.execute("INSERT INTO result(a, b) SELECT x.id, y.id FROM sample x JOIN sample y ON x.id < y.id").rowcount
        con.commit()
        yield pairs
        con.close()

    return run


def keyed_densite(path):
    con = densite.connect(path)
    yield
    yield len(densite.query(con, JOIN.format("keys"), keys=KEYS).to_numpy()["val"])
    con.close()


def keyed(method):
    pairs = PAIRS

    def run(path):
        con = sqlite3.connect(path)
        yield
        found = 0
        if method == "1b1" or method == "TSC":
            if method == "TSC":
                con.execute("BEGIN")
            for pair in pairs:
                found += len(con.execute("SELECT a, b, val FROM result WHERE a = ? AND b = ?", pair).fetchall())
            if method == "TSC":
                con.execute("COMMIT")
        elif method == "BLK":
            for start in range(0, len(pairs), BLOCK):
                part = pairs[start : start + BLOCK]
                marks = ", ".join(["(?, ?)"] * len(part))
                keys = list(itertools.chain.from_iterable(part))
                found += len(con.execute(f"WITH k(a, b) AS (VALUES {marks}) " + JOIN.format("k"), keys).fetchall())
        elif method == "JSON":
            sql = "WITH k(a, b) AS (SELECT value ->> 0, value ->> 1 FROM json_each(?)) " + JOIN.format("k")
            found = len(con.execute(sql, (json.dumps(pairs),)).fetchall())
        else:
            con.execute("CREATE TEMP TABLE k(a, b)")
            con.executemany("INSERT INTO k VALUES (?, ?)", pairs)
            found = len(con.execute(JOIN.format("k")).fetchall())
        yield found
        con.close()

    return run


def keyed_adbc(path):
    with adbc.connect(path) as con, con.cursor() as cursor:
        yield
        cursor.adbc_ingest("k", KEYS_ARROW, mode="create", temporary=True)
        cursor.execute(JOIN.format("k"))
        yield cursor.fetch_arrow_table().num_rows


def read_densite(path):
    con = densite.connect(path)
    yield
    yield pyarrow.table(densite.query(con, READ)).num_rows
    con.close()


def read_connectorx(path):
    yield
    yield connectorx.read_sql(f"sqlite://{path}", READ, return_type="arrow").num_rows


def read_adbc(path):
    with adbc.connect(path) as con, con.cursor() as cursor:
        yield
        cursor.execute(READ)
        yield cursor.fetch_arrow_table().num_rows


def read_polars(path):
    yield
    yield len(polars.read_database_uri(READ, f"sqlite:///{path}", engine="adbc"))


def read_sqlite3(path):
    con = sqlite3.connect(path)
    yield
    yield len(con.execute(READ).fetchall())
    con.close()


def bulk_methods(data):
    table, frame = pyarrow.table(data), polars.DataFrame(data)
    return {
        "densite, NumPy": by_densite(data, "plain"),
        "densite, Arrow": by_densite(table, "plain"),
        "densite, NumPy, Densite file": by_densite(data, "densite"),
        "ADBC": by_adbc(table),
        "Polars": by_polars(frame),
    }


def insert_methods(data):
    rows = list(zip(*(values.tolist() for values in data.values())))
    found = bulk_methods(data)
    for journal in ("WAL", "DELETE"):
        for method in ("1b1", "TSC", "BLK", "JSON", "executemany"):
            found[f"{method}, {'with' if journal == 'WAL' else 'without'} WAL"] = by_statements(rows, method, journal)
    return found


def measured(run, path):
    gc.collect()
    steps = run(path)
    next(steps)
    cpu, wall = time.process_time(), time.perf_counter()
    rows = next(steps)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    list(steps)
    return rows / cpu / 1e6, rows / wall / 1e6


def remove(path):
    for end in ("", "-wal", "-shm", "-journal", "-dwal", "-djournal"):
        if os.path.exists(path + end):
            os.unlink(path + end)


def measure(title, methods, fresh, paths):
    """Medians of M rows per second of CPU time and of wall time by method."""
    taken = {name: [] for name in methods}
    for _ in range(options.rounds):
        for name, run in methods.items():
            path = paths["densite" if "Densite" in name else "plain"]
            if fresh:
                remove(path)
            taken[name].append(measured(run, path))
    speeds = {name: [statistics.median(part) for part in zip(*times)] for name, times in taken.items()}
    print(f"\n{title}, median of {options.rounds}: M rows per second of CPU, of wall time; {next(iter(speeds))} as a multiple")
    ours = next(iter(speeds.values()))
    for name, speed in speeds.items():
        print(f"  {name:30} {speed[0]:8.3f} {speed[1]:8.3f} {ours[0] / speed[0]:9.2f} {ours[1] / speed[1]:7.2f}")
    return speeds


def figures(speeds, ours, wanted):
    """Ours beside every other method; `wanted` has targets by the name of a method, or "best" for the best peer."""
    found = []
    others = {name: speed for name, speed in speeds.items() if not name.startswith("densite")}
    best = max((name for name in others if name in PEERS), key=lambda name: others[name][0], default=None)
    for name, speed in others.items():
        target = wanted.get(name, wanted.get("best") if name == best else None)
        found.append(result.figure(f"{ours} / {name}, M rows/s of CPU", speed[0], speeds[ours][0], target))
        found.append(result.figure(f"{ours} / {name}, M rows/s", speed[1], speeds[ours][1]))
    return found


def import_ms(checkout, **more):
    """Milliseconds that `import densite` of a checkout takes in a new interpreter, without what the interpreter takes."""
    code = "import time; t = time.perf_counter(); import densite; print((time.perf_counter() - t) * 1000)"
    env = {**os.environ, "PYTHONPATH": os.path.join(checkout, "python"), **more}
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=env).stdout)


folder = tempfile.mkdtemp(dir=options.dir)
try:
    about = result.machine(folder, densite.__version__)
    paths = {kind: os.path.join(folder, f"{kind}.db") for kind in ("plain", "densite")}
    data = f"Bulk rows from Python ({N:,} rows)"
    pictures, outcomes = [], []

    def section(measure_name, title, methods, fresh, wanted):
        if options.only not in measure_name:
            return
        speeds = measure(title, methods(), fresh, paths)
        pictures.append((title, [(name, speed[1]) for name, speed in speeds.items()]))
        found = [part for ours, targets in wanted for part in figures(speeds, ours, targets)]
        outcomes.append(result.outcome(f"bulk-{measure_name}", title, data, "the method named", found, about))

    section(
        "insert-sorted",
        "insert, keys sorted",
        lambda: insert_methods(SORTED),
        True,
        [("densite, NumPy", {"best": 1.8}), ("densite, NumPy, Densite file", {"best": 1.0})],
    )
    section("insert-shuffled", "insert, keys shuffled", lambda: bulk_methods(SHUFFLED), True, [("densite, NumPy", {"best": 6.0}), ("densite, Arrow", {"best": 6.0})])
    allocate = {"densite: SPC, Densite file": by_shape("densite"), "SPC, with WAL": by_shape("plain"), "SPC, without WAL": by_shape("plain", "DELETE")}
    section("allocate", "allocate all pairs", lambda: allocate, True, [("densite: SPC, Densite file", {"SPC, with WAL": 1.0})])
    for kind, path in paths.items():
        remove(path)
        con = prepared(path, kind)
        densite.insert(con, "result", SORTED)
        con.close()
    lookups = {"densite": keyed_densite, "densite, Densite file": keyed_densite}
    lookups.update({method: keyed(method) for method in ("1b1", "TSC", "BLK", "JSON", "temporary table")})
    lookups["ADBC, temporary table"] = keyed_adbc
    section("keyed", f"{options.keys:,} random pairs by key", lambda: lookups, False, [("densite", {"best": 1.8, "JSON": 10.0})])
    reads = {"densite": read_densite, "densite, Densite file": read_densite, "connectorx": read_connectorx, "ADBC": read_adbc, "Polars": read_polars, "sqlite3": read_sqlite3}
    section("read", "read all rows to Arrow", lambda: reads, False, [("densite", {"connectorx": 1.3, "ADBC": 2.0})])
    if options.only in "import":
        here = pathlib.Path(__file__).resolve().parent.parent.parent
        ms = statistics.median(import_ms(here) for _ in range(7))
        print(f"\nimport densite: {ms:.1f} ms")
        if options.beside:
            # With compiled modules, as an installed package has them; the first turn writes them.
            compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
            turns = [[import_ms(checkout, **compiled) for checkout in (here, options.beside)] for _ in range(152)]
            ours, other = (statistics.median(side) for side in zip(*turns[1:]))
            print(f"in turn with {options.beside}: {ours:.2f} and {other:.2f} ms, {ours / other:.3f} times")
        one = result.figure("import densite, ms", 50.0, ms, 1.0, "at most")
        outcomes.append(result.outcome("bulk-import", "import", data, "the limit", [one], about))
    if options.save:
        for found in outcomes:
            result.save(options.save, found)
        if not options.only:
            result.picture(os.path.join(options.save, "bulk-python.svg"), pictures, about)
finally:
    shutil.rmtree(folder)

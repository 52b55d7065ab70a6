"""Applications with many small writes: each of them as it is, and with its table switched to the log, alternately in one run.

    bench/python/run.sh target/release/libdensite.so target/bench-python applications.py [--seconds N] [--rounds N] [--only WORD] [--dir DIR] [--save bench]

journal_mode=WAL, synchronous=FULL, eight processes. A turn has a fresh copy of the database. Printed and saved: medians of the rounds.
"""

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

import densite
import result

options = argparse.ArgumentParser()
options.add_argument("--seconds", type=float, default=6)
options.add_argument("--rounds", type=int, default=5)
options.add_argument("--only", default="", help="measures whose names have this in them")
options.add_argument("--dir", help="where databases are made; the system's folder for such things otherwise")
options.add_argument("--save", help="the folder whose results/ gets what was measured")
options.add_argument("--writer", help=argparse.SUPPRESS)
options = options.parse_args()

PROCESSES = 8
#: Rows that the tables have before.
FILLED = 500_000
COUNTERS = 100
DATA = "Applications with many small writes"
densite.attach()


def opened(path):
    con = sqlite3.connect(path, isolation_level=None, timeout=60)
    con.execute("PRAGMA synchronous=FULL")
    return con


def until_the_end(job, act):
    """Acts until the time is over. Returns the seconds of each act."""
    print("ready", flush=True)
    sys.stdin.readline()
    taken, end = [], time.monotonic() + job["seconds"]
    while time.monotonic() < end:
        start = time.perf_counter()
        act()
        taken.append(time.perf_counter() - start)
    return taken


def write_ids(job):
    con = opened(job["path"])
    con.execute("CREATE VIRTUAL TABLE temp.event_in USING densite_ingest(event)")
    rows = [(n, f"event {n}") for n in range(100)]
    return until_the_end(job, lambda: transaction(con, "INSERT INTO temp.event_in(kind, what) VALUES (?, ?)", rows))


def transaction(con, sql, rows):
    con.execute("BEGIN")
    con.executemany(sql, rows)
    con.execute("COMMIT")


def write_counters(job):
    con = opened(job["path"])
    count = "UPDATE counter SET n = n + 1 WHERE id = ?"
    number = job["process"]

    def act():
        nonlocal number
        number = (number * 31 + 17) % 10007
        con.execute(count, (number % COUNTERS,))

    return until_the_end(job, act)


def write_django(job):
    import django
    from django.conf import settings

    init = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"
    database = {"ENGINE": "densite.django", "NAME": job["path"], "OPTIONS": {"timeout": 60, "init_command": init}}
    settings.configure(DATABASES={"default": database}, INSTALLED_APPS=[], DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True)
    django.setup()
    from django.db import models

    class Event(models.Model):
        kind = models.IntegerField()
        what = models.TextField()

        class Meta:
            app_label, db_table = "bench", "event"

    number = job["process"] * 1_000_003

    def rows(count):
        nonlocal number
        number += count
        return [Event(kind=(number + i) * 7919 % 1_000_003, what=f"event {number + i}") for i in range(count)]

    Event.objects.exists()
    if job["saves"]:
        return until_the_end(job, lambda: rows(1)[0].save())
    return until_the_end(job, lambda: Event.objects.bulk_create(rows(100)))


def filled(path, schema):
    con = opened(path)
    con.execute("PRAGMA journal_mode=WAL")
    con.executescript(schema)
    return con


EVENT = "CREATE TABLE event(id INTEGER PRIMARY KEY {}, kind INTEGER NOT NULL, what TEXT NOT NULL); CREATE INDEX by_kind ON event(kind)"


def events(path, automatic):
    con = filled(path, EVENT.format("AUTOINCREMENT" if automatic else ""))
    con.execute("BEGIN")
    con.executemany("INSERT INTO event(kind, what) VALUES (?, ?)", ((n * 7919 % 1_000_003, f"event {n}") for n in range(FILLED)))
    con.execute("COMMIT")
    return con


def counters(path):
    con = filled(path, "CREATE TABLE counter(id INTEGER PRIMARY KEY, n INTEGER NOT NULL)")
    con.executemany("INSERT INTO counter VALUES (?, 0)", ((n,) for n in range(COUNTERS)))
    return con


def run(path, writer, **job):
    """Runs eight processes at once. Returns the seconds of all acts."""
    arguments = [sys.executable, __file__, "--writer", writer]
    jobs = [json.dumps({"path": path, "seconds": options.seconds, "process": i, **job}) for i in range(PROCESSES)]
    children = [subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "JOB": job}) for job in jobs]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    taken = []
    for child in children:
        taken += json.loads(child.stdout.read())
        if child.wait():
            raise SystemExit(f"a writer of {writer} ended with {child.returncode}")
    return taken


def p99(taken):
    return sorted(taken)[len(taken) * 99 // 100]


def rounds(fresh, turn):
    """The medians of what `turn(path, switched)` returns, for both ways."""
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        kept, path = [os.path.join(folder, f"kept{switched}.db") for switched in (0, 1)], os.path.join(folder, "app.db")
        for switched in (0, 1):
            con = fresh(kept[switched], switched)
            con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            con.close()
        taken = ([], [])
        for _ in range(options.rounds):
            for switched in (0, 1):
                for name in os.listdir(folder):
                    if name.startswith("app.db"):
                        one = os.path.join(folder, name)
                        shutil.rmtree(one) if os.path.isdir(one) else os.unlink(one)
                shutil.copyfile(kept[switched], path)
                taken[switched].append(turn(path, switched))
        return [[statistics.median(part) for part in zip(*figures)] for figures in taken]


def applied(con):
    return con.execute("SELECT densite_wait()").fetchone()[0]


def ids():
    def turn(path, switched):
        taken = run(path, "ids")
        con = opened(path)
        applied(con)
        assert con.execute("SELECT count(*) FROM event").fetchone()[0] == FILLED + 100 * len(taken)
        return [100 * len(taken) / options.seconds]

    base, ours = rounds(events, turn)
    return [result.figure("8 processes, 100 rows in each transaction: rows/s with ids at INSERT / with ids chosen later", base[0], ours[0], 0.95)]


def switch(con, table, switched, policy="abort"):
    if switched:
        con.execute("SELECT densite_config('ingest', ?, ?)", (table, f"on_conflict={policy}, shadow=on"))
    return con


def orm():
    def turn(path, switched):
        if switched:
            switch(opened(path), "event", True).close()
        bulk = run(path, "django", saves=False)
        saves = run(path, "django", saves=True)
        con = opened(path)
        if switched:
            applied(con)
        assert con.execute("SELECT count(*) FROM main.event").fetchone()[0] == FILLED + 100 * len(bulk) + len(saves)
        return [100 * len(bulk) / options.seconds, len(saves) / options.seconds, statistics.median(saves) * 1000, p99(saves) * 1000]

    base, ours = rounds(lambda path, _: events(path, True), turn)
    return [
        result.figure("Django, 8 processes: bulk_create of 100, rows/s, switched / not", base[0], ours[0], 10),
        result.figure("Django, 8 processes: save, rows/s", base[1], ours[1]),
        result.figure("Django, 8 processes: save, median, ms", base[2], ours[2], None, "at most"),
        result.figure("Django, 8 processes: save, 99th percentile, ms", base[3], ours[3], 0.2, "at most"),
    ]


def increments():
    def turn(path, switched):
        if switched:
            switch(opened(path), "counter", True).close()
        taken = run(path, "counters")
        con = opened(path)
        if switched:
            applied(con)
        assert con.execute("SELECT sum(n) FROM main.counter").fetchone()[0] == len(taken), "an increment is lost"
        return [len(taken) / options.seconds, p99(taken) * 1000]

    base, ours = rounds(lambda path, _: counters(path), turn)
    return [
        result.figure("100 counters, 8 processes: increments/s, each its own transaction, sums exact", base[0], ours[0], 50),
        result.figure("100 counters, 8 processes: an increment, 99th percentile, ms", base[1], ours[1], None, "at most"),
    ]


def feed():
    rows = [(n * 7919 % 1_000_003, n, f"article {n}", n / 2) for n in range(200_000)]
    insert = "INSERT INTO {} VALUES (?, ?, ?, ?)"

    def fresh(path, recorded):
        con = filled(path, "CREATE TABLE vote(user INTEGER, article INTEGER, name TEXT, x REAL, PRIMARY KEY (user, article))")
        if recorded:
            con.execute("SELECT densite_config('changes', 'vote', 'on'), densite_changes_subscribe('copy')")
        return con

    def turn(path, _):
        con = opened(path)
        clock, cpu = time.perf_counter(), time.process_time()
        figures = []

        def took():
            nonlocal clock, cpu
            figures.extend([time.perf_counter() - clock, time.process_time() - cpu])
            clock, cpu = time.perf_counter(), time.process_time()

        con.execute("CREATE VIRTUAL TABLE temp.vote_in USING densite_ingest(vote)")
        clock, cpu = time.perf_counter(), time.process_time()
        transaction(con, insert.format("temp.vote_in"), rows)
        applied(con)
        took()
        con.execute("DELETE FROM vote")
        clock, cpu = time.perf_counter(), time.process_time()
        for row in rows[:2000]:
            con.execute(insert.format("vote"), row)
        took()
        transaction(con, insert.format("vote"), rows[2000:])
        took()
        con.execute("PRAGMA synchronous=OFF")
        clock, cpu = time.perf_counter(), time.process_time()
        for row in rows[:2000]:
            con.execute("UPDATE vote SET x = x + 1 WHERE user = ? AND article = ?", row[:2])
        took()
        con.close()
        return figures

    base, ours = rounds(fresh, turn)
    names = [
        ("200,000 rows through ingest until they are applied", 1.15),
        ("2,000 ordinary transactions of one row, with a sync", 1.15),
        ("one ordinary transaction of 198,000 rows", 1.15),
        ("2,000 ordinary updates of one row, without a sync", None),
    ]
    found = []
    for i, (name, target) in enumerate(names):
        for j, kind in enumerate(("s", "s of CPU")):
            k = 2 * i + j
            found.append(result.figure(f"{name}: {kind}, recorded for a subscriber / not", base[k], ours[k], target if j == 0 else None, "at most"))
    return found


MEASURES = {
    "ids": ("ids at INSERT", "ids chosen when rows are applied", ids),
    "orm": ("an ORM", "the table itself", orm),
    "increments": ("hot counters", "the table itself", increments),
    "changes": ("recording of changes", "not recorded", feed),
}

if options.writer:
    writer = {"ids": write_ids, "django": write_django, "counters": write_counters}[options.writer]
    print(json.dumps(writer(json.loads(os.environ["JOB"]))))
    raise SystemExit
for name, (title, base_label, measure) in MEASURES.items():
    if options.only not in name:
        continue
    figures = measure()
    print(f"\n{title}; base: {base_label}")
    for one in figures:
        print(f"  {one['name']:100} {one['base']:10.3f} {one['ours']:10.3f} {one['value']:8.3f} {'' if one['met'] is None else 'met' if one['met'] else 'missed'}")
    if options.save:
        about = result.machine(options.dir or tempfile.gettempdir(), densite.__version__)
        result.save(options.save, result.outcome(f"applications-{name}", title, DATA, base_label, figures, about))

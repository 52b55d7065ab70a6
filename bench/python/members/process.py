"""Members as processes of their own: one that writes, others that say when they have a row."""

import json
import os
import subprocess
import sys
import time

import densite
from members.server import until

#: Rows of one transaction.
BATCH = 1000
SCHEMA = "CREATE TABLE event(id INTEGER PRIMARY KEY, at INT, value INT)"
INGEST = "CREATE VIRTUAL TABLE temp.event_in USING densite_ingest(event)"
#: Rows that SQLite itself makes, so that Python takes no part in a measure: how many, behind which.
MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?1) SELECT ?2 + i, ?2 + i, (?2 + i) * 2654435761 % 1000003 FROM n"


def opened(path):
    con = densite.connect(path, isolation_level=None, timeout=60)
    con.execute("PRAGMA journal_mode=WAL")
    return con


class Child:
    """A process of its own, which answers one line for each that it gets."""

    def __init__(self, what, path):
        environment = {**os.environ, "JOB": path}
        self.process = subprocess.Popen([sys.executable, sys.argv[0], "--child", what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.answer()

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a process of the measure ended: {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def say(**answer):
    print(json.dumps(answer), flush=True)


def questions(path):
    """A connection to the database of this process, and each question that comes."""
    con = opened(path)
    con.execute(INGEST)
    say()
    for line in sys.stdin:
        yield con, json.loads(line)
    con.close()


def writing(path):
    """A process that writes rows with consecutive ids. All times are of one clock of the machine."""
    number = None
    for con, asked in questions(path):
        if number is None:
            number = con.execute("SELECT ifnull(max(id), 0) FROM event_in").fetchone()[0]
        first, begin, taken = number, time.monotonic(), []
        if "settle" in asked:
            con.execute("SELECT densite_wait()").fetchone()
            say(last=number)
        elif "one" in asked:
            number += 1
            con.execute("INSERT INTO event_in VALUES (?, ?, ?)", (number, number, number))
            committed = time.monotonic()
            until(lambda: con.execute("SELECT 1 FROM event WHERE id = ?", (number,)).fetchone(), 60)
            say(committed=committed, applied=time.monotonic())
        elif "many" in asked:
            # As fast as they go, until they are in the table.
            while number < first + asked["many"]:
                con.execute(f"INSERT INTO event_in {MANY}", (BATCH, number))
                number += BATCH
            written = time.monotonic()
            con.execute("SELECT densite_wait()").fetchone()
            say(begin=begin, written=written, applied=time.monotonic(), last=number)
        elif "every" in asked:
            # A transaction after each such time.
            for i in range(asked["transactions"]):
                time.sleep(max(0, begin + i * asked["every"] - time.monotonic()))
                con.execute(f"INSERT INTO event_in {MANY}", (BATCH, number))
                number += BATCH
                taken.append((number, time.monotonic()))
            say(committed=taken, seconds=time.monotonic() - begin)
        else:
            count = asked.get("rows", 1)
            while time.monotonic() < begin + asked["seconds"]:
                if asked.get("pace"):
                    time.sleep(max(0, begin + len(taken) / asked["pace"] - time.monotonic()))
                some = [(number + i, number + i, i) for i in range(1, count + 1)]
                start = time.perf_counter()
                con.execute("BEGIN")
                con.executemany("INSERT INTO event_in VALUES (?, ?, ?)", some)
                con.execute("COMMIT")
                if asked.get("waits"):
                    con.execute("SELECT densite_wait(densite_last_seq(), 'stream')").fetchone()
                taken.append(time.perf_counter() - start)
                number += count
            if "rows" in asked:
                con.execute("SELECT densite_wait(densite_last_seq(), 'stream')").fetchone()
            say(rate=(number - first) / (time.monotonic() - begin), taken=taken)


def reading(path):
    """A process that says when the table has a row, and on request also when it had those before."""
    for con, asked in questions(path):
        last, seen = con.execute("SELECT ifnull(max(id), 0) FROM event").fetchone()[0], []
        end = time.monotonic() + 600
        while last < asked["until"]:
            if time.monotonic() > end:
                raise SystemExit(f"{path}: row {asked['until']} did not come for 600 s")
            time.sleep(asked.get("pause", 0.001))
            found = con.execute("SELECT ifnull(max(id), 0) FROM event").fetchone()[0]
            if found != last:
                seen.append((found, time.monotonic()))
            last = found
        say(at=time.monotonic(), seen=seen if asked.get("each") else None)


KINDS = {"write": writing, "read": reading}

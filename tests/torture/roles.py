"""The roles of processes until they are killed: writers, readers, and a subscriber of the log."""

import os
import random
import resource
import sqlite3
import time

from .work import WRITERS, Board, Ledger, batch, connect, open_tables

#: Every file of a limited process can have at least this length, in bytes.
LEAST = 1 << 18


class Violation(Exception):
    """A reader saw a state that must not be visible."""


class ReopenedConnection:
    """A connection to the database of the round. It is closed while the file `pause` exists, and at
    random moments."""

    def __init__(self, directory, seed, name, plain):
        self.directory, self.plain, self.con = directory, plain, None
        self.random = random.Random(f"{seed} {name}")
        self.errors = open(f"{directory}/errors.{name}", "a", encoding="utf-8")

    def close(self):
        if self.con is not None:
            self.con.close()
            self.con = None

    def failed(self, what):
        """Writes an expected error (busy, no space) to the errors file."""
        print(what, file=self.errors, flush=True)

    def open(self, may_close):
        """Opens the connection if necessary. Returns whether it is open."""
        if os.path.exists(f"{self.directory}/pause") or (may_close and self.random.random() < 0.02):
            self.close()
            time.sleep(0.05)
            if os.path.exists(f"{self.directory}/pause"):
                return False
        if self.con is None:
            try:
                self.con = connect(f"{self.directory}/db", self.plain)
                self.con.execute(f"PRAGMA synchronous={self.random.choice(['FULL', 'NORMAL', 'OFF'])}")
                open_tables(self.con)
            except sqlite3.Error as e:
                self.failed(f"open: {e}")
                self.close()
                time.sleep(0.05)
        return self.con is not None

    def limit(self):
        """Limits the length of files that this process writes, or removes the limit. This simulates
        a disk that is full for some time."""
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        # The process's own ledger and errors must stay below the limit.
        length = LEAST + self.random.choice([0, 10000, os.path.getsize(f"{self.directory}/db")])
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.random.choice([length, most]), most))

    def roll_back(self):
        try:
            if self.con.in_transaction:
                self.con.execute("ROLLBACK")
        except sqlite3.Error as e:
            self.failed(f"rollback: {e}")


def write(directory, number, seed, plain):
    database, board, ledger = ReopenedConnection(directory, seed, f"write{number}", plain), Board(directory), Ledger(directory, number)
    r, acknowledged, n = database.random, 0, 0
    is_limited = r.random() < 0.2
    while True:
        if is_limited and r.random() < 0.1:
            database.limit()
        if not database.open(may_close=True):
            continue
        n += 1
        kind = r.choice("d" + "i" * 9)
        rows = batch(seed, number, n)
        in_a = sum(table == "a" for table, _ in rows) if kind == "i" else 0
        board.set(number, acknowledged, acknowledged + in_a)
        ledger.add("begun", kind, n)
        gives_up = r.random() < 0.05
        try:
            (insert if kind == "i" else insert_directly)(database.con, r, number, n, rows)
            database.con.execute("ROLLBACK" if gives_up else "COMMIT")
        except sqlite3.Error as e:
            database.failed(f"{kind} {n}: {e}")
            database.roll_back()
            gives_up = True
        if gives_up:
            ledger.add("back", kind, n)
            board.set(number, acknowledged, acknowledged)
            continue
        ledger.add("acknowledged", kind, n)
        acknowledged += in_a
        board.set(number, acknowledged, acknowledged)
        try:
            between(database.con, r, number, acknowledged)
        except sqlite3.Error as e:
            database.failed(f"between: {e}")
        if r.random() < 0.3:
            time.sleep(r.random() * 0.05)


def insert(con, r, number, n, rows):
    """Inserts a batch through the log, and records it as the writer's last batch."""
    con.execute("BEGIN")
    if r.random() < 0.1:
        con.execute("SAVEPOINT s")
        con.execute("INSERT INTO a_in VALUES (?, ?, ?, 0, 0, 'never')", (r.getrandbits(40), number, n))
        con.execute("ROLLBACK TO s")
    for table in "abc":
        some = [row for of, row in rows if of == table]
        if some:
            con.executemany(f"INSERT INTO {table}_in VALUES ({', '.join('?' * len(some[0]))})", some)
    con.execute("INSERT INTO d_in VALUES (?, ?, ?)", (number, n, "x" * r.choice([1, 300])))
    con.execute("INSERT INTO e_in VALUES (?, ?, ?)", (number, n, n))
    con.execute("DELETE FROM e_in WHERE writer = ? AND batch <= ?", (number, n - 4))


def insert_directly(con, r, number, n, rows):
    """Inserts rows without the log, in an ordinary transaction."""
    con.execute("BEGIN IMMEDIATE")
    size = min(len(rows), 50)
    con.executemany("INSERT INTO direct VALUES (?, ?, ?, ?, ?)", [(number, n, i, size, "p" * r.choice([1, 500])) for i in range(size)])


def between(con, r, number, acknowledged):
    """Other work of a writer between two batches."""
    what = r.randrange(40)
    if what == 0:
        con.execute("SELECT densite_wait(NULL, 3)").fetchall()
    elif what == 1:
        con.execute("SELECT densite_prune()").fetchall()
    elif what == 2:
        con.execute(f"PRAGMA wal_checkpoint({r.choice(['PASSIVE', 'FULL', 'RESTART', 'TRUNCATE'])})").fetchall()
    elif what == 3:
        con.execute("PRAGMA densite_maintain").fetchall()
    elif what == 4:
        own = con.execute("SELECT count(*) FROM a_in WHERE writer = ?", (number,)).fetchone()[0]
        if own != acknowledged:
            raise Violation(f"writer {number} sees {own} of its rows, but {acknowledged} are acknowledged")


def read(directory, number, seed, plain):
    """Every acknowledged row is visible. A read transaction always sees the same rows. Tables never
    lose rows."""
    database, board = ReopenedConnection(directory, seed, f"read{number}", plain), Board(directory)
    r, last, late = database.random, {}, 0
    count = "SELECT writer, count(*) FROM {} GROUP BY writer"
    while True:
        if not database.open(may_close=True):
            continue
        ask = lambda sql: dict(database.con.execute(sql).fetchall())  # noqa: B023, E731: used at once
        before = [board.acknowledged(w) for w in range(WRITERS)]
        try:
            database.con.execute("BEGIN")
            seen = ask(count.format("a_in"))
            after = [board.at_most(w) for w in range(WRITERS)]
            if r.random() < 0.2:
                time.sleep(r.random() * 0.5)
            again = ask("SELECT writer, count(DISTINCT id) FROM a_in GROUP BY writer")
            tops = [ask(f"SELECT writer, max(batch) FROM {table}_in GROUP BY writer") for table in "ade"]
            base = ask(count.format("a"))
            database.con.execute("COMMIT")
        except sqlite3.Error as e:
            database.failed(e)
            if database.con.in_transaction:
                database.roll_back()
            database.close()
            time.sleep(0.02)
            continue
        if again != seen:
            raise Violation(f"the rows changed within a transaction: {seen}, then {again}")
        if not tops[0] == tops[1] == tops[2]:
            raise Violation(f"a transaction is visible in part: last batches {tops}")
        for w, n in seen.items():
            if n > after[w] or base.get(w, 0) > n:
                raise Violation(f"writer {w}: {n} rows are visible, {base.get(w, 0)} of them in the table; expected at most {after[w]}")
        for w, n in last.items():
            if base.get(w, 0) < n:
                raise Violation(f"writer {w}: the table had {n} rows, but now has {base.get(w, 0)}")
        last = base
        short = [(w, n, seen.get(w, 0)) for w, n in enumerate(before) if seen.get(w, 0) < n]
        # Earlier rows of the log can still be prepared.
        late = late + 1 if short else 0
        if late > 200:
            raise Violation(f"acknowledged rows are not visible (writer, acknowledged, visible): {short}")
        time.sleep(0.02 if short else r.random() * 0.05)


def follow(directory, number, seed, plain):
    """Reads the log in order and acknowledges its rows, so that they can be pruned."""
    database, last = ReopenedConnection(directory, seed, f"follow{number}", plain), None
    while True:
        if not database.open(may_close=False):
            last = None
            continue
        try:
            database.con.execute("SELECT densite_subscribe('s', 'start')").fetchall()
        except sqlite3.Error as e:
            database.failed(e)
        try:
            while not os.path.exists(f"{directory}/pause"):
                seqs = [seq for (seq,) in database.con.execute("SELECT seq FROM densite_log('s', 500)")]
                if seqs != sorted(set(seqs)) or (last is not None and seqs and seqs[0] <= last):
                    raise Violation(f"the log after row {last} begins with the rows {seqs[:10]}")
                if seqs:
                    last = seqs[-1]
                    database.con.execute("SELECT densite_ack('s', ?)", (last,)).fetchall()
                else:
                    time.sleep(0.05)
        except sqlite3.Error as e:
            database.failed(e)
            database.close()
            last = None
            time.sleep(0.05)


ROLES = {"write": write, "read": read, "follow": follow}

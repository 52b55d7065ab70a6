"""What the processes do until they are killed: writers, readers, and a follower of the log."""

import os
import random
import resource
import sqlite3
import time

from .work import WRITERS, Board, Ledger, batch, connect, open_tables


#: Length that every file of a limited process may have.
LEAST = 1 << 18


class Wrong(Exception):
    """Something that must not be seen was seen."""


class Place:
    """A connection to the round's database, which is closed while there is a file `pause`, and now and then."""

    def __init__(self, directory, seed, name, plain):
        self.directory, self.plain, self.con = directory, plain, None
        self.random = random.Random(f"{seed} {name}")
        self.errors = open(f"{directory}/errors.{name}", "a", encoding="utf-8")

    def close(self):
        if self.con is not None:
            self.con.close()
            self.con = None

    def failed(self, what):
        """Busy, or no room: no fault, but to be looked at."""
        print(what, file=self.errors, flush=True)

    def open(self, may_close):
        """Whether there is one."""
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
        """For this process no file may grow beyond some length, or any length again, as on a disk that is full and then is not."""
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        # What it tells itself has room in any case.
        length = LEAST + self.random.choice([0, 10000, os.path.getsize(f"{self.directory}/db")])
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.random.choice([length, most]), most))

    def roll_back(self):
        try:
            if self.con.in_transaction:
                self.con.execute("ROLLBACK")
        except sqlite3.Error as e:
            self.failed(f"rollback: {e}")


def write(directory, number, seed, plain):
    place, board, ledger = Place(directory, seed, f"write{number}", plain), Board(directory), Ledger(directory, number)
    r, acknowledged, n = place.random, 0, 0
    is_limited = r.random() < 0.2
    while True:
        if is_limited and r.random() < 0.1:
            place.limit()
        if not place.open(may_close=True):
            continue
        n += 1
        kind = r.choice("d" + "i" * 9)
        rows = batch(seed, number, n)
        in_a = sum(table == "a" for table, _ in rows) if kind == "i" else 0
        board.tell(number, acknowledged, acknowledged + in_a)
        ledger.say("begun", kind, n)
        gives_up = r.random() < 0.05
        try:
            (insert if kind == "i" else insert_directly)(place.con, r, number, n, rows)
            place.con.execute("ROLLBACK" if gives_up else "COMMIT")
        except sqlite3.Error as e:
            place.failed(f"{kind} {n}: {e}")
            place.roll_back()
            gives_up = True
        if gives_up:
            ledger.say("back", kind, n)
            board.tell(number, acknowledged, acknowledged)
            continue
        ledger.say("acknowledged", kind, n)
        acknowledged += in_a
        board.tell(number, acknowledged, acknowledged)
        try:
            between(place.con, r, number, acknowledged)
        except sqlite3.Error as e:
            place.failed(f"between: {e}")
        if r.random() < 0.3:
            time.sleep(r.random() * 0.05)


def insert(con, r, number, n, rows):
    """A batch, through the log: in its tables, and as the writer's last one."""
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
    """An ordinary transaction beside the log."""
    con.execute("BEGIN IMMEDIATE")
    size = min(len(rows), 50)
    con.executemany("INSERT INTO direct VALUES (?, ?, ?, ?, ?)", [(number, n, i, size, "p" * r.choice([1, 500])) for i in range(size)])


def between(con, r, number, acknowledged):
    """What a writer does beside writing."""
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
            raise Wrong(f"writer {number} finds {own} rows of its own, and {acknowledged} are acknowledged")


def read(directory, number, seed, plain):
    """Every acknowledged row is there, in one transaction always the same, and no table goes back."""
    place, board = Place(directory, seed, f"read{number}", plain), Board(directory)
    r, last, late = place.random, {}, 0
    count = "SELECT writer, count(*) FROM {} GROUP BY writer"
    while True:
        if not place.open(may_close=True):
            continue
        ask = lambda sql: dict(place.con.execute(sql).fetchall())  # noqa: B023, E731: used at once
        before = [board.acknowledged(w) for w in range(WRITERS)]
        try:
            place.con.execute("BEGIN")
            seen = ask(count.format("a_in"))
            after = [board.at_most(w) for w in range(WRITERS)]
            if r.random() < 0.2:
                time.sleep(r.random() * 0.5)
            again = ask("SELECT writer, count(DISTINCT id) FROM a_in GROUP BY writer")
            tops = [ask(f"SELECT writer, max(batch) FROM {table}_in GROUP BY writer") for table in "ade"]
            base = ask(count.format("a"))
            place.con.execute("COMMIT")
        except sqlite3.Error as e:
            place.failed(e)
            if place.con.in_transaction:
                place.roll_back()
            place.close()
            time.sleep(0.02)
            continue
        if again != seen:
            raise Wrong(f"{seen}, and then in the same transaction {again}")
        if not tops[0] == tops[1] == tops[2]:
            raise Wrong(f"a transaction in part: last batches {tops}")
        for w, n in seen.items():
            if n > after[w] or base.get(w, 0) > n:
                raise Wrong(f"writer {w}: {n} rows, {base.get(w, 0)} of them in the table, of {after[w]} at most")
        for w, n in last.items():
            if base.get(w, 0) < n:
                raise Wrong(f"writer {w}: the table had {n} rows, and has {base.get(w, 0)}")
        last = base
        short = [(w, n, seen.get(w, 0)) for w, n in enumerate(before) if seen.get(w, 0) < n]
        # Rows before them may still have to be decided.
        late = late + 1 if short else 0
        if late > 200:
            raise Wrong(f"acknowledged and not seen: {short}")
        time.sleep(0.02 if short else r.random() * 0.05)


def follow(directory, number, seed, plain):
    """Reads the log without a hole, and acknowledges: what is behind that can be pruned."""
    place, last = Place(directory, seed, f"follow{number}", plain), None
    while True:
        if not place.open(may_close=False):
            last = None
            continue
        try:
            place.con.execute("SELECT densite_subscribe('s', 'start')").fetchall()
        except sqlite3.Error as e:
            place.failed(e)
        try:
            while not os.path.exists(f"{directory}/pause"):
                seqs = [seq for (seq,) in place.con.execute("SELECT seq FROM densite_log('s', 500)")]
                if seqs != sorted(set(seqs)) or (last is not None and seqs and seqs[0] <= last):
                    raise Wrong(f"the log after {last}: {seqs[:10]}")
                if seqs:
                    last = seqs[-1]
                    place.con.execute("SELECT densite_ack('s', ?)", (last,)).fetchall()
                else:
                    time.sleep(0.05)
        except sqlite3.Error as e:
            place.failed(e)
            place.close()
            last = None
            time.sleep(0.05)


ROLES = {"write": write, "read": read, "follow": follow}

"""What is under way when the power goes, and what has to be there afterwards.

Each begins with a database that has the first transactions of its seed. Programs that write say after each of theirs that it is durable; the command says so by ending.
"""

import csv
import os
import shutil
import sqlite3
import subprocess
import sys

from .content import SCHEMA, connect, inserted, loaded, run, summaries, summary
from .program import THREADS

#: Transactions that a database begins with, and those that follow.
FIRST, MORE = 25, 30


def begin(folder, seed, r, form=None, mode=None):
    """Makes a database as a process leaves it that was killed, or that has ended; says how."""
    form, mode = form or r.choice(["plain", "densite"]), mode or r.choice(["WAL", "WAL", "DELETE"])
    making = folder + ".making"
    os.makedirs(making)
    path = f"{making}/app.db"
    con = sqlite3.connect(path, isolation_level=None) if form == "plain" else connect(path)
    con.execute(f"PRAGMA page_size = {r.choice([512, 4096, 4096])}")
    con.execute(f"PRAGMA auto_vacuum = {r.choice([0, 0, 1])}")
    con.execute(f"PRAGMA journal_mode = {mode}")
    con.executescript(SCHEMA)
    checkpointed = r.randrange(FIRST + 1)
    con.execute("PRAGMA wal_autocheckpoint = 0")
    for n in range(1, FIRST + 1):
        run(con, seed, n)
        if n == checkpointed:
            con.execute("PRAGMA wal_checkpoint")
    is_killed = r.random() < 0.5
    if is_killed:
        shutil.copytree(making, folder)
    con.close()
    if not is_killed:
        shutil.copytree(making, folder)
    shutil.rmtree(making)
    return f"{form}, {mode}{', killed' if is_killed else ''}"


class Scenario:
    """`form`, `mode`: of the database in the beginning; any where it is None."""

    form = mode = None
    #: Whether rows may wait in a log.
    has_log = False
    #: Whether rows may not fit: those that they change are lost.
    may_reject = False

    def __init__(self, command, folder, seed, r):
        self.command, self.folder, self.seed, self.random = command, folder, seed, r
        self.path = f"{folder}/app.db"
        self.what = begin(folder, seed, r, self.form, self.mode)
        self.expected = summaries(seed, FIRST, FIRST + MORE)

    def arguments(self):
        raise NotImplementedError

    def done(self, told, is_over):
        """How many transactions of those that follow are durable, and how many there may be."""
        said = [int(line) for line in told.split(b"\n")[:-1]]
        most = FIRST + MORE if is_over else (said[-1] if said else FIRST) + 1
        return (said[-1] if said else FIRST) - FIRST, min(most, FIRST + MORE) - FIRST

    def verify(self, folder, told, is_over):
        least, most = self.done(told, is_over)
        found = self.look(f"{folder}/app.db")
        assert found in self.expected, f"none of its states; {least} to {most} should be there"
        there = self.expected.index(found)
        assert least <= there <= most, f"{there} transactions more, not {least} to {most}"

    def look(self, path):
        con = connect(path)
        try:
            if self.has_log:
                self.apply(con)
            found = summary(con)
            said = con.execute("PRAGMA integrity_check").fetchall()
            assert said == [("ok",)], said[:3]
            return found
        finally:
            con.close()


    def apply(self, con):
        """All that waits in the log."""
        con.execute("CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t, on_conflict=replace)")
        con.execute("SELECT densite_wait(NULL, 60)").fetchall()
        rejects = con.execute("SELECT * FROM densite_rejects").fetchall()
        assert self.may_reject or not rejects, rejects


class Command(Scenario):
    """The command changes the file, not what is in it."""

    def done(self, told, is_over):
        return 0, 0


class Vacuum(Command):
    def arguments(self):
        return [self.command, "vacuum", self.path, "--yes"]


class Compress(Command):
    form = "plain"

    def arguments(self):
        return [self.command, "compress", self.path]


class Decompress(Command):
    form = "densite"

    def arguments(self):
        return [self.command, "decompress", self.path]


class Copy(Command):
    """A copy is there as a whole or not at all, and when the command has ended it is there."""

    def arguments(self):
        verb = "compress" if self.what.startswith("plain") else "decompress"
        return [self.command, verb, self.path, f"{self.folder}/copy.db"]

    def verify(self, folder, told, is_over):
        super().verify(folder, told, is_over)
        copy = f"{folder}/copy.db"
        assert os.path.exists(copy) or not is_over, "there is no copy"
        if os.path.exists(copy):
            assert self.look(copy) == self.expected[0], "the copy is not whole"


class Load(Scenario):
    """A file's rows are there all or not at all, and when the command has ended they are there."""

    def __init__(self, *given):
        super().__init__(*given)
        self.rows = [(1 << 50 | self.random.randrange(1 << 48), i, -i, "loaded" * self.random.randrange(20)) for i in range(self.random.choice([3, 500, 5000]))]
        with open(f"{self.folder}/rows.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("id", "n", "w", "pad"), *self.rows])
        self.expected = [self.expected[0], loaded(self.seed, FIRST, self.rows)]

    def arguments(self):
        return [self.command, "load", self.path, "t", f"{self.folder}/rows.csv"]

    def done(self, told, is_over):
        return int(is_over), 1


class LoadAnew(Load):
    """The same into a database that the command makes."""

    def arguments(self):
        self.path = f"{self.folder}/new.db"
        return super().arguments()

    def verify(self, folder, told, is_over):
        there = 0
        if os.path.exists(f"{folder}/new.db"):
            con = connect(f"{folder}/new.db")
            if con.execute("SELECT 1 FROM sqlite_schema").fetchall():
                there = con.execute("SELECT count(*) FROM t").fetchone()[0]
            con.close()
        assert there in (0, len(self.rows)), f"{there} of {len(self.rows)} rows"
        assert there or not is_over, "nothing is there"


class Session(Scenario):
    """A program writes, through SQLite or through the log, while other things go on."""

    program = "sql"

    def arguments(self):
        return [sys.executable, "-m", "powercut.program", self.program, self.path, str(self.seed), str(FIRST + 1), str(FIRST + MORE)]


class Sql(Session):
    form = "densite"


class Ingest(Session):
    program, has_log = "ingest", True


class Together(Ingest):
    """Threads write each its own transactions, in groups: of each what was acknowledged is there, no transaction in part, and nothing behind one that is missing."""

    program = "together"

    def verify(self, folder, told, is_over):
        con = connect(f"{folder}/app.db")
        self.apply(con)
        there = {}
        for row in con.execute("SELECT id, n, w, pad FROM t WHERE id >= 1 << 50 ORDER BY id"):
            there.setdefault(row[1], []).append(row)
        con.close()
        for n, rows in there.items():
            assert rows == inserted(self.seed, n), f"transaction {n} is there in part"
        acknowledged = {int(line) for line in told.split(b"\n")[:-1]}
        assert acknowledged <= set(there), f"not there: {acknowledged - set(there)}"
        numbers = range(FIRST + 1, FIRST + MORE + 1)
        for thread in range(THREADS):
            mine = [n in there for n in numbers if n % THREADS == thread]
            assert mine == sorted(mine, reverse=True), f"thread {thread} has gaps: {mine}"


class Repair(Scenario):
    """A damaged log is repaired: whenever that is cut short it can be done again, and keeps the same rows."""

    has_log = may_reject = True

    def __init__(self, *given):
        super().__init__(*given)
        con, other, aside = connect(self.path), connect(self.path), self.folder + ".aside"
        con.execute("CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t, on_conflict=replace)")
        other.execute("BEGIN IMMEDIATE")
        for n in range(FIRST + 1, FIRST + MORE + 1):
            run(con, self.seed, n, "t_in")
        # Nothing of it is applied.
        shutil.copytree(self.folder, aside)
        for each in (other, con):
            each.close()
        shutil.rmtree(self.folder)
        os.rename(aside, self.folder)
        segment = f"{self.path}-log/000000000001.seg"
        with open(segment, "r+b") as file:
            content = file.read().rstrip(b"\0")
            file.seek(self.random.randrange(4096, len(content)))
            file.write(b"damage")
        shutil.copytree(self.folder, aside)
        self.repair(aside)
        self.expected = [self.look(f"{aside}/app.db")]
        shutil.rmtree(aside)

    def arguments(self):
        return [self.command, "log", "check", self.path, "--repair", "--yes"]

    def repair(self, folder):
        ran = subprocess.run([self.command, "log", "check", f"{folder}/app.db", "--repair", "--yes"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert ran.returncode == 0, ran

    def done(self, told, is_over):
        return 0, 0

    def verify(self, folder, told, is_over):
        if not is_over:
            self.repair(folder)
        super().verify(folder, told, is_over)


class VacuumOfLog(Ingest):
    """The command vacuums while rows wait in the log and are applied."""

    program = "ingest-and-vacuum"


SCENARIOS = [Vacuum, Compress, Decompress, Copy, Load, LoadAnew, Sql, Sql, Ingest, Ingest, Together, VacuumOfLog, Repair]

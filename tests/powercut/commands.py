"""The command at work on a database, or on one and its log."""

import csv
import json
import os
import shutil
import subprocess

from .content import SCHEMA, connect, loaded, run, script, summaries
from .scenario import FIRST, MORE, Scenario

#: By which SQL tells that all before it is done.
SAID = "SELECT 'done' AS said;\n"


class Command(Scenario):
    """The command changes the file, not what is in it."""

    def states(self):
        return summaries(self.seed, FIRST, FIRST)

    def done(self, told, is_over):
        return 0, 0

    def runs(self, *arguments):
        ran = subprocess.run([self.command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
        assert ran.returncode == 0, ran
        return ran.stdout


class Vacuum(Command):
    def arguments(self):
        return [self.command, "vacuum", self.path, "--yes"]


class Compress(Command):
    form = "plain"

    def arguments(self):
        how = self.random.choice([[], [], ["--archive"], ["--page-size", str(self.random.choice([512, 8192, 65536]))]])
        return [self.command, "compress", self.path, *how]


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


class Sql(Command):
    """Transactions as SQL text; after each the command says so."""

    #: What has been done before these transactions.
    first, before = FIRST, ""

    def states(self):
        return summaries(self.seed, self.first, self.first + MORE)

    def arguments(self):
        return [self.command, "sql", self.path, "--create", "--format", "csv", f"PRAGMA synchronous = EXTRA; {self.before}{self.sql()}"]

    def sql(self):
        """As many as fit into an argument."""
        parts = []
        for n in range(self.first + 1, self.first + MORE + 1):
            parts.append(script(self.seed, n) + SAID + self.random.choice(["", "", "", "", "VACUUM;", "PRAGMA densite_maintain;", "PRAGMA wal_checkpoint(TRUNCATE);"]))
            if sum(len(part.encode()) for part in parts) > 100_000:
                del parts[-1]
                break
        del self.expected[len(self.expected) - MORE + len(parts) :]
        return "".join(parts)

    def done(self, told, is_over):
        said, last = told.count(b"\ndone\n"), len(self.expected) - 1
        return (last, last) if is_over else (said, min(said + 1, last))


class SqlAnew(Sql):
    """The same into a database that the command makes."""

    name, first, before = "new.db", 0, f"BEGIN; {SCHEMA} COMMIT; {SAID}"

    def states(self):
        os.remove(self.path)
        return [None, *super().states()]

    def look(self, path):
        """Nothing is there without a schema."""
        is_there = os.path.exists(path)
        if is_there:
            con = connect(path)
            is_there = con.execute("SELECT 1 FROM sqlite_schema").fetchall()
            con.close()
        return super().look(path) if is_there else None


class Load(Command):
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


class Waiting(Command):
    """Rows wait in a log, all of them acknowledged, none applied; the command changes nothing of what they come to."""

    has_log = True
    #: Whether they are applied before, some of them.
    is_applied = False

    def __init__(self, *given):
        super().__init__(*given)
        con, other, aside = connect(self.path), connect(self.path), self.folder + ".aside"
        con.execute("CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t, on_conflict=replace)")
        self.prepare(con)
        for n in range(FIRST + 1, FIRST + MORE + 1):
            if n == FIRST + MORE // 2:
                if self.is_applied:
                    con.execute("SELECT densite_wait()").fetchall()
                other.execute("BEGIN IMMEDIATE")
            run(con, self.seed, n, "t_in")
        shutil.copytree(self.folder, aside)
        for each in (other, con):
            each.close()
        shutil.rmtree(self.folder)
        os.rename(aside, self.folder)

    def prepare(self, con):
        """What else is to be there."""

    def states(self):
        return summaries(self.seed, FIRST + MORE, FIRST + MORE)


class FilesOfWaiting(Waiting):
    """The database file is written anew beside its log."""

    def arguments(self):
        verbs = [["vacuum", "--yes"], ["compress" if self.what.startswith("plain") else "decompress"]]
        verb, *more = self.random.choice(verbs)
        return [self.command, verb, self.path, *more]


class Prune(Waiting):
    """What is applied goes from the log."""

    is_applied = True

    def arguments(self):
        return [self.command, "log", "prune", self.path]


class Subscribe(Waiting):
    """What the command was told about subscribers is so when it has ended, and of others nothing changes."""

    verb, before, after = "subscribe", {"one"}, {"one", "two"}

    def prepare(self, con):
        for name in sorted(self.before):
            con.execute("SELECT densite_subscribe(?)", (name,)).fetchall()

    def arguments(self):
        return [self.command, "log", self.verb, self.path, "two"]

    def verify(self, folder, told, is_over):
        said = json.loads(self.runs("log", "status", f"{folder}/{self.name}", "--json"))
        names = {subscriber["name"] for subscriber in said["subscribers"]}
        assert names == self.after or (names == self.before and not is_over), names
        super().verify(folder, told, is_over)


class Unsubscribe(Subscribe):
    verb, before, after = "unsubscribe", {"one", "two"}, {"one"}


class Repair(Waiting):
    """A damaged log is repaired: whenever that is cut short it can be done again, and keeps the same rows."""

    may_reject = True

    def __init__(self, *given):
        super().__init__(*given)
        segment = f"{self.path}-log/000000000001.seg"
        with open(segment, "r+b") as file:
            content = file.read().rstrip(b"\0")
            file.seek(self.random.randrange(4096, len(content)))
            file.write(b"damage")
        aside = self.folder + ".aside"
        shutil.copytree(self.folder, aside)
        self.repair(aside)
        self.expected = [self.look(f"{aside}/{self.name}")]
        shutil.rmtree(aside)

    def arguments(self):
        return [self.command, "log", "check", self.path, "--repair", "--yes"]

    def repair(self, folder):
        self.runs("log", "check", f"{folder}/{self.name}", "--repair", "--yes")

    def verify(self, folder, told, is_over):
        if not is_over:
            self.repair(folder)
        super().verify(folder, told, is_over)

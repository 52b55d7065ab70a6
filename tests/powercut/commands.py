"""The command works on a database, with or without a log."""

import csv
import json
import os
import shutil
import subprocess

from .content import SCHEMA, connect, loaded, run, script, summaries
from .scenario import FIRST, MORE, Scenario

#: SQL that reports that all statements before it have ended.
DONE = "SELECT 'done' AS said;\n"


class Command(Scenario):
    """The command changes the file and keeps its content."""

    def states(self):
        return summaries(self.seed, FIRST, FIRST)

    def done(self, output, has_ended):
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
        return [self.command, "compress", "--even-if-larger", self.path, *how]


class Decompress(Command):
    form = "densite"

    def arguments(self):
        return [self.command, "decompress", self.path]


class Copy(Command):
    """The copy is complete or does not exist. It exists when the command has ended."""

    def arguments(self):
        verb = "compress" if self.what.startswith("plain") else "decompress"
        return [self.command, verb, self.path, f"{self.folder}/copy.db"]

    def verify(self, folder, output, has_ended):
        super().verify(folder, output, has_ended)
        copy = f"{folder}/copy.db"
        assert os.path.exists(copy) or not has_ended, "the command has ended, but the copy does not exist"
        if os.path.exists(copy):
            assert self.state_of(copy) == self.expected[0], "the copy is not complete"


class Sql(Command):
    """Transactions as SQL text. The command reports the end of each."""

    #: The number of transactions before these, and SQL to run before them.
    first, before = FIRST, ""

    def states(self):
        return summaries(self.seed, self.first, self.first + MORE)

    def arguments(self):
        return [self.command, "sql", self.path, "--create", "--format", "csv", f"PRAGMA synchronous = EXTRA; {self.before}{self.sql()}"]

    def sql(self):
        """As many transactions as fit into an argument."""
        parts = []
        for n in range(self.first + 1, self.first + MORE + 1):
            parts.append(script(self.seed, n) + DONE + self.random.choice(["", "", "", "", "VACUUM;", "PRAGMA densite_maintain;", "PRAGMA wal_checkpoint(TRUNCATE);"]))
            if sum(len(part.encode()) for part in parts) > 100_000:
                del parts[-1]
                break
        del self.expected[len(self.expected) - MORE + len(parts) :]
        return "".join(parts)

    def done(self, output, has_ended):
        reported, last = output.count(b"\ndone\n"), len(self.expected) - 1
        return (last, last) if has_ended else (reported, min(reported + 1, last))


class SqlIntoNew(Sql):
    """The same with a database that the command creates."""

    name, first, before = "new.db", 0, f"BEGIN; {SCHEMA} COMMIT; {DONE}"

    def states(self):
        os.remove(self.path)
        return [None, *super().states()]

    def state_of(self, path):
        """None while the database has no schema."""
        has_schema = os.path.exists(path)
        if has_schema:
            con = connect(path)
            has_schema = con.execute("SELECT 1 FROM sqlite_schema").fetchall()
            con.close()
        return super().state_of(path) if has_schema else None


class Load(Command):
    """The database has all rows of the file or none. It has them when the command has ended."""

    def __init__(self, *given):
        super().__init__(*given)
        self.rows = [(1 << 50 | self.random.randrange(1 << 48), i, -i, "loaded" * self.random.randrange(20)) for i in range(self.random.choice([3, 500, 5000]))]
        with open(f"{self.folder}/rows.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("id", "n", "w", "pad"), *self.rows])
        self.expected = [self.expected[0], loaded(self.seed, FIRST, self.rows)]

    def arguments(self):
        return [self.command, "load", self.path, "t", f"{self.folder}/rows.csv"]

    def done(self, output, has_ended):
        return int(has_ended), 1


class LoadIntoNew(Load):
    """The same with a database that the command creates."""

    def arguments(self):
        self.path = f"{self.folder}/new.db"
        return super().arguments()

    def verify(self, folder, output, has_ended):
        count = 0
        if os.path.exists(f"{folder}/new.db"):
            con = connect(f"{folder}/new.db")
            if con.execute("SELECT 1 FROM sqlite_schema").fetchall():
                count = con.execute("SELECT count(*) FROM t").fetchone()[0]
            con.close()
        assert count in (0, len(self.rows)), f"the table has {count} of {len(self.rows)} rows"
        assert count or not has_ended, "the command has ended, but the table has no rows"


class UnappliedRows(Command):
    """The log has acknowledged rows that are not applied. The command does not change their
    result."""

    has_log = True
    #: Whether some of the rows are applied first.
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
        """Prepares the database further."""

    def states(self):
        return summaries(self.seed, FIRST + MORE, FIRST + MORE)


class FilesWithLog(UnappliedRows):
    """The command replaces the database file, and the log stays."""

    def arguments(self):
        verbs = [["vacuum", "--yes"], ["compress", "--even-if-larger"] if self.what.startswith("plain") else ["decompress"]]
        verb, *more = self.random.choice(verbs)
        return [self.command, verb, self.path, *more]


class Prune(UnappliedRows):
    """The command removes applied rows from the log."""

    is_applied = True

    def arguments(self):
        return [self.command, "log", "prune", self.path]


class Subscribe(UnappliedRows):
    """The change of subscribers is done when the command has ended. Other subscribers stay
    unchanged."""

    verb, before, after = "subscribe", {"one"}, {"one", "two"}

    def prepare(self, con):
        for name in sorted(self.before):
            con.execute("SELECT densite_subscribe(?)", (name,)).fetchall()

    def arguments(self):
        return [self.command, "log", self.verb, self.path, "two"]

    def verify(self, folder, output, has_ended):
        status = json.loads(self.runs("log", "status", f"{folder}/{self.name}", "--json"))
        names = {subscriber["name"] for subscriber in status["subscribers"]}
        assert names == self.after or (names == self.before and not has_ended), f"subscribers: {names}"
        super().verify(folder, output, has_ended)


class Unsubscribe(Subscribe):
    verb, before, after = "unsubscribe", {"one", "two"}, {"one"}


class Repair(UnappliedRows):
    """The command repairs a damaged log. An interrupted repair can be repeated and keeps the same
    rows."""

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
        self.expected = [self.state_of(f"{aside}/{self.name}")]
        shutil.rmtree(aside)

    def arguments(self):
        return [self.command, "log", "check", self.path, "--repair", "--yes"]

    def repair(self, folder):
        self.runs("log", "check", f"{folder}/{self.name}", "--repair", "--yes")

    def verify(self, folder, output, has_ended):
        if not has_ended:
            self.repair(folder)
        super().verify(folder, output, has_ended)

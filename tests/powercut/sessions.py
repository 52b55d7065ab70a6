"""Programs that write, through SQLite or through the log, while other things go on."""

import sys

from .content import connect, inserted
from .program import THREADS
from .scenario import FIRST, MORE, Scenario


class Session(Scenario):
    """A program writes, through SQLite or through the log, while other things go on."""

    program = "sql"

    def arguments(self):
        return [sys.executable, "-m", "powercut.program", self.program, self.path, str(self.seed), str(FIRST + 1), str(FIRST + MORE)]


class SqlSession(Session):
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


class VacuumOfLog(Ingest):
    """The command vacuums while rows wait in the log and are applied."""

    program = "ingest-and-vacuum"

"""Programs that write through SQLite or through the log, with checkpoints, vacuums and more
between."""

import sys

from .content import connect, inserted
from .program import THREADS
from .scenario import FIRST, MORE, Scenario


class Session(Scenario):
    """A program of `program.py` writes."""

    program = "sql"

    def arguments(self):
        return [sys.executable, "-m", "powercut.program", self.program, self.path, str(self.seed), str(FIRST + 1), str(FIRST + MORE)]


class SqlSession(Session):
    form = "densite"


class Ingest(Session):
    program, has_log = "ingest", True


class ConcurrentWriters(Ingest):
    """Threads write their own transactions, in groups. Every acknowledged transaction is there,
    none in part, and none of a thread after a missing one."""

    program = "concurrent"

    def verify(self, folder, output, has_ended):
        con = connect(f"{folder}/app.db")
        self.apply(con)
        present = {}
        for row in con.execute("SELECT id, n, w, pad FROM t WHERE id >= 1 << 50 ORDER BY id"):
            present.setdefault(row[1], []).append(row)
        con.close()
        for n, rows in present.items():
            assert rows == inserted(self.seed, n), f"transaction {n} is there only in part"
        acknowledged = {int(line) for line in output.split(b"\n")[:-1]}
        assert acknowledged <= set(present), f"acknowledged transactions are missing: {acknowledged - set(present)}"
        numbers = range(FIRST + 1, FIRST + MORE + 1)
        for thread in range(THREADS):
            mine = [n in present for n in numbers if n % THREADS == thread]
            assert mine == sorted(mine, reverse=True), f"transactions of thread {thread} have a gap: {mine}"


class VacuumWithLog(Ingest):
    """The program also vacuums, with a log beside the database."""

    program = "ingest-and-vacuum"

"""What is under way when the power goes, and what has to be there afterwards: what all scenarios have in common.

Each begins with a database that has the first transactions of its seed. Programs that write say after each of theirs that it is durable; the command says so by ending.
"""

import os
import shutil
import sqlite3

from .content import SCHEMA, connect, run, summaries, summary

#: Transactions that a database begins with, and those that follow.
FIRST, MORE = 25, 30


def begin(path, r, fill, form=None, mode=None):
    """Makes a folder with a database as a process leaves it that was killed, or that has ended; says how. `fill`: makes its content, of one part after the other."""
    form, mode = form or r.choice(["plain", "densite"]), mode or r.choice(["WAL", "WAL", "DELETE"])
    folder, name = os.path.split(path)
    making = folder + ".making"
    os.makedirs(making)
    con = sqlite3.connect(f"{making}/{name}", isolation_level=None) if form == "plain" else connect(f"{making}/{name}")
    con.execute(f"PRAGMA page_size = {r.choice([512, 4096, 4096, 65536])}")
    con.execute(f"PRAGMA auto_vacuum = {r.choice([0, 0, 1, 2])}")
    con.execute(f"PRAGMA journal_mode = {mode}")
    con.execute("PRAGMA wal_autocheckpoint = 0")
    checkpointed = r.randrange(FIRST + 1)
    for n, _ in enumerate(fill(con)):
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
    #: Its name in the folder.
    name = "app.db"
    #: Whether rows may wait in a log.
    has_log = False
    #: Whether rows may not fit: those that they change are lost.
    may_reject = False

    def __init__(self, command, folder, seed, r):
        self.command, self.folder, self.seed, self.random = command, folder, seed, r
        self.path = f"{folder}/{self.name}"
        self.what = begin(self.path, r, self.fill, self.form, self.mode)
        self.expected = self.states()

    def fill(self, con):
        con.executescript(SCHEMA)
        for n in range(1, FIRST + 1):
            yield run(con, self.seed, n)

    def states(self):
        """What the database may hold, in their order."""
        return summaries(self.seed, FIRST, FIRST + MORE)

    def arguments(self):
        raise NotImplementedError

    def done(self, told, is_over):
        """How many transactions of those that follow are durable, and how many there may be."""
        said = [int(line) for line in told.split(b"\n")[:-1] if line.isdigit()]
        most = FIRST + MORE if is_over else (said[-1] if said else FIRST) + 1
        return (said[-1] if said else FIRST) - FIRST, min(most, FIRST + MORE) - FIRST

    def verify(self, folder, told, is_over):
        least, most = self.done(told, is_over)
        found = self.look(f"{folder}/{self.name}")
        # A transaction may change nothing.
        there = [n for n, state in enumerate(self.expected) if state == found]
        assert there, f"none of its states; {least} to {most} should be there"
        assert any(least <= n <= most for n in there), f"{there} transactions more, not {least} to {most}"

    def look(self, path):
        con = connect(path)
        try:
            if self.has_log:
                self.apply(con)
            found = self.summary(con)
            said = con.execute("PRAGMA integrity_check").fetchall()
            assert said == [("ok",)], said[:3]
            return found
        finally:
            con.close()

    def summary(self, con):
        return summary(con)

    def apply(self, con):
        """All that waits in the log."""
        con.execute("CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t, on_conflict=replace)")
        con.execute("SELECT densite_wait(NULL, 60)").fetchall()
        rejects = con.execute("SELECT * FROM densite_rejects").fetchall()
        assert self.may_reject or not rejects, rejects

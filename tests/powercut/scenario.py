"""The base of all scenarios: the work at the power cut, and the content required afterwards.

Each scenario begins with a database that has the first transactions of its seed. Programs print
each transaction that is durable. The command's work is durable when the command has ended.
"""

import os
import shutil
import sqlite3

from .content import SCHEMA, connect, run, summaries, summary

#: The number of transactions in the database at the beginning, and of those that follow.
FIRST, MORE = 25, 30


def begin(path, r, fill, form=None, mode=None):
    """Makes a folder with a database as left by a process that was killed or has ended. `fill` is a
    generator that makes the content step by step. Returns a description."""
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
    """`form` and `mode` are those of the database at the beginning; None for any."""

    form = mode = None
    #: The name of the database in the folder.
    name = "app.db"
    #: Whether a log can have unapplied rows.
    has_log = False
    #: Whether the log can have rows that their table rejects because earlier rows were lost.
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
        """The allowed states of the database, in order."""
        return summaries(self.seed, FIRST, FIRST + MORE)

    def arguments(self):
        raise NotImplementedError

    def done(self, output, has_ended):
        """The lowest and the highest index of the states that are allowed now."""
        numbers = [int(line) for line in output.split(b"\n")[:-1] if line.isdigit()]
        last = numbers[-1] if numbers else FIRST
        most = FIRST + MORE if has_ended else last + 1
        return last - FIRST, min(most, FIRST + MORE) - FIRST

    def verify(self, folder, output, has_ended):
        least, most = self.done(output, has_ended)
        present = self.state_of(f"{folder}/{self.name}")
        # A transaction can change nothing, so several states can be equal.
        equal = [n for n, state in enumerate(self.expected) if state == present]
        assert equal, f"the database has none of the expected states; expected {least} to {most}"
        assert any(least <= n <= most for n in equal), f"the database has state {equal}; expected {least} to {most}"

    def state_of(self, path):
        con = connect(path)
        try:
            if self.has_log:
                self.apply(con)
            state = self.summary(con)
            problems = con.execute("PRAGMA integrity_check").fetchall()
            assert problems == [("ok",)], f"integrity_check: {problems[:3]}"
            return state
        finally:
            con.close()

    def summary(self, con):
        return summary(con)

    def apply(self, con):
        """Applies all rows that wait in the log."""
        con.execute("CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t, on_conflict=replace)")
        con.execute("SELECT densite_wait(NULL, 60)").fetchall()
        rejects = con.execute("SELECT * FROM densite_rejects").fetchall()
        assert self.may_reject or not rejects, f"rejected rows: {rejects}"

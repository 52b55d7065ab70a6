"""The application: a process that has the database open through Densite, and does what the parent
writes to its standard input, a word and a number a line. It answers each with a line."""

import os
import sqlite3
import subprocess
import sys

from . import content

#: Smaller than the table, so that a transaction writes pages to the files before it commits.
CACHE_PAGES = 10


def serve(path, mode):
    con = content.connect(path)
    con.execute("PRAGMA page_size = 4096")
    con.execute("PRAGMA wal_autocheckpoint = 0")
    con.execute(f"PRAGMA journal_mode = {mode}")
    con.execute(f"PRAGMA cache_size = {CACHE_PAGES}")
    actions = {
        "create": lambda _: con.execute(content.SCHEMA),
        "begin": lambda n: (con.execute("BEGIN IMMEDIATE"), content.run(con, n)),
        "commit": lambda _: con.execute("COMMIT"),
        "checkpoint": lambda _: con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall(),
        "check": lambda n: content.wrong(con, n),
        "close": lambda _: con.close(),
    }
    for line in sys.stdin:
        word, number = line.split()
        try:
            answer = actions[word](int(number))
        except sqlite3.Error as error:
            answer = f"{type(error).__name__}: {error}"
        print(answer if isinstance(answer, str) else "done", flush=True)


class Application:
    """The process, seen from its parent."""

    def __init__(self, path, mode):
        self.process = subprocess.Popen([sys.executable, "-m", "foreign.application", path, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, word, number=0):
        """The error, or None."""
        self.process.stdin.write(f"{word} {number}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        return None if answer == "done" else answer or "the application has ended"

    def do(self, word, number=0):
        error = self.ask(word, number)
        assert error is None, f"{word} {number}: {error}"

    def transaction(self, n):
        self.do("begin", n)
        self.do("commit")

    def signal(self, number):
        os.kill(self.process.pid, number)

    def end(self):
        """Kills the process."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


if __name__ == "__main__":
    serve(*sys.argv[1:])

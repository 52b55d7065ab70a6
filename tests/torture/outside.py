"""Work on the database from outside: by the command, and by copies."""

import os
import shutil
import sqlite3
import subprocess
import time

from .work import connect

BUSY = "PRAGMA busy_timeout = 1000; "


class Outside:
    """The work of one round. `converts`: whether the file can change its form."""

    def __init__(self, command, directory, r, converts):
        self.program, self.directory, self.random, self.converts = command, directory, r, converts
        self.db = f"{directory}/db"

    def command(self, *arguments, ok=(0, 3)):
        """Runs the command. Exit code 3 is a locked database."""
        ran = subprocess.run([self.program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
        text = ran.stdout.decode(errors="replace")
        with open(f"{self.directory}/commands", "a", encoding="utf-8") as file:
            print(f"{time.time():.3f} {ran.returncode} {arguments} {text[-400:]}", file=file)
        assert ran.returncode in ok, f"{arguments}: {ran.returncode} {text}"
        return ran.returncode

    def sql(self, sql):
        self.command("sql", self.db, BUSY + sql, ok=(0, 1, 3))

    def run_any(self):
        r = self.random
        actions = [self.check, self.check, self.vacuum, self.vacuum, self.convert, self.convert, self.log, self.mode, self.copy]
        actions += [lambda: self.command("info", self.db, "--json"), lambda: self.sql("VACUUM"), lambda: self.sql("PRAGMA densite_maintain")]
        r.choice(actions)()

    def check(self):
        self.command("check", self.db)

    def vacuum(self):
        self.command("vacuum", self.db, "--yes", "--timeout", str(self.random.choice([0, 1, 3])))

    def convert(self):
        verb = self.random.choice(["compress", "decompress"])
        if self.converts:
            # The file can have that form already.
            self.command(verb, self.db, ok=(0, 1, 3))

    def log(self):
        self.command("log", self.random.choice(["check", "status", "prune"]), self.db, ok=(0, 1, 3))

    def mode(self):
        self.sql(f"PRAGMA journal_mode = {self.random.choice(['WAL', 'WAL', 'DELETE', 'TRUNCATE'])}")

    def copy(self):
        """Makes a copy without the log in one of several ways, and checks it."""
        to, way = f"{self.directory}/copy", self.random.choice(["compress", "decompress", "into", "backup"])
        for ending in ("", "-wal", "-shm", "-journal", "-dwal", "-djournal"):
            if os.path.exists(to + ending):
                os.remove(to + ending)
        if way == "backup":
            try:
                with connect(self.db) as con, connect(to) as other:
                    # In one step, because a backup in several steps restarts after each write.
                    con.backup(other)
                con.close()
                other.close()
            except sqlite3.Error:
                return
        elif way == "into":
            if self.command("sql", self.db, f"{BUSY}VACUUM INTO '{to}'", ok=(0, 1, 3)):
                return
        elif self.command(way, self.db, to, ok=(0, 1, 3)):
            return
        con = connect(to)
        problems = con.execute("PRAGMA integrity_check").fetchall()
        con.close()
        assert problems == [("ok",)], f"copy by {way}: {problems}"

    def snapshot(self):
        """Copies database and log while all processes are stopped. Returns the path of the copy."""
        to = f"{self.directory}/snapshot"
        shutil.rmtree(to, ignore_errors=True)
        os.makedirs(to)
        for name in ("db", "db-wal", "db-journal", "db-dwal", "db-djournal"):
            if os.path.exists(f"{self.directory}/{name}"):
                shutil.copy2(f"{self.directory}/{name}", f"{to}/{name}")
        if os.path.exists(f"{self.db}-log"):
            shutil.copytree(f"{self.db}-log", f"{to}/db-log")
        return f"{to}/db"

"""Several processes use one database with ingest and are killed at random moments, while the
command vacuums, converts, checks and copies it.

    export PYTHONPATH=python:tests DENSITE_LIBRARY=target/release/libdensite.so
    python3 -m torture --command target/release/densite --dir DIR [--minutes M] [--seed N]

The seed of a round decides all choices of the parent and the rows of the writers. The scheduling of
the processes is not deterministic, so run a failed seed several times. A failed round keeps its
directory: ledgers, the command's output (`commands`), errors (`errors.*`) and the database. Part of
`make crash`.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import long.run

from .outside import Outside
from .roles import ROLES
from .verify import verify
from .work import TABLES, WRITERS, connect, read_ledger


class Round:
    def __init__(self, options, seed):
        self.seed, self.directory = seed, f"{options.dir}/{seed}"
        self.random = r = random.Random(f"round {seed}")
        shutil.rmtree(self.directory, ignore_errors=True)
        os.makedirs(self.directory)
        # SQLite's own VFS can be used only if the command does not convert the file to Densite.
        self.plain = r.random() < 0.15
        self.form = "plain" if self.plain or r.random() < 0.25 else "densite"
        self.outside = Outside(options.command, self.directory, r, converts=not self.plain)
        self.roles = ["write"] * r.choice([1, 2, 2, 3]) + ["read"] * r.choice([0, 1, 1]) + ["follow"] * r.choice([0, 1])
        self.begun = dict.fromkeys(ROLES, 0)
        self.living, self.kills = {}, 0
        self.make_database()

    def make_database(self):
        r, con = self.random, connect(f"{self.directory}/db", plain=self.form == "plain")
        self.mode = r.choice(["WAL", "WAL", "WAL", "WAL", "DELETE"])
        con.execute(f"PRAGMA page_size = {r.choice([512, 1024, 4096, 4096, 16384, 65536])}")
        con.execute(f"PRAGMA auto_vacuum = {r.choice([0, 0, 1, 2])}")
        con.execute(f"PRAGMA journal_mode = {self.mode}")
        con.executescript(TABLES)
        con.close()

    def begin(self, role):
        number = self.begun[role]
        if role == "write" and number == WRITERS:
            return
        self.begun[role] += 1
        arguments = [sys.executable, "-m", "torture", "--child", role, str(number), str(self.seed), self.directory, str(int(self.plain))]
        with open(f"{self.directory}/stderr.{role}{number}", "wb") as err:
            process = subprocess.Popen(arguments, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
        self.living[process.pid] = (role, number, process)

    def end(self, pid):
        """Kills a process. Fails if it had ended by itself."""
        role, number, process = self.living[pid]
        process.kill()
        self.kills += 1
        status = process.wait()
        del self.living[pid]
        with open(f"{self.directory}/stderr.{role}{number}", encoding="utf-8") as err:
            text = err.read()
        assert status == -signal.SIGKILL and not text, f"{role} {number} ended by itself with status {status}: {text}"
        return role

    def ledgers(self):
        return {writer: read_ledger(self.directory, writer) for writer in range(self.begun["write"])}

    def step(self):
        r = self.random
        for pid in [pid for pid, (_, _, process) in self.living.items() if process.poll() is not None]:
            self.end(pid)
        what = r.random()
        if what < 0.35:
            time.sleep(r.random() * 0.8)
        elif what < 0.6:
            # The process can be writing, applying, or reading within a transaction.
            self.begin(self.end(r.choice(sorted(self.living))))
        elif what < 0.64:
            # Kills all processes. The command works on their files before new ones start.
            roles = [self.end(pid) for pid in list(self.living)]
            for _ in range(r.choice([0, 1, 3])):
                self.outside.run_any()
            for role in roles:
                self.begin(role)
        elif what < 0.72:
            # Most processes close the file during the pause, so that it can be converted.
            with open(f"{self.directory}/pause", "w", encoding="utf-8"):
                pass
            time.sleep(r.choice([0.05, 0.3, 1]))
            for _ in range(r.choice([1, 2, 4])):
                self.outside.run_any()
            os.remove(f"{self.directory}/pause")
        elif what < 0.78:
            self.verify_a_snapshot()
        else:
            self.outside.run_any()

    def verify_a_snapshot(self):
        for pid in self.living:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.02)
        path, ledgers = self.outside.snapshot(), self.ledgers()
        for pid in self.living:
            os.kill(pid, signal.SIGCONT)
        self.verify(path, ledgers)

    def verify(self, path, ledgers):
        counts = verify(path, self.seed, ledgers)
        self.outside.command("check", path, ok=(0,))
        self.outside.command("log", "check", path, ok=(0,))
        return counts

    def run(self):
        print(f"seed {self.seed}: {self.form}, {self.mode}, {' '.join(self.roles)}", flush=True)
        try:
            for role in self.roles:
                self.begin(role)
            until = time.monotonic() + self.random.uniform(8, 25)
            while time.monotonic() < until:
                self.step()
            for pid in list(self.living):
                self.end(pid)
            for _ in range(self.random.choice([0, 0, 1, 2])):
                self.outside.run_any()
            known, unknown = self.verify(f"{self.directory}/db", self.ledgers())
        finally:
            for _, _, process in self.living.values():
                process.kill()
                process.wait()
        print(f"    {known} batches acknowledged, {unknown} begun, {self.begun['write']} writers", flush=True)
        shutil.rmtree(self.directory)
        return self.kills


def main():
    if sys.argv[1:2] == ["--child"]:
        role, number, seed, directory, plain = sys.argv[2:]
        return ROLES[role](directory, int(number), int(seed), plain == "1")
    parser = argparse.ArgumentParser(prog="torture")
    parser.add_argument("--command", required=True)
    parser.add_argument("--dir", required=True)
    long.run.options(parser)
    options = parser.parse_args()
    return long.run.seeds("kills", options, lambda seed: Round(options, seed).run())


if __name__ == "__main__":
    sys.exit(main())

"""No program that speaks only SQLite's format changes a byte of a Densite database, or of what
belongs to it, and no transaction is lost.

    export PYTHONPATH=python:tests DENSITE_LIBRARY=target/release/libdensite.so
    python3 -m foreign --command target/release/densite --dir DIR [--programs FOLDER] [--only WORD]
        [--table docs/durability/foreign.md [--write]]

Each verb of each program runs on a database that an application has open through Densite, idle or
in the midst of a transaction, and on the files of such an application that was killed, in four
journal modes. Then the files are compared byte for byte. The program must have said an error. The
application goes on, or Densite opens the killed files: every committed row is there.

Without --programs only the system's sqlite3 shell, this Python and three attacks are tried, which
takes seconds. FOLDER is what setup.sh makes. `make foreign` runs all. A fault keeps its files.
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import sqlite3
import sys
import time

from . import attacks, files, programs, table


def scratch(folder):
    """What verbs read and write besides the database."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    con = sqlite3.connect(f"{folder}/other.db")
    con.execute("CREATE TABLE o(a)")
    con.execute("INSERT INTO o VALUES (1)")
    con.commit()
    con.close()
    with open(f"{folder}/points.csv", "w", encoding="utf-8") as file:
        file.write("id,name\n1,a\n")
    with open(f"{folder}/script.sql", "w", encoding="utf-8") as file:
        file.write("CREATE TABLE x(a); DROP TABLE t;\n")
    return folder


class Trial:
    """All programs on the files of one mode and state."""

    def __init__(self, options, tried, mode, state):
        self.options, self.tried, self.mode, self.state = options, tried, mode, state
        name = f"{mode}-{state}".replace(", ", "-")
        self.folder = f"{options.dir}/{name}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.template = scratch(f"{self.folder}/template")
        self.results = []

    def run(self):
        self.files = files.Files(f"{self.folder}/files", self.mode, self.state)
        try:
            for program in self.tried:
                for verb in program.verbs:
                    self.results.append(self.once(program, verb))
            if self.files.live:
                self.results.append(self.ended())
        finally:
            self.files.end()
        if not any(result["faults"] for result in self.results):
            shutil.rmtree(self.folder)
        return self.results

    def once(self, program, verb):
        tmp = f"{self.folder}/tmp"
        shutil.rmtree(tmp, ignore_errors=True)
        shutil.copytree(self.template, tmp)
        began = time.monotonic()
        code, said, faults = self.try_live(verb, tmp) if self.files.live else self.try_killed(verb, tmp)
        if code == 0 and not said and not verb.silent:
            faults.append("it said no error")
        if faults:
            print(f"FAULT: {self.mode}, {self.state}: {program.name} {program.version}, {verb.name} ({said}): {'; '.join(faults)}", flush=True)
        return {"program": program.name, "version": program.version, "verb": verb.name, "mode": self.mode, "state": self.state, "code": code, "said": said, "faults": faults, "seconds": round(time.monotonic() - began, 3)}

    def try_killed(self, verb, tmp):
        copy = f"{self.folder}/copy"
        path = self.files.copy(copy)
        before = files.fingerprint(copy)
        code, said = verb.run(path, tmp)
        faults = files.differences(before, files.fingerprint(copy))
        wrong = files.verify(path, self.files.transactions, self.options.programs and self.options.command)
        if faults or wrong:
            self.keep(copy)
        return code, said, faults + ([wrong] if wrong else [])

    def try_live(self, verb, tmp):
        self.files.stop()
        before = files.fingerprint(self.files.folder)
        code, said = verb.run(self.files.path, tmp)
        faults = files.differences(before, files.fingerprint(self.files.folder))
        wrong = self.files.go_on()
        if faults or wrong:
            self.files.end()
            self.keep(self.files.folder)
            self.files = files.Files(self.files.folder, self.mode, self.state)
        return code, said, faults + ([wrong] if wrong else [])

    def ended(self):
        """The application that all programs have met closes the database."""
        live = self.files
        wrong = live.application.ask("commit") if live.writing else None
        if live.writing:
            live.transactions += 1
        wrong = wrong or live.application.ask("close") or files.verify(live.path, live.transactions, self.options.command)
        if wrong:
            print(f"FAULT: {self.mode}, {self.state}, after all programs: {wrong}", flush=True)
            self.keep(live.folder)
        return {"program": "", "version": "", "verb": "", "mode": self.mode, "state": self.state, "code": 0, "said": "", "faults": [wrong] if wrong else []}

    def keep(self, folder):
        """The files of the first fault."""
        if not os.path.exists(f"{self.folder}/fault"):
            shutil.copytree(folder, f"{self.folder}/fault", symlinks=True)


def main():
    parser = argparse.ArgumentParser(prog="foreign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True, help="the path of the densite command")
    parser.add_argument("--dir", required=True, help="the directory for files")
    parser.add_argument("--programs", help="the folder that setup.sh made (default: only the sqlite3 shell and this Python)")
    parser.add_argument("--only", default="", help="only programs whose names contain this")
    parser.add_argument("--attack", default="", help="only attacks whose names contain this; `none` for none")
    parser.add_argument("--table", help="the page with the table, which must have the same words")
    parser.add_argument("--write", action="store_true", help="write the table instead")
    options = parser.parse_args()
    options.dir, options.command = os.path.abspath(options.dir), os.path.abspath(options.command)
    os.makedirs(options.dir, exist_ok=True)
    began = time.monotonic()
    tried = programs.every(os.path.abspath(options.programs)) if options.programs else programs.quick()
    tried = [program for program in tried if options.only in program.name]
    for program in tried:
        if program.missing:
            print(f"not tried: {program.name}: {program.missing}", flush=True)
    tried = [program for program in tried if not program.missing]
    trials = [Trial(options, tried, mode, state) for mode in files.MODES for state in files.STATES]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = [result for of_one in pool.map(Trial.run, trials) for result in of_one]
    faults = sum(bool(result["faults"]) for result in results)
    faults += attacks.run(options)
    with open(f"{options.dir}/results.json", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    if options.table and not faults:
        faults += table.compare(options.table, results, options.write)
    print(f"{len(tried)} programs, {len(results)} verbs on files, {faults} faults, {time.monotonic() - began:.0f} seconds")
    return 1 if faults or not tried else 0


if __name__ == "__main__":
    sys.exit(main())

"""The test suites of libraries on top of SQLite pass on Densite as they pass on plain SQLite.

    export PYTHONPATH=python:tests DENSITE_LIBRARY=target/release/libdensite.so
    python3 -m suites --installed FOLDER --dir DIR [--only WORD] [--reuse]
        [--table docs/durability/suites.md [--write]]

FOLDER is what setup.sh makes. Each suite runs three times with all databases in files: plain, and
with every file under Densite in journal modes DELETE and WAL. A test that passes on plain SQLite and
not on Densite is run again, alone. If it fails again, it is a difference, and known.txt must list it
with the reason. A listed test that does not differ is a fault as well. With WAL, a difference must
also be one to plain SQLite in WAL mode.
"""

import argparse
import collections
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from . import known, suites, table

#: How often a test that differs is run again, alone.
AGAIN = 2
#: With more differences than these, something is wrong with the run itself.
TOO_MANY = 200
#: Of a whole suite and of one test, in seconds.
SUITE_SECONDS, TEST_SECONDS = 2 * 3600, 600


class Run:
    """One run of a suite or of one of its tests: the outcome of each test, by its id."""

    def __init__(self, options, suite, store, mode, test=None):
        self.what = f"{suite.name}, {store}, {mode}"
        self.folder = f"{options.dir}/{suite.name}-{store}-{mode}{'-alone' if test else ''}"
        began = time.monotonic()
        if test or not options.reuse or not os.path.exists(f"{self.folder}/ended"):
            self.execute(options, suite, store, mode, test)
        self.outcomes, self.reasons = {}, {}
        for outcome, name, reason in map(json.loads, lines(f"{self.folder}/results")):
            # The last counts: its parts are recorded before a test, and what it runs itself.
            self.outcomes[name], self.reasons[name] = outcome, reason
        self.passed = {name for name, outcome in self.outcomes.items() if outcome == "passed"}
        opened = [line.split("\t") for line in lines(f"{self.folder}/opened")]
        self.connections = sum(form == store for _, form, _, _ in opened)
        # These have opened a file of the other form, which a test has made itself.
        self.others = len(opened) - self.connections
        self.in_wal = sum(journal == "wal" for _, _, journal, _ in opened)
        if not test:
            print(f"{self.what}: {len(self.outcomes)} tests, {len(self.passed)} passed, {self.connections} connections to files ({self.others} to files of the other form, {self.in_wal} in WAL mode), {time.monotonic() - began:.0f} seconds", flush=True)

    def execute(self, options, suite, store, mode, test):
        folder = self.folder
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("files", "tmp"):
            os.makedirs(f"{folder}/{name}")
        where = folder
        if suite.sources:
            where = f"{folder}/{os.path.basename(suite.sources)}"
            shutil.copytree(suite.sources, where, symlinks=True)
        environment = {**os.environ, **suite.environment(), "TMPDIR": f"{folder}/tmp", "SUITES_STORE": store, "SUITES_MODE": mode}
        environment |= {"SUITES_FILES": f"{folder}/files", "SUITES_OPENED": f"{folder}/opened", "SUITES_RESULTS": f"{folder}/results"}
        environment |= {"SUITES_LIBRARY": options.library, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": f"{suites.HERE}/preload:{suites.HERE}/../../python"}
        with open(f"{folder}/output", "w", encoding="utf-8") as output:
            process = subprocess.Popen(suite.alone(test) if test else suite.everything(), cwd=where, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
            try:
                process.wait(TEST_SECONDS if test else SUITE_SECONDS)
            except subprocess.TimeoutExpired:
                print(f"{self.what}{': ' + test if test else ''}: ended after too long a time", flush=True)
            finally:
                # The tests' own processes too.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for name in ("files", "tmp", os.path.basename(where)):
            shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
        with open(f"{folder}/ended", "w", encoding="utf-8") as file:
            file.write(f"{process.returncode}\n")


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def differs(options, suite, mode, test):
    """Why a test fails on Densite, or None if it passes when it is run again, or "" if it fails on
    plain SQLite as well because of the journal mode."""
    for _ in range(AGAIN):
        run = Run(options, suite, "densite", mode, test)
        if test in run.passed:
            return None
    if mode != "delete" and test not in Run(options, suite, "plain", mode, test).passed and test in Run(options, suite, "plain", "delete", test).passed:
        return ""
    return run.reasons.get(test) or f"it did not run: {run.reasons or 'see its output'}"


def compare(options, suite, listed):
    """Runs a suite. Returns its row of the table and the number of faults."""
    plain = Run(options, suite, "plain", "delete")
    row = {"name": suite.name, "version": suite.version(), "tests": len(plain.outcomes), "plain": len(plain.passed)}
    faults = 0
    if not plain.passed or not plain.connections:
        print(f"FAULT: {suite.name} passed no test on plain SQLite, or had no database in a file")
        faults += 1
    for mode in ("delete", "wal"):
        run = Run(options, suite, "densite", mode)
        counts = collections.Counter()
        # Some tests make a plain file themselves, or fail before they open one.
        if run.connections < 0.9 * plain.connections or (mode == "wal" and not run.in_wal):
            print(f"FAULT: {run.what}: {run.connections} connections have opened Densite files, {run.in_wal} in WAL mode; the plain run had {plain.connections}")
            faults += 1
        expected = dict(listed.get((suite.name, mode), {}))
        different = sorted(plain.passed - run.passed)
        if len(different) > TOO_MANY:
            faults += len(different)
            print(f"FAULT: {run.what}: {len(different)} tests differ, too many to run each again: see {run.folder}; {different[0]}: {run.reasons.get(different[0])}", flush=True)
            continue
        for test in different:
            reason = differs(options, suite, mode, test)
            if reason is None:
                counts["flaky"] += 1
                print(f"{run.what}: {test}: failed once ({run.reasons.get(test)})", flush=True)
            elif reason == "":
                counts["plain"] += 1
                print(f"{run.what}: {test}: fails on plain SQLite in this mode too", flush=True)
            elif test in expected:
                counts["known"] += 1
                expected.pop(test)
            else:
                faults += 1
                print(f"FAULT: {run.what}: {test}: {reason}", flush=True)
        for test in expected:
            faults += 1
            print(f"FAULT: {run.what}: {test}: listed in known.txt, but it does not differ", flush=True)
        row[mode] = {"passed": len(run.passed & plain.passed) + counts["flaky"], "known": counts["known"], "plain": counts["plain"], "connections": run.connections}
    return row, faults


def main():
    parser = argparse.ArgumentParser(prog="suites", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--installed", required=True, help="the folder that setup.sh made")
    parser.add_argument("--dir", required=True, help="the directory for files")
    parser.add_argument("--only", default="", help="only suites whose names contain this")
    parser.add_argument("--reuse", action="store_true", help="do not run a suite again that has run in --dir: only its tests that differ")
    parser.add_argument("--table", help="the page with the table")
    parser.add_argument("--write", action="store_true", help="write the table")
    options = parser.parse_args()
    options.dir, options.installed = os.path.abspath(options.dir), os.path.abspath(options.installed)
    options.library = f"{options.installed}/opened.so"
    os.makedirs(options.dir, exist_ok=True)
    began, faults, ran = time.monotonic(), 0, 0
    listed = known.read(f"{suites.HERE}/known.txt")
    for suite in suites.every(options.installed):
        if options.only not in suite.name:
            continue
        if suite.missing:
            print(f"not tried: {suite.name}: {suite.missing}", flush=True)
            continue
        row, of_suite = compare(options, suite, listed)
        faults, ran = faults + of_suite, ran + 1
        if not of_suite:
            with open(f"{options.dir}/{suite.name}.json", "w", encoding="utf-8") as file:
                json.dump(row, file)
    if options.write and not faults:
        names = [suite.name for suite in suites.every(options.installed)]
        table.write(options.table, [f"{options.dir}/{name}.json" for name in names], listed)
    print(f"{ran} suites, {faults} faults, {time.monotonic() - began:.0f} seconds")
    return 1 if faults or not ran else 0


if __name__ == "__main__":
    sys.exit(main())

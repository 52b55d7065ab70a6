#!/usr/bin/env python3
"""Runs the tests of the workspace, several test programs at once.

usage: scripts/cargo-test.py [quick|all|core]

- all: every test program (if nothing is given).
- quick: without the programs of ONLY_IN_ALL. Set DENSITE_EFFORT=quick, too.
- core: only the unit tests of `core` and the log, and the house rules.

`cargo test` runs one program after the other, and many wait most of the time, for servers, locks
and processes: cores are idle. Here as many programs run as there are cores, with two threads each,
and the largest begin first. The output of a program is printed when it ends. The exit code is 1 if
a test failed, and the last line names the programs in which one did.
"""

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

# These measure memory, start servers or build an environment of their own for long, and few changes
# break them.
ONLY_IN_ALL = {
    "bench: tests/everyday.rs",
    "bench: tests/ingest.rs",
    "features/ingest: tests/peak.rs",
    "features/ingest: tests/writer_peak.rs",
    "features/tools: tests/same_size.rs",
    "tests: tests/hosts.rs",
    "apps/cli: tests/servers/main.rs",
}
# With more threads in all, tests that measure time fail now and then.
THREADS = 2

PRINTING = threading.Lock()


def build(which: str) -> list[tuple[str, str, str]]:
    """Builds the test programs: for each its name, its path and the folder of its crate."""
    targets = ["--lib", "--test", "house"] if which == "core" else []
    cargo = subprocess.Popen(
        ["cargo", "test", "--workspace", "--locked", "--no-run", *targets]
        + ["--message-format=json-render-diagnostics"],
        stdout=subprocess.PIPE,
        text=True,
    )
    programs = []
    for line in cargo.stdout:
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["profile"]["test"]:
            folder = os.path.dirname(message["manifest_path"])
            name = f"{os.path.relpath(folder)}: {os.path.relpath(message['target']['src_path'], folder)}"
            if message["executable"]:
                programs.append((name, message["executable"], folder))
    if cargo.wait() != 0:
        sys.exit(cargo.returncode)
    return programs


def tests(program: tuple[str, str, str]) -> int:
    """How many tests a program has."""
    _, path, folder = program
    listed = subprocess.run([path, "--list"], cwd=folder, stdout=subprocess.PIPE, check=True)
    return listed.stdout.count(b": test\n")


def run(program: tuple[str, str, str]) -> bool:
    """Runs the tests of a program, from the folder of its crate as `cargo test` does."""
    name, path, folder = program
    with PRINTING:
        print(f"     {name} begins", flush=True)
    begin = time.monotonic()
    done = subprocess.run(
        [path, f"--test-threads={THREADS}"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    took = time.monotonic() - begin
    with PRINTING:
        print(f"\n     {name}", flush=True)
        sys.stdout.buffer.write(done.stdout)
        print(f"     {name} took {took:.0f} s", flush=True)
        if done.returncode < 0:
            print(f"     {name} was ended by signal {-done.returncode}", flush=True)
    return done.returncode == 0


def is_of_core(program: str) -> bool:
    return program in ("features/log: src/lib.rs", "tests: tests/house/main.rs") or (
        program.startswith("core/") and program.endswith(": src/lib.rs")
    )


def main() -> None:
    which = sys.argv[1] if len(sys.argv) > 1 else "all"
    if which not in ("all", "quick", "core"):
        sys.exit(__doc__)
    programs = build(which)
    if which == "quick":
        programs = [program for program in programs if program[0] not in ONLY_IN_ALL]
    if which == "core":
        programs = [program for program in programs if is_of_core(program[0])]
    programs.sort(key=tests, reverse=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        good = list(pool.map(run, programs))
    failed = [name for (name, _, _), passed in zip(programs, good) if not passed]
    documentation = ["cargo", "test", "--workspace", "--locked", "--doc"]
    if which != "core" and subprocess.run(documentation).returncode != 0:
        failed.append("the examples in the documentation")
    if failed:
        sys.exit("tests failed, of " + ", ".join(failed))


if __name__ == "__main__":
    main()

"""Power cuts of real programs. Their system calls on files are recorded, and possible states of the
disk between the calls are opened and checked.

    export PYTHONPATH=python:tests DENSITE_LIBRARY=target/release/libdensite.so
    python3 -m powercut --command target/release/densite --dir DIR
        [--minutes M] [--seed N] [--only NAME] [--deaf PATTERN]

The simulated disk of the Rust tests is below Densite's code. This test also covers the calls of
SQLite. Each round has a seed. Threads are not deterministic, so run a failed seed several times. A
failed round keeps the state of the disk. With `--deaf`, the disk ignores syncs of matching paths;
the test must then fail. Part of `make crash`.
"""

import argparse
import os
import random
import re
import shutil
import sys

import long.run

from .disk import Disk, save
from .scenarios import SCENARIOS
from .trace import record

#: The number of moments of a round, and of disk states checked at each.
MOMENTS, STATES = 40, 3


def moments(events, r):
    """Positions in the events: before calls that change names or durability, before some others,
    and the end."""
    important = [i for i, e in enumerate(events) if e.what not in ("write", "output", "open")]
    chosen = set(r.sample(important, min(len(important), MOMENTS // 2)))
    chosen.update(r.sample(range(len(events)), min(len(events), MOMENTS // 2)))
    return sorted(chosen) + [len(events)]


def play(options, seed):
    """Runs a round. Returns the number of checked states."""
    r, folder = random.Random(f"round {seed}"), f"{options.dir}/{seed}"
    for ending in ("", ".making", ".aside", ".state", ".state.as-it-was"):
        shutil.rmtree(folder + ending, ignore_errors=True)
    which = r.choice([which for which in SCENARIOS if options.only in (None, which.__name__)])
    scenario = which(os.path.abspath(options.command), folder, seed, r)
    print(f"seed {seed}: {which.__name__}, {scenario.what}", end="", flush=True)
    disk = Disk(folder, lambda path: options.deaf and re.search(options.deaf, path))
    events, ran = record(scenario.arguments(), folder)
    assert ran.returncode == 0 and not ran.stderr.strip().startswith(b"Traceback"), (ran.stdout, ran.stderr)
    checked, applied = 0, 0
    for moment in moments(events, r):
        for event in events[applied:moment]:
            disk.apply(event)
        applied = moment
        for _ in range(STATES):
            state = f"{folder}.state"
            os.makedirs(state)
            save(disk.after_a_cut(r), state)
            shutil.copytree(state, state + ".as-it-was")
            try:
                scenario.verify(state, disk.output, moment == len(events))
            except BaseException:
                print(f"\nseed {seed}, before call {moment} of {len(events)} ({events[moment:moment + 1]}); the disk is in {state}.as-it-was", flush=True)
                raise
            shutil.rmtree(state)
            shutil.rmtree(state + ".as-it-was")
            checked += 1
    print(f": {len(events)} calls, {checked} states", flush=True)
    shutil.rmtree(folder)
    return checked


def main():
    parser = argparse.ArgumentParser(prog="powercut")
    parser.add_argument("--command", required=True)
    parser.add_argument("--dir", required=True)
    long.run.options(parser)
    parser.add_argument("--only", choices=sorted({which.__name__ for which in SCENARIOS}), default=None)
    parser.add_argument("--deaf", default=None)
    options = parser.parse_args()
    os.makedirs(options.dir, exist_ok=True)
    options.dir = os.path.realpath(options.dir)
    long.run.seeds("states of a disk", options, lambda seed: play(options, seed))


if __name__ == "__main__":
    sys.exit(main())

"""Power cuts of the real programs: what they did to their files is recorded, and what the disk may have at any moment in between is looked at.

    PYTHONPATH=python:tests DENSITE_LIBRARY=target/release/libdensite.so python3 -m powercut --command target/release/densite --dir DIR [--minutes M] [--seed N] [--only NAME] [--deaf PATTERN]

The simulated disk of the Rust tests is below our own code; here are the calls that the system got from all of it, SQLite's among them. Each round has a seed; threads run as they do, so a seed that failed is to be run several times. Where a round fails the
state of the disk stays. `--deaf`: the disk does not obey syncs of paths that match, to see that the test finds out. Part of `make crash`.
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

#: Moments of a round that are looked at, and what the disk may have at each.
MOMENTS, STATES = 40, 3


def moments(events, r):
    """Before the calls that decide, and some others; and the end."""
    decide = [i for i, e in enumerate(events) if e.what not in ("write", "told", "open")]
    chosen = set(r.sample(decide, min(len(decide), MOMENTS // 2)))
    chosen.update(r.sample(range(len(events)), min(len(events), MOMENTS // 2)))
    return sorted(chosen) + [len(events)]


def play(options, seed):
    """A round; how many states were looked at."""
    r, folder = random.Random(f"round {seed}"), f"{options.dir}/{seed}"
    for ending in ("", ".making", ".aside", ".state", ".state.as-it-was"):
        shutil.rmtree(folder + ending, ignore_errors=True)
    which = r.choice([which for which in SCENARIOS if options.only in (None, which.__name__)])
    scenario = which(os.path.abspath(options.command), folder, seed, r)
    print(f"seed {seed}: {which.__name__}, {scenario.what}", end="", flush=True)
    disk = Disk(folder, lambda path: options.deaf and re.search(options.deaf, path))
    events, ran = record(scenario.arguments(), folder)
    assert ran.returncode == 0 and not ran.stderr.strip().startswith(b"Traceback"), (ran.stdout, ran.stderr)
    looked, followed = 0, 0
    for moment in moments(events, r):
        for event in events[followed:moment]:
            disk.follow(event)
        followed = moment
        for _ in range(STATES):
            state = f"{folder}.state"
            os.makedirs(state)
            save(disk.after_a_cut(r), state)
            shutil.copytree(state, state + ".as-it-was")
            try:
                scenario.verify(state, disk.told, moment == len(events))
            except BaseException:
                print(f"\nseed {seed}, before call {moment} of {len(events)} ({events[moment:moment + 1]}); the disk is in {state}.as-it-was", flush=True)
                raise
            shutil.rmtree(state)
            shutil.rmtree(state + ".as-it-was")
            looked += 1
    print(f": {len(events)} calls, {looked} states", flush=True)
    shutil.rmtree(folder)
    return looked


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

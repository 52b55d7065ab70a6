"""The loop of the parts of `make crash` that are written in Python. The crate `densite-testing` has
the same loop for Rust."""

import os
import time


def options(parser):
    """Adds --minutes, --tries and --seed. The environment sets their defaults."""
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("DENSITE_MINUTES") or 1))
    parser.add_argument("--tries", type=int, default=int(os.environ.get("DENSITE_TRIES") or 0))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("DENSITE_SEED") or int(time.time()) * 1000))


def seeds(things, given, once):
    """Calls once(seed) with consecutive seeds until the time has passed, or until so many things
    were tried if --tries is not 0. `once` returns the number of things that it tried."""
    seed, runs, tried = given.seed, 0, 0
    until = time.monotonic() + given.minutes * 60
    try:
        while runs == 0 or (tried < given.tries if given.tries else time.monotonic() < until):
            tried += once(seed)
            runs, seed = runs + 1, seed + 1
    except BaseException:
        print(f"long run: FAILED with SEED={seed} after {runs} runs, {tried} {things}", flush=True)
        raise
    print(f"long run: {runs} runs, {tried} {things}, continue with SEED={seed}", flush=True)

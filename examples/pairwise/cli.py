"""The command line. Exit codes: 0 done, 1 error, 2 usage, 3 the database is locked, 130 interrupted."""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import signal
import sqlite3
import sys
import time
from typing import Any, Optional, Sequence

import densite

from . import distances, everything, schema
from .client import Client
from .errors import Failed, Refused
from .page import duration
from .routes import Coordinator
from .server import Server
from .store import Store, connect
from .verify import verify
from .worker import work

#: Where a coordinator listens unless it is told otherwise.
HOST, PORT = "127.0.0.1", 8765


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        options.do(options)
    except (Failed, Refused) as error:
        return _say(str(error), getattr(error, "code", 1))
    except sqlite3.DatabaseError as error:
        locked = "locked" in str(error) or "busy" in str(error)
        hint = "; another program writes to it: try again when that has ended" if locked else ""
        return _say(f"{getattr(options, 'file', 'the database')}: {error}{hint}", 3 if locked else 1)
    except OSError as error:
        return _say(str(error), 1)
    except KeyboardInterrupt:
        return 130
    return 0


def _say(sentence: str, code: int) -> int:
    print(f"pairwise: {sentence}", file=sys.stderr, flush=True)
    return code


def _init(options: Any) -> None:
    if os.path.lexists(options.file):
        raise Failed(f"{options.file} is there already; `python3 -m pairwise add` adds samples to it")
    con = densite.connect(options.file, isolation_level=None)
    with contextlib.closing(con):
        began = time.monotonic()
        schema.create(con, schema.Settings(options.seed, options.length, options.window, options.batch))
        pairs = schema.add(con, options.samples)
        print(f"{options.file}: {options.samples:,} samples, {pairs:,} pairs allocated in {duration(time.monotonic() - began)}", flush=True)


def _add(options: Any) -> None:
    with contextlib.closing(connect(options.file)) as con:
        print(f"{options.file}: {options.samples:,} samples more, {schema.add(con, options.samples):,} pairs more", flush=True)


def _serve(options: Any) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    store = Store(options.file)
    try:
        coordinator = Coordinator(store, options.lease)
        with Server(options.host, options.port, coordinator) as server:
            if coordinator.settled:
                print(
                    f"batches that were delivered, and not noted, when the last coordinator ended: {coordinator.settled}", file=sys.stderr, flush=True
                )
            print(f"coordinator of {options.file}: {server.url}", flush=True)
            server.serve_forever(poll_interval=0.1)
    finally:
        store.close()


def _work(options: Any) -> None:
    with Client(options.url, options.patience) as client:
        computed = work(client, options.name)
    print(f"{options.name}: computed {computed:,} pairs", flush=True)


def _query(options: Any) -> None:
    with contextlib.closing(connect(options.file)) as con:
        left, right = (distances.samples_of(con, text) for text in (options.left, options.right))
        distances.check(left, right)
        out = csv.writer(sys.stdout, lineterminator="\n")
        out.writerow(("a", "b", "distance"))
        try:
            with distances.between(con, left, right) as found:
                out.writerows(found)
            sys.stdout.flush()
        except BrokenPipeError:  # `| head` has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _verify(options: Any) -> None:
    report = verify(options.file, options.check)
    print(f"{options.file}: {report.pairs:,} pairs, each there once; {report.checked:,} computed again and found the same", flush=True)


def _run(options: Any) -> None:
    _init(options)
    everything.run(options.file, options.workers, ("--host", options.host, "--port", str(options.port), "--lease", str(options.lease)))


def _number(kind: Any, least: float, most: float) -> Any:
    """A type of argument: a number within limits."""

    def parse(text: str) -> Any:
        value = kind(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {least:g} to {most:g}")
        return value

    parse.__name__ = "number"
    return parse


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m pairwise", description="All pairs of N samples, computed by many workers, in one Densite file.")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")

    def verb(name: str, do: Any, text: str) -> argparse.ArgumentParser:
        found = verbs.add_parser(name, help=text, description=text)
        found.set_defaults(do=do)
        return found

    def making(found: argparse.ArgumentParser) -> None:
        standard = schema.Settings()
        found.add_argument("file", help="the file of pairs, which must not be there yet")
        found.add_argument("--samples", type=_number(int, 2, 100_000), default=300, help="how many (300)")
        found.add_argument("--length", type=_number(int, 2, 100_000), default=standard.length, help=f"values in a series ({standard.length})")
        found.add_argument("--window", type=_number(int, 0, 100_000), default=standard.window, help=f"of the distance ({standard.window})")
        found.add_argument(
            "--batch", type=_number(int, 1, 10_000), default=standard.batch_pairs, help=f"pairs handed out at once ({standard.batch_pairs})"
        )
        found.add_argument("--seed", type=int, default=standard.seed, help=f"of the generator ({standard.seed})")

    def serving(found: argparse.ArgumentParser, port: int) -> None:
        found.add_argument("--host", default=HOST, help=f"the address to listen on ({HOST}); whoever has the token may read and deliver")
        found.add_argument("--port", type=int, default=port, help=f"the port to listen on ({port}; 0: any that is free)")
        found.add_argument("--lease", type=_number(float, 0.1, 86_400), default=30.0, help="how long a worker may be silent, in seconds (30)")

    making(verb("init", _init, "make a file of samples and allocate all pairs"))
    add = verb("add", _add, "add samples and the pairs that come with them")
    add.add_argument("file")
    add.add_argument("--samples", type=_number(int, 1, 100_000), required=True, help="how many")
    serve = verb("serve", _serve, "be the coordinator of a file")
    serve.add_argument("file")
    serving(serve, PORT)
    worker = verb("work", _work, "be a worker of a coordinator, until all is done")
    worker.add_argument("url", help="of the coordinator, as it prints it, with its token")
    worker.add_argument("--name", default=f"{os.uname().nodename[:40]}:{os.getpid()}", help="what the status page calls it (host:process)")
    worker.add_argument(
        "--patience", type=_number(float, 0, 86_400), default=60.0, help="how long to wait for a coordinator that is away, in seconds (60)"
    )
    query = verb("query", _query, "print the distances between two sets of samples as CSV")
    query.add_argument("file")
    query.add_argument("left", help="samples as numbers, ranges and kinds: 1-50,77,sine")
    query.add_argument("right", help="the other set")
    check = verb("verify", _verify, "see whether a finished file is right")
    check.add_argument("file")
    check.add_argument("--check", type=_number(int, 0, 10_000_000), default=300, help="how many pairs to compute again (300)")
    run = verb("run", _run, "all of it: init, serve, workers, verify")
    making(run)
    serving(run, 0)
    run.add_argument("--workers", type=_number(int, 1, 1000), default=4, help="how many worker processes (4)")
    return parser

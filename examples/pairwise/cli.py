"""The command line. Exit codes: 0 success, 1 error, 2 usage, 3 the database is locked, 130
interrupted."""

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

from . import cluster, distances, everything, member, schema
from .client import Client
from .errors import Failed, Refused
from .page import duration
from .routes import Coordinator
from .server import Server
from .store import Store, connect
from .verify import verify
from .worker import work

#: The default address of a coordinator.
HOST, PORT = "127.0.0.1", 8765


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs one command. Returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        options.do(options)
    except (Failed, Refused) as error:
        return _print_error(str(error), getattr(error, "code", 1))
    except sqlite3.DatabaseError as error:
        locked = "locked" in str(error) or "busy" in str(error)
        hint = "; another program writes to it: try again later" if locked else ""
        return _print_error(f"{getattr(options, 'file', 'the database')}: {error}{hint}", 3 if locked else 1)
    except OSError as error:
        return _print_error(str(error), 1)
    except KeyboardInterrupt:
        return 130
    return 0


def _print_error(sentence: str, code: int) -> int:
    print(f"pairwise: {sentence}", file=sys.stderr, flush=True)
    return code


def _init(options: Any) -> None:
    if os.path.lexists(options.file):
        raise Failed(f"{options.file} exists already; use `python3 -m pairwise add` to add samples to it")
    con = densite.connect(options.file, isolation_level=None)
    with contextlib.closing(con):
        began = time.monotonic()
        schema.create(con, schema.Settings(options.seed, options.length, options.window, options.batch))
        pairs = schema.add(con, options.samples)
        print(f"{options.file}: {options.samples:,} samples, {pairs:,} pairs allocated in {duration(time.monotonic() - began)}", flush=True)


def _add(options: Any) -> None:
    with contextlib.closing(connect(options.file)) as con:
        print(f"{options.file}: added {options.samples:,} samples and {schema.add(con, options.samples):,} pairs", flush=True)


def _serve(options: Any) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    store = Store(options.file)
    try:
        coordinator = Coordinator(store, options.lease)
        with Server(options.host, options.port, coordinator) as server:
            if coordinator.recovered:
                print(f"batches that the last coordinator stored but did not note as done: {coordinator.recovered}", file=sys.stderr, flush=True)
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
            with distances.between(con, left, right) as rows:
                out.writerows(rows)
            sys.stdout.flush()
        except BrokenPipeError:  # for example `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _verify(options: Any) -> None:
    report = verify(options.file, options.check)
    print(f"{options.file}: {report.pairs:,} pairs, each there once; {report.checked:,} computed again, with the same results", flush=True)


def _run(options: Any) -> None:
    _init(options)
    everything.run(options.file, options.workers, ("--host", options.host, "--port", str(options.port), "--lease", str(options.lease)))


def _member(options: Any) -> None:
    with contextlib.closing(connect(options.file)) as con:
        computed = member.work(con, options.name, lambda line: print(f"{options.name}: {line}", flush=True))
    print(f"{options.name}: computed {computed:,} pairs", flush=True)


def _cluster(options: Any) -> None:
    settings = schema.Settings(options.seed, options.length, options.window, options.batch)
    cluster.run(options.file, options.server, settings, options.samples, options.machines, options.kills, options.seed)


def _number(kind: Any, least: float, most: float) -> Any:
    """An argument type: a number within limits."""

    def parse(text: str) -> Any:
        value = kind(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is out of range: use {least:g} to {most:g}")
        return value

    parse.__name__ = "number"
    return parse


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m pairwise", description="All pairs of N samples, computed by many workers and stored in one Densite file.")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")

    def verb(name: str, do: Any, text: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text, description=text)
        added.set_defaults(do=do)
        return added

    def add_file_options(verb: argparse.ArgumentParser, what: str = "the file of pairs, which must not exist") -> None:
        standard = schema.Settings()
        verb.add_argument("file", help=what)
        verb.add_argument("--samples", type=_number(int, 2, 100_000), default=300, help="number of samples (300)")
        verb.add_argument("--length", type=_number(int, 2, 100_000), default=standard.length, help=f"number of values in a series ({standard.length})")
        verb.add_argument("--window", type=_number(int, 0, 100_000), default=standard.window, help=f"window of the distance, in values ({standard.window})")
        verb.add_argument(
            "--batch", type=_number(int, 1, 10_000), default=standard.batch_pairs, help=f"number of pairs in a batch ({standard.batch_pairs})"
        )
        verb.add_argument("--seed", type=int, default=standard.seed, help=f"seed of the generator ({standard.seed})")

    def add_server_options(verb: argparse.ArgumentParser, port: int) -> None:
        verb.add_argument("--host", default=HOST, help=f"the address to listen on ({HOST}); every client with the token can read and deliver")
        verb.add_argument("--port", type=int, default=port, help=f"the port to listen on ({port}; 0: a free port)")
        verb.add_argument("--lease", type=_number(float, 0.1, 86_400), default=30.0, help="how long a lease lasts without renewal, in seconds (30)")

    add_file_options(verb("init", _init, "create a file of samples and allocate all pairs"))
    add = verb("add", _add, "add samples and their new pairs")
    add.add_argument("file", help="the file of pairs")
    add.add_argument("--samples", type=_number(int, 1, 100_000), required=True, help="number of new samples")
    serve = verb("serve", _serve, "run the coordinator of a file")
    serve.add_argument("file", help="the file of pairs")
    add_server_options(serve, PORT)
    worker = verb("work", _work, "run a worker of a coordinator until all pairs are done")
    worker.add_argument("url", help="the URL that the coordinator prints, with its token")
    worker.add_argument("--name", default=f"{os.uname().nodename[:40]}:{os.getpid()}", help="the name on the status page (host:process)")
    worker.add_argument(
        "--patience", type=_number(float, 0, 86_400), default=60.0, help="how long to wait for a coordinator that does not answer, in seconds (60)"
    )
    query = verb("query", _query, "print the distances between two sets of samples as CSV")
    query.add_argument("file", help="the file of pairs")
    query.add_argument("left", help="one set: numbers, ranges and kinds of samples, for example 1-50,77,sine")
    query.add_argument("right", help="the other set")
    check = verb("verify", _verify, "check a finished file")
    check.add_argument("file", help="the file of pairs")
    check.add_argument("--check", type=_number(int, 0, 10_000_000), default=300, help="number of pairs to compute again (300)")
    run = verb("run", _run, "init, serve, workers and verify in one command")
    add_file_options(run)
    add_server_options(run, 0)
    run.add_argument("--workers", type=_number(int, 1, 1000), default=4, help="number of worker processes (4)")
    one = verb("member", _member, "work on a file that is a member of a stream (densite join), without a coordinator")
    one.add_argument("file", help="the file of pairs")
    one.add_argument("--name", required=True, help="the name in claims of batches")
    many = verb("cluster", _cluster, "workers on several machines, with a file each, and a server of NATS; kills them at random, and compares the files")
    add_file_options(many, "the directory for all files, which must not exist")
    many.add_argument("--server", default="target/nats-server/bin/nats-server", help="the path of nats-server (target/nats-server/bin/nats-server)")
    many.add_argument("--machines", type=_number(int, 1, 100), default=3, help="number of workers with a file each (3)")
    many.add_argument("--kills", type=_number(int, 0, 100_000), default=10, help="how often a worker or the server is killed (10)")
    return parser

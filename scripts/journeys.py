#!/usr/bin/env python3
"""journeys.py [--root TREE] [--lists FOLDER] DENSITE: how many source files five journeys execute.

DENSITE is the command, built with debug information from TREE (default: the tree of this script), and
valgrind must be installed. A file counts if callgrind sees an instruction of one of its lines; inlined code
counts for the file in which it stands, and code that the compiler gave no line counts for none. Files of
libraries and of tests do not count. A part of a journey is one run of DENSITE, of which only what happens
inside of the named functions counts. On a busy machine the numbers can differ by a few from run to run:
the workers of ingest and of maintenance are threads.
"""

import argparse
import collections
import hashlib
import http.server
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROWS = """
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price REAL, at TEXT, kind TEXT, n INTEGER);
CREATE INDEX item_name ON item(name);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 15000)
  INSERT INTO item SELECT i, 'item ' || (i * 7919 % 15013), (i * 31 % 1000) / 10.0,
    datetime(1700000000 + i * 60, 'unixepoch'), CASE i % 3 WHEN 0 THEN 'book' WHEN 1 THEN 'map' END, i * i % 977 FROM n;
"""
LOOKUP = "SELECT name FROM item WHERE id = 7777"
UPDATE = "UPDATE item SET n = n + 1 WHERE id = 7777; PRAGMA wal_checkpoint"
# The wait gives the worker time to begin: until it does, a commit looks itself whether the database names its log.
INSERT = """
CREATE VIRTUAL TABLE temp.item_in USING densite_ingest(item);
SELECT densite_log_wait(999999, 1);
INSERT INTO item_in VALUES (20000, 'new', 1.5, '2026-11-30 12:00:00', 'book', 7);
"""

METHODS = "densite_sqlite::vfs::methods::"
GLUE = "densite_sqlite::vtab::glue::Glue<T>::"
CALLS = {"update": ["update"], "sync": ["sync"], "commit": ["commit"], "reader": ["filter", "next", "eof", "column", "rowid"]}
WORKER = "densite_ingest::apply::applier::Applier::run"

parser = argparse.ArgumentParser()
parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
parser.add_argument("--lists", type=Path, help="a folder for a list of the files of each journey")
parser.add_argument("densite", type=Path)
options = parser.parse_args()
folder = tempfile.TemporaryDirectory(prefix="journeys-")
work = Path(folder.name)


def run(*arguments, before=(), says=""):
    command = [*before, options.densite.resolve(), *arguments]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    if done.returncode or says not in done.stdout:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")


def executed(profile):
    """The executed lines of each file of the workspace. The line after `calls=` has the cost of the
    called function, so it does not count."""
    names, lines = {}, collections.defaultdict(set)
    file, position, called = None, 0, False
    for line in profile.open():
        if match := re.match(r"(fl|fi|fe|cfi|cfl)=\((\d+)\)(?: (.*))?$", line):
            kind, number, name = match.groups()
            if name:
                names[number] = name
            if kind in ("fl", "fi", "fe"):
                file = names[number]
        elif line.startswith("calls="):
            called = True
        elif match := re.match(r"([+-]?\d+|\*) (\d+)$", line):
            at, cost = match.groups()
            position = position if at == "*" else position + int(at) if at[0] in "+-" else int(at)
            if not called and int(cost) and position:
                lines[file].add(position)
            called = False
    inside = {}
    for name, found in lines.items():
        of_tree = re.search(r"(?:^|/)((?:core|features|apps)/[^/]+/src/.+\.rs)$", name or "")
        if of_tree and (options.root / of_tree[1]).is_file():
            inside[of_tree[1]] = found
    return inside


def part(*arguments, within=(), says=""):
    profile = work / "profile"
    only = [f"--toggle-collect={name}*" for name in within]
    only += ["--collect-atstart=no"] if within else []
    callgrind = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={profile}", *only]
    run(*arguments, before=callgrind, says=says)
    return executed(profile)


def copy(name):
    """A compressed database of its own, which this process works on without threads."""
    (work / name).write_bytes((work / "small.db").read_bytes())
    return f"file:{name}?threads=0"


def checkpointed_page():
    """A row is updated in WAL mode, and a checkpoint follows."""
    for name in ("write", "file_control", "sync"):
        at = copy(f"{name}.db")
        run("sql", at, "PRAGMA journal_mode = wal")
        yield name, part("sql", at, UPDATE, within=[METHODS + name])


def cold_read():
    """The first lookup of a process: what SQLite reads of the file, from opening it on."""
    yield "read", part("sql", copy("read.db"), LOOKUP, within=[f"{METHODS}read"], says="item ")


def ingested_row():
    """A row goes to the log of a plain database, is read while it waits there, and is applied."""
    wait = INSERT + "SELECT densite_wait()"
    run("sql", "file:row.db?densite=off", "--create", ROWS)
    run("sql", "row.db", f"PRAGMA journal_mode = wal; {wait}")
    for name, functions in CALLS.items():
        # A lock keeps the worker from applying the row before it is read.
        other = sqlite3.connect(work / "row.db", isolation_level=None)
        other.execute("DELETE FROM item WHERE id = 20000")
        other.execute("BEGIN IMMEDIATE")
        read = INSERT + "SELECT name FROM item_in WHERE id = 20000"
        yield name, part("sql", "row.db", read, within=[GLUE + f for f in functions], says="new")
        other.close()
        drain = "CREATE VIRTUAL TABLE temp.item_in USING densite_ingest(item); SELECT densite_wait()"
        run("sql", "row.db", f"{drain}; DELETE FROM item WHERE id = 20000")
    yield "worker", part("sql", "row.db", wait, within=[WORKER])


class Ranges(http.server.BaseHTTPRequestHandler):
    """A web server that knows ranges."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = (work / self.path.strip("/")).read_bytes()
        first, last = re.match(r"bytes=(\d+)-(\d*)", self.headers["Range"]).groups()
        first, last = int(first), min(int(last or len(body)), len(body) - 1)
        self.send_response(206)
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()[:16]}"')
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        self.wfile.write(body[first : last + 1])

    def log_message(self, *_):
        pass


def remote_read():
    """A lookup in a database on a web server; all of the process."""
    run("publish", "small.db", "remote.db")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield "process", part("sql", f"http://127.0.0.1:{server.server_port}/remote.db", LOOKUP, says="item ")
    server.shutdown()


def compress():
    """`densite compress` to another file; all of the process."""
    yield "process", part("compress", "plain.db", "copy.db", "--threads", "0")


def code(path):
    """The lines of code of a file without its tests, as scripts/size.py counts them."""
    text = path.read_text().partition("#[cfg(test)]\nmod tests {")[0]
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


run("sql", "file:plain.db?densite=off", "--create", ROWS)
run("compress", "plain.db", "small.db", "--threads", "0")
for journey, most in ((checkpointed_page, 70), (cold_read, 40), (ingested_row, 90), (remote_read, None), (compress, 120)):
    name = journey.__name__.replace("_", " ")
    parts = dict(journey())
    files = collections.defaultdict(set)
    for found in parts.values():
        for file, lines in found.items():
            files[file] |= lines
    crates = collections.Counter(file.split("/")[1] for file in files).most_common()
    title = f"{name}: {len(files)} files" + (f" (at most {most})" if most else "")
    print(title, *(f"{part} {len(found)}" for part, found in parts.items()), sep="\n  ")
    print("  of", ", ".join(f"{crate} {count}" for crate, count in crates), flush=True)
    if options.lists:
        rows = [f"# {title}", "# lines of code, executed lines, file, parts"]
        for file in sorted(files):
            on = " ".join(part for part, found in parts.items() if file in found)
            rows.append(f"{code(options.root / file):5} {len(files[file]):5}  {file}  {on}")
        (options.lists / f"{journey.__name__}.txt").write_text("\n".join(rows) + "\n")

#!/bin/bash
# Turso 0.8.3 (pyturso 0.8.3 from PyPI): a SELECT on a SQLite database in rollback mode changes the
# file: it is in WAL mode from then on, for every program.
#
# Expected: a program that reads a database leaves its bytes and its journal mode as they are.
#
# Seen: opening and reading writes 2 into the bytes 18 and 19 of the header (WAL) where 1 stood
# (rollback), and leaves a -wal of no bytes and a -shm. SQLite then answers "wal" to
# `PRAGMA journal_mode`. So one look at a database that lies on a network file system, or that is
# opened where no -shm can be made, takes it away from its other readers, until one of them sets the
# mode back.
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/env"
"$dir/env/bin/pip" install --quiet --disable-pip-version-check pyturso==0.8.3
"$dir/env/bin/python" - "$dir/a.db" <<'PROGRAM'
import sqlite3
import sys

import turso

path = sys.argv[1]

def content():
    with open(path, "rb") as file:
        return file.read()

con = sqlite3.connect(path)
con.execute("CREATE TABLE t(a)")
con.execute("INSERT INTO t VALUES (1)")
con.commit()
con.close()
before = content()
con = turso.connect(path)
cursor = con.cursor()
cursor.execute("SELECT a FROM t")
rows = cursor.fetchall()
con.close()
after = content()
changed = [at for at in range(len(before)) if before[at] != after[at]]
mode = sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone()[0]
print("rows:", rows)
print("bytes 18 and 19:", list(before[18:20]), "then", list(after[18:20]))
print("changed bytes:", changed)
print("journal_mode:", mode)
assert rows == [(1,)]
assert (list(before[18:20]), list(after[18:20]), mode) == ([1, 1], [2, 2], "wal"), "the behaviour has changed"
PROGRAM

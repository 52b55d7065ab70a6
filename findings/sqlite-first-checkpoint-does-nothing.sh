#!/bin/bash
# SQLite 3.54.1 (apsw 3.54.1.0 from PyPI; 3.40.1 does the same): sqlite3_wal_checkpoint_v2() as the
# first call on a connection does nothing, and returns SQLITE_OK.
#
# Expected: a program that opens a database in WAL mode to checkpoint it, as a service does each
# hour, empties the WAL, or gets an error.
#
# Seen: a connection that has read nothing yet does not know that the database is in WAL mode. The
# call returns SQLITE_OK with -1 frames in the WAL and -1 checkpointed, in each mode, and the WAL stays
# as long as it was. After any SELECT the same call empties it. `PRAGMA wal_checkpoint` reads the
# schema first, so the sqlite3 shell and drivers that send the PRAGMA are not concerned. Whoever
# compares the two numbers to see whether all is checkpointed finds them equal.
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/env"
"$dir/env/bin/pip" install --quiet --disable-pip-version-check apsw==3.54.1.0
"$dir/env/bin/python" - "$dir/a.db" <<'PROGRAM'
import os
import sys

import apsw

path = sys.argv[1]
writer = apsw.Connection(path)
writer.execute("PRAGMA journal_mode = WAL").fetchall()
writer.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
writer.execute("CREATE TABLE t(a)")
for _ in range(50):
    writer.execute("INSERT INTO t VALUES (randomblob(1000))")
length = os.path.getsize(path + "-wal")
fresh = apsw.Connection(path)
first = fresh.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
after_first = os.path.getsize(path + "-wal")
fresh.execute("SELECT count(*) FROM t").fetchall()
second = fresh.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
after_second = os.path.getsize(path + "-wal")
print("SQLite", apsw.sqlite_lib_version())
print("first:", first, "the WAL has", after_first, "of", length, "bytes")
print("after a SELECT:", second, "the WAL has", after_second, "bytes")
assert (first, after_first) == ((-1, -1), length), "the behaviour has changed"
assert (second, after_second) == ((0, 0), 0), "the behaviour has changed"
PROGRAM

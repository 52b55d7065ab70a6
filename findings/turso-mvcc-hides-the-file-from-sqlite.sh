#!/bin/bash
# Turso 0.8.3 (pyturso 0.8.3 from PyPI): after `PRAGMA journal_mode = mvcc` no SQLite opens the
# database, whoever closed it and however. `PRAGMA journal_mode = wal` in Turso gives it back, with the
# rows that were written meanwhile.
#
# Expected: the mode belongs to the connection, or to the time until the last close, as the locks do;
# a database that was closed cleanly is a SQLite database.
#
# Seen: the mode writes 255 as read and write version (bytes 18 and 19 of the header), and rows go to
# a file with the ending -log. SQLite says "file is not a database", its words for a file that is no
# database or is encrypted. Closing changes neither. Switching to wal writes 2 again, moves the rows
# into the database, and leaves an empty -log.
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/env"
"$dir/env/bin/pip" install --quiet --disable-pip-version-check pyturso==0.8.3
"$dir/env/bin/python" - "$dir/a.db" <<'PROGRAM'
import os
import sqlite3
import sys

import turso

path = sys.argv[1]

def in_turso(*statements):
    con = turso.connect(path)
    for sql in statements:
        cursor = con.cursor()
        cursor.execute(sql)
        if cursor.description:
            cursor.fetchall()
    con.commit()
    con.close()

def in_sqlite():
    with open(path, "rb") as file:
        versions = list(file.read(20)[18:])
    try:
        rows = sqlite3.connect(path).execute("SELECT a FROM t ORDER BY a").fetchall()
    except sqlite3.DatabaseError as error:
        rows = str(error)
    log = os.path.getsize(path + "-log") if os.path.exists(path + "-log") else None
    return versions, rows, log

seen = []
in_turso("CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
seen.append(in_sqlite())
in_turso("PRAGMA journal_mode = mvcc")
in_turso("INSERT INTO t VALUES (2)")
seen.append(in_sqlite())
in_turso("PRAGMA journal_mode = wal")
seen.append(in_sqlite())
for state in seen:
    print(*state)
plain, mvcc, again = seen
assert plain == ([2, 2], [(1,)], None), "the behaviour has changed"
assert mvcc[:2] == ([255, 255], "file is not a database") and mvcc[2] > 0, "the behaviour has changed"
assert again == ([2, 2], [(1,), (2,)], 0), "the behaviour has changed"
PROGRAM

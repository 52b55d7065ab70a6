#!/bin/bash
# SQLite 3.54.1 (apsw 3.54.1.0 from PyPI; 3.40.1 does the same): INSERT … RETURNING on a virtual table
# returns what the statement gave, and not what the table stored.
#
# Expected: RETURNING gives the row as it is after the statement, as in an ordinary table: above all the
# id that the table chose.
#
# Seen: with FTS5 the row id is -1 for every new row, with R-Tree the id is NULL, and coordinates of an
# R-Tree come back unrounded, although the table stores 32 bits of them. last_insert_rowid() gives the
# right id of the last row. An UPDATE or DELETE with RETURNING on a virtual table is an error, as
# documented. An object-relational mapper that reads new ids by RETURNING gets -1 for each row.
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/env"
"$dir/env/bin/pip" install --quiet --disable-pip-version-check apsw==3.54.1.0
"$dir/env/bin/python" - <<'PROGRAM'
import apsw

con = apsw.Connection(":memory:")
print("SQLite", apsw.sqlite_lib_version())
con.execute("CREATE TABLE plain(id INTEGER PRIMARY KEY, a); CREATE VIRTUAL TABLE words USING fts5(a); CREATE VIRTUAL TABLE boxes USING rtree(id, low, high)")
plain = con.execute("INSERT INTO plain(a) VALUES ('x'), ('y') RETURNING id").fetchall()
words = con.execute("INSERT INTO words(a) VALUES ('x'), ('y') RETURNING rowid").fetchall()
stored_words = con.execute("SELECT rowid FROM words").fetchall()
boxes = con.execute("INSERT INTO boxes VALUES (NULL, 1.1, 2) RETURNING id, low").fetchall()
stored_boxes = con.execute("SELECT id, low FROM boxes").fetchall()
print("a table:", plain)
print("FTS5:", words, "and stored:", stored_words)
print("R-Tree:", boxes, "and stored:", stored_boxes)
assert plain == [(1,), (2,)]
assert (words, stored_words) == ([(-1,), (-1,)], [(1,), (2,)]), "the behaviour has changed"
assert (boxes, stored_boxes) == ([(None, 1.1)], [(1, 1.0999999046325684)]), "the behaviour has changed"
PROGRAM

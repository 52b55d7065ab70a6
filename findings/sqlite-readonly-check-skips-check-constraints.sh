#!/bin/bash
# SQLite 3.54.1 (apsw 3.54.1.0 from PyPI): PRAGMA integrity_check of a database that was opened
# read-only never looks at CHECK constraints.
#
# Expected: integrity_check gives the same answer on every connection to the same file. A checker
# opens a backup read-only, so that it cannot change it.
#
# Seen: a row that breaks a CHECK is named on a connection that can write, also under
# `PRAGMA query_only`, and the answer is "ok" with SQLITE_OPEN_READONLY, with immutable=1 and in a
# database that is attached with mode=ro. NULL in a NOT NULL column is named on all of them. The
# parser drops CHECK constraints of a read-only database, because no write can break them. So a
# backup that is verified read-only can be refused by the first check after it is restored.
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/env"
"$dir/env/bin/pip" install --quiet --disable-pip-version-check apsw==3.54.1.0
"$dir/env/bin/python" - "$dir/a.db" <<'PROGRAM'
import sys

import apsw

path = sys.argv[1]
con = apsw.Connection(path)
con.execute("CREATE TABLE price(cents CHECK (cents >= 0))")
con.execute("CREATE TABLE name(text)")
con.execute("INSERT INTO name VALUES (NULL)")
# Both rows are from a time before the constraints, as after a change of the schema by hand.
con.execute("PRAGMA ignore_check_constraints = ON")
con.execute("INSERT INTO price VALUES (-1)")
con.execute("PRAGMA writable_schema = ON")
con.execute("UPDATE sqlite_schema SET sql = 'CREATE TABLE name(text NOT NULL)' WHERE name = 'name'")
con.close()

def said(con, schema="main"):
    return sorted(row[0] for row in con.execute(f"PRAGMA {schema}.integrity_check"))

uri = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READONLY
answers = {"can write": said(apsw.Connection(path))}
con = apsw.Connection(path)
con.execute("PRAGMA query_only = ON")
answers["query_only"] = said(con)
answers["read-only"] = said(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY))
answers["immutable"] = said(apsw.Connection(f"file:{path}?immutable=1", flags=uri))
con = apsw.Connection(":memory:", flags=apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
con.execute("ATTACH ? AS other", (f"file:{path}?mode=ro",))
answers["attached read-only"] = said(con, "other")
print(apsw.sqlite_lib_version())
for how, lines in answers.items():
    print(f"{how}: {lines}")
both = ["CHECK constraint failed in price", "NULL value in name.text"]
assert apsw.sqlite_lib_version() == "3.54.1"
assert answers == {
    "can write": both,
    "query_only": both,
    "read-only": both[1:],
    "immutable": both[1:],
    "attached read-only": both[1:],
}, answers
PROGRAM
# Output of 2026-11-29:
# 3.54.1
# can write: ['CHECK constraint failed in price', 'NULL value in name.text']
# query_only: ['CHECK constraint failed in price', 'NULL value in name.text']
# read-only: ['NULL value in name.text']
# immutable: ['NULL value in name.text']
# attached read-only: ['NULL value in name.text']

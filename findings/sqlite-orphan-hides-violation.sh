#!/bin/bash
# SQLite 3.54.1 (apsw 3.54.1.0 from PyPI): a COMMIT accepts a row without its parent if a row that was
# an orphan before gets its own parent in the same transaction. Whether it does depends on the order
# of the two INSERTs.
#
# Expected: a deferred foreign key is checked at COMMIT, so a transaction that ends with a new
# violation fails, whatever else it wrote and in whatever order.
#
# Seen: SQLite does not look for violations at COMMIT. It keeps one number for all foreign keys of
# the database: each new violation adds one, and a new parent takes one off for each orphan that it
# finds, if the number is not 0. An orphan from a time without `PRAGMA foreign_keys` was never added,
# so the parent takes off the violation of another row. With the parent inserted first, the number is
# still 0, nothing is taken off, and COMMIT fails.
#
# So a program that switches foreign keys on for a database that was written without them must run
# `PRAGMA foreign_key_check` first. Whatever changes the order of rows (a bulk load that sorts them)
# changes which transactions fail.
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/env"
"$dir/env/bin/pip" install --quiet --disable-pip-version-check apsw==3.54.1.0
"$dir/env/bin/python" - <<'PROGRAM'
import apsw

def commit(cities, with_orphan):
    con = apsw.Connection(":memory:")
    con.execute("CREATE TABLE region(id PRIMARY KEY)")
    con.execute("CREATE TABLE city(name UNIQUE, region REFERENCES region(id) DEFERRABLE INITIALLY DEFERRED)")
    con.execute("CREATE TABLE street(name, city REFERENCES city(name) DEFERRABLE INITIALLY DEFERRED)")
    if with_orphan:
        con.execute("INSERT INTO street VALUES ('Main Street', 'Bern')")
    con.execute("PRAGMA foreign_keys = ON")
    con.execute("BEGIN")
    con.executemany("INSERT INTO city VALUES (?, ?)", cities)
    try:
        con.execute("COMMIT")
    except apsw.ConstraintError as error:
        return str(error)
    return f"committed, {con.execute('PRAGMA foreign_key_check').fetchall()}"

child, parent = ("Thun", "a region that is missing"), ("Bern", None)
assert apsw.sqlite_lib_version() == "3.54.1"
seen = {
    "no orphan": commit([child, parent], False),
    "orphan, its parent last": commit([child, parent], True),
    "orphan, its parent first": commit([parent, child], True),
}
for case, result in seen.items():
    print(f"{case}: {result}")
refused = "FOREIGN KEY constraint failed"
assert list(seen.values()) == [refused, "committed, [('city', 1, 'region', 0)]", refused], "the behaviour has changed"
PROGRAM

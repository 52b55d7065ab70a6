"""Compares a database with the ledgers of its writers. Every acknowledged batch must be there once
and as a whole. No batch that was rolled back is there."""

import sqlite3
import time

from .work import I_COLUMN, batch, connect, open_tables

BATCHES = "SELECT writer, batch, count(*), count(DISTINCT i) FROM {} GROUP BY writer, batch"
REJECTS = """SELECT "table", "row"->>'writer', "row"->>'batch', "row"->>'i', error FROM densite_rejects"""


def verify(path, seed, ledgers):
    """Applies waiting rows and compares. Returns the number of acknowledged batches, and of batches
    whose result is unknown."""
    con = connect(path)
    open_tables(con)
    merged = {table: set(con.execute(BATCHES.format(f"{table}_in"))) for table in "ab"}
    apply_all(con)
    for table in "ab":
        final = set(con.execute(BATCHES.format(table)))
        assert final == merged[table], f"{table}: the rows before and after applying differ: {final ^ merged[table]}"
    present = {}
    for table in "abc":
        for writer, n, i in con.execute(f"SELECT writer, batch, i FROM {table}"):
            present.setdefault((writer, n), []).append((table, i))
    for table, writer, n, i, error in con.execute(REJECTS):
        assert table == "c" and i % 17 == 5, f"an unexpected row was rejected: {table} {writer} {n} {i}: {error}"
        present.setdefault((writer, n), []).append((table, i))
    direct = {(w, n): row for w, n, *row in con.execute("SELECT writer, batch, count(*), count(DISTINCT i), max(size) FROM direct GROUP BY 1, 2")}
    last = dict(con.execute("SELECT writer, batch FROM d"))
    few = dict(con.execute("SELECT writer, max(batch) FROM e GROUP BY writer"))
    known = unknown = 0
    for writer, ledger in ledgers.items():
        top = 0
        for (kind, n), what in sorted(ledger.items(), key=lambda item: item[0][1]):
            name = f"batch {n} of writer {writer} ({kind}, {what})"
            if kind == "d":
                rows = direct.pop((writer, n), None)
                is_whole = rows is not None and len(set(rows)) == 1
            else:
                rows = present.pop((writer, n), None)
                wanted = sorted((table, row[I_COLUMN[table]]) for table, row in batch(seed, writer, n))
                is_whole = rows is not None and sorted(rows) == wanted
                top = n if is_whole else top
            assert is_whole or rows is None, f"{name} is there in part or more than once: {rows}"
            assert is_whole or what != "acknowledged", f"{name} is missing"
            assert rows is None or what != "back", f"{name} was rolled back, but is there: {rows}"
            known += what == "acknowledged"
            unknown += what == "begun"
        assert last.get(writer, 0) == few.get(writer, 0) == top, f"writer {writer}: the last batch is {last.get(writer)} in d and {few.get(writer)} in e; expected {top}"
    assert not present and not direct, f"batches that no writer began: {[*present, *direct][:5]}"
    assert con.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    con.close()
    return known, unknown


def apply_all(con):
    """Applies all waiting rows. Work left by a killed process can block this for a moment."""
    until = time.monotonic() + 60
    while True:
        try:
            con.execute("SELECT densite_wait(NULL, 60)").fetchall()
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)

"""Whether a database has what its writers' ledgers say: every acknowledged batch once and as a whole, of what was taken back nothing."""

import sqlite3
import time

from .work import PLACE, batch, connect, open_tables

BATCHES = "SELECT writer, batch, count(*), count(DISTINCT i) FROM {} GROUP BY writer, batch"
REJECTS = """SELECT "table", "row"->>'writer', "row"->>'batch', "row"->>'i', error FROM densite_rejects"""


def verify(path, seed, ledgers):
    """Applies what waits, and compares. Answers how many batches were acknowledged, and of how many that is not known."""
    con = connect(path)
    open_tables(con)
    merged = {table: set(con.execute(BATCHES.format(f"{table}_in"))) for table in "ab"}
    apply_all(con)
    for table in "ab":
        final = set(con.execute(BATCHES.format(table)))
        assert final == merged[table], f"{table}: as it was read and as it was applied differ: {final ^ merged[table]}"
    there = {}
    for table in "abc":
        for writer, n, i in con.execute(f"SELECT writer, batch, i FROM {table}"):
            there.setdefault((writer, n), []).append((table, i))
    for table, writer, n, i, error in con.execute(REJECTS):
        assert table == "c" and i % 17 == 5, f"rejected: {table} {writer} {n} {i}: {error}"
        there.setdefault((writer, n), []).append((table, i))
    direct = {(w, n): row for w, n, *row in con.execute("SELECT writer, batch, count(*), count(DISTINCT i), max(size) FROM direct GROUP BY 1, 2")}
    last = dict(con.execute("SELECT writer, batch FROM d"))
    few = dict(con.execute("SELECT writer, max(batch) FROM e GROUP BY writer"))
    known = unknown = 0
    for writer, ledger in ledgers.items():
        top = 0
        for (kind, n), what in sorted(ledger.items(), key=lambda item: item[0][1]):
            name = f"batch {n} of writer {writer} ({kind}, {what})"
            if kind == "d":
                found = direct.pop((writer, n), None)
                is_whole = found is not None and len(set(found)) == 1
            else:
                found = there.pop((writer, n), None)
                wanted = sorted((table, row[PLACE[table]]) for table, row in batch(seed, writer, n))
                is_whole = found is not None and sorted(found) == wanted
                top = n if is_whole else top
            assert is_whole or found is None, f"{name}: in part or more than once: {found}"
            assert is_whole or what != "acknowledged", f"{name} is not there"
            assert found is None or what != "back", f"{name} is there: {found}"
            known += what == "acknowledged"
            unknown += what == "begun"
        assert last.get(writer, 0) == few.get(writer, 0) == top, f"writer {writer}: d {last.get(writer)}, e {few.get(writer)}, not {top}"
    assert not there and not direct, f"of nobody: {[*there, *direct][:5]}"
    assert con.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    con.close()
    return known, unknown


def apply_all(con):
    """What another process was about to do may be in the way for a moment."""
    until = time.monotonic() + 60
    while True:
        try:
            con.execute("SELECT densite_wait(NULL, 60)").fetchall()
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)

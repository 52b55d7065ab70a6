"""Changes of recorded tables, with the SQLite of the system. Older ones report old values wrongly
(docs/decisions/changes.md): of columns that were added later, and of tables WITHOUT ROWID whose key
does not come first.

    DENSITE_HISTORIES   how many random histories (default 40)
    DENSITE_SEED        the seed of the first one; each has the next number
    LD_PRELOAD          another SQLite, as a shared library
"""

import collections
import json
import os
import random
import sqlite3

import densite
from support import Files

#: The first SQLite whose hook reports every old value as it is.
FAULTLESS = (3, 49, 1)

TYPES = ["", "INT", "INTEGER", "REAL", "DOUBLE", "TEXT", "NUMERIC", "BLOB", "TEXT COLLATE NOCASE"]
#: Constants, as ALTER TABLE allows them.
DEFAULTS = ["7", "-5", "1.5", "3.0", "'a'", "'12'", "x'00ff'", "TRUE", "NULL", "(4)", "9007199254740993", "word", "''"]
VALUES = [None, 0, 1, 2, 3, -4, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 1.0, 2.0, 2.5, -0.5, 1e20, "", "a", "A", "b", "12", "3.0", b"", b"\x00\xff"]



class Changes(Files):
    def connect(self, name="a.db", form="?vfs=densite"):
        densite.attach()
        con = sqlite3.connect(f"file:{self.dir / name}{form}", uri=True, isolation_level=None)
        self.addCleanup(con.close)
        try:
            con.execute("CREATE TABLE probe(a)")
            self.record(con, "probe")
            con.execute("INSERT INTO probe VALUES (1)")
        except sqlite3.OperationalError as error:
            if "no preupdate hook" not in str(error):
                raise
            self.skip(f"{sqlite3.sqlite_version} of this Python has no preupdate hook")
        con.execute("SELECT densite_changes_ack('s', 1)")
        return con

    def record(self, con, table):
        con.execute("SELECT densite_config('changes', ?, 'on')", (table,)).fetchall()
        con.execute("SELECT densite_changes_subscribe('s')").fetchall()

    def changes(self, con):
        """The next changes: the table, key, old and new row as tuples of names and values."""
        rows = con.execute("SELECT seq, \"table\", key, old, new FROM densite_changes('s', 100000)").fetchall()
        if rows:
            con.execute("SELECT densite_changes_ack('s', ?)", (rows[-1][0],)).fetchall()
        return [(table, *(text and tuple(json.loads(text, object_hook=value).items()) for text in texts)) for _, table, *texts in rows]

    def test_defaults_of_columns_that_were_added_later(self):
        con = self.connect()
        con.execute("CREATE TABLE t(k INTEGER PRIMARY KEY, v)")
        con.execute("CREATE TABLE loose(a)")
        con.execute("CREATE TABLE w(a TEXT, b TEXT, PRIMARY KEY (b, a)) WITHOUT ROWID")
        con.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        con.execute("INSERT INTO loose VALUES (1)")
        con.execute("INSERT INTO w VALUES ('x', 'y')")
        for table in ("t", "loose", "w"):
            con.execute(f"ALTER TABLE {table} ADD COLUMN c REAL DEFAULT 7")
            con.execute(f"ALTER TABLE {table} ADD COLUMN d DEFAULT 'd'")
            self.record(con, table)
        con.execute("CREATE UNIQUE INDEX by_v ON t(v, c, d)")
        con.execute("UPDATE t SET v = 'x', c = 1 WHERE k = 1")
        con.execute("REPLACE INTO t VALUES (2, 'n', NULL, NULL)")
        con.execute("DELETE FROM t WHERE k = 2")
        con.execute("UPDATE t SET k = 9 WHERE k = 3")
        con.execute("DELETE FROM loose")
        con.execute("UPDATE w SET c = 2")
        con.execute("DELETE FROM w")
        old = [old and tuple(value for _, value in old) for _, _, old, _ in self.changes(con)]
        expected = [(1, "a", 7.0, "d"), (2, "b", 7.0, "d"), None, (2, "n", None, None), (3, "c", 7.0, "d"), (1, 7.0, "d")]
        self.assertEqual(old, [*expected, ("y", "x", 7.0, "d"), ("y", "x", 2.0, "d")])

    def test_a_table_whose_key_does_not_come_first_is_reported_exactly_or_refused(self):
        con = self.connect()
        con.execute("CREATE TABLE m(temperature REAL, id INTEGER PRIMARY KEY, n INT) WITHOUT ROWID")
        id = 2**53 + 1
        if sqlite3.sqlite_version_info < FAULTLESS:
            with self.assertRaisesRegex(sqlite3.OperationalError, "^m: this SQLite .* reports wrong keys .*; use SQLite 3.49.1 or newer"):
                self.record(con, "m")
            # A newer SQLite has recorded it. An INSERT has no old values.
            for op in ("INSERT", "UPDATE", "DELETE"):
                con.execute(f"CREATE TRIGGER densite_changes_m_{op} AFTER {op} ON m WHEN 0 BEGIN INSERT INTO densite_recorder VALUES (NULL); END")
            con.execute("INSERT INTO m VALUES (21, ?, ?)", (id, id))
            for sql in ("UPDATE m SET n = n + 1", "DELETE FROM m"):
                with self.assertRaisesRegex(sqlite3.OperationalError, "reports wrong keys"):
                    con.execute(sql)
            self.assertEqual(self.rows(con, "SELECT * FROM m"), [(21.0, id, id)])
            return
        self.record(con, "m")
        con.execute("INSERT INTO m VALUES (21, ?, ?)", (id, id))
        con.execute("UPDATE m SET n = n + 1")
        con.execute("DELETE FROM m")
        old = [(key, old) for _, key, old, _ in self.changes(con)]
        row = (("id", id), ("temperature", 21.0))
        self.assertEqual(old, [(row[:1], None), (row[:1], (*row, ("n", id))), (row[:1], (*row, ("n", id + 1)))])

    def test_a_column_that_is_stored_at_the_place_of_a_real_one(self):
        con = self.connect()
        # Stored as id, n, t: the second one is declared REAL.
        con.execute("CREATE TABLE m(n INT, t REAL, id INTEGER PRIMARY KEY) WITHOUT ROWID")
        self.record(con, "m")
        id = 2**53 + 1
        con.execute("INSERT INTO m VALUES (?, 21, ?)", (id, id))
        con.execute("DELETE FROM m")
        old = (("id", id), ("n", id), ("t", 21.0))
        self.assertEqual(self.changes(con)[-1][1:], (old[:1], old, None))

    def test_a_row_is_not_read_from_an_index_that_has_lost_it(self):
        con = self.connect()
        con.execute("CREATE TABLE m(a DEFAULT 5, b, c, PRIMARY KEY (c, b, a)) WITHOUT ROWID")
        con.execute("CREATE INDEX covers ON m(b, a)")
        self.record(con, "m")
        con.execute("INSERT INTO m VALUES (1, 2, 3)")
        con.execute("UPDATE m SET a = b, b = a")
        con.execute("DELETE FROM m")
        old = [old and tuple(value for _, value in old) for _, _, old, _ in self.changes(con)]
        self.assertEqual(old, [None, (3, 2, 1), (3, 1, 2)])

    def test_copies_equal_after_random_histories(self):
        first = int(os.environ.get("DENSITE_SEED") or random.randrange(2**40))
        count = int(os.environ.get("DENSITE_HISTORIES") or 40)
        seen = collections.Counter()
        for seed in range(first, first + count):
            with self.subTest(seed=seed, sqlite=sqlite3.sqlite_version):
                con = self.connect(f"{seed}.db", random.Random(seed).choice(["?vfs=densite", ""]))
                con.execute("PRAGMA synchronous = OFF")
                try:
                    history = History(self, con, random.Random(seed), seen)
                    try:
                        history.run()
                    except sqlite3.OperationalError as error:
                        raise AssertionError(f"{history.sql}: {error}") from error
                finally:
                    con.close()
        print(f"{count} histories from {first} with SQLite {sqlite3.sqlite_version}: {dict(seen)}")
        self.assertGreater(seen["old"], 10 * count)


def value(pairs):
    return bytes.fromhex(pairs["hex"]) if pairs.keys() == {"hex"} else pairs


class History:
    """A random table, random statements, and a copy that is made of the changes alone."""

    def __init__(self, test, con, r, seen):
        self.test, self.con, self.r, self.seen = test, con, r, seen
        self.added = 0

    def run(self):
        r = self.r
        self.create()
        self.insert_some(5)
        if r.random() < 0.5:
            self.alter()
        try:
            self.test.record(self.con, "t")
        except sqlite3.OperationalError as error:
            self.test.assertIn("use SQLite 3.49.1 or newer", str(error))
            self.test.assertLess(sqlite3.sqlite_version_info, FAULTLESS)
            self.seen["refused"] += 1
            return
        self.copy = self.table()
        for _ in range(r.randrange(3, 12)):
            self.transaction()
            if r.random() < 0.5:
                self.follow()
            if r.random() < 0.25:
                self.follow()
                self.alter()
                # A subscriber learns of a new column from the table.
                self.copy = self.table()
        self.follow()
        # SQLite finds a default of another type than its column's: its own affair.
        found = [text for (text,) in self.con.execute("PRAGMA integrity_check") if " value in t." not in text]
        self.test.assertIn(found, ([], ["ok"]))

    def create(self):
        r = self.r
        columns = [f"c{i}" for i in range(r.randrange(2, 6))]
        types = [r.choice(TYPES) for _ in columns]
        parts = [f"{c} {t}" + (f" DEFAULT {r.choice(DEFAULTS)}" if r.random() < 0.2 else "") for c, t in zip(columns, types)]
        kind = r.choice(["no key", "row id", "key", "without", "without", "without"])
        self.seen[kind] += 1
        if kind == "row id":
            place = r.randrange(len(columns))
            parts[place] = f"{columns[place]} INTEGER PRIMARY KEY"
        if kind in ("key", "without"):
            key = r.sample(columns, r.randrange(1, min(3, len(columns)) + 1))
            parts.append(f"PRIMARY KEY ({', '.join(c + r.choice(['', '', ' COLLATE NOCASE', ' DESC']) for c in key)})")
        if r.random() < 0.3:
            parts.append(f"UNIQUE ({r.choice(columns)})")
        if r.random() < 0.2:
            parts.insert(len(columns), f"g AS ({columns[0]}) STORED")
        self.sql = f"CREATE TABLE t({', '.join(parts)}){' WITHOUT ROWID' if kind == 'without' else ''}"
        self.con.execute(self.sql)
        if r.random() < 0.5:
            self.con.execute(f"CREATE INDEX i ON t({', '.join(r.sample(columns, 2))})")

    def columns(self):
        return [row[1] for row in self.con.execute("PRAGMA table_xinfo(t)") if row[6] == 0]

    def alter(self):
        r = self.r
        self.added += 1
        self.seen["altered"] += 1
        default = r.choice([f" DEFAULT {r.choice(DEFAULTS)}", f" NOT NULL DEFAULT {r.choice(DEFAULTS[:7])}", ""])
        self.con.execute(f"ALTER TABLE t ADD COLUMN d{self.added} {r.choice(TYPES)}{default}")

    def insert_some(self, count):
        for _ in range(count):
            self.insert("OR IGNORE")

    def attempt(self, sql, values=()):
        try:
            self.con.execute(sql, values)
        except (sqlite3.IntegrityError, sqlite3.OperationalError) as error:
            reasons = ("constraint", "datatype mismatch", "no such savepoint", "no transaction is active")
            if not any(reason in str(error) for reason in reasons):
                raise

    def insert(self, clause):
        columns = self.columns()
        if self.r.random() < 0.3:
            columns = self.r.sample(columns, self.r.randrange(1, len(columns) + 1))
        values = [self.r.choice(VALUES) for _ in columns]
        self.attempt(f"INSERT {clause} INTO t({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", values)

    def transaction(self):
        r = self.r
        in_transaction = r.random() < 0.6
        if in_transaction:
            self.con.execute("BEGIN")
        for _ in range(r.randrange(1, 10)):
            self.statement()
        if in_transaction and self.con.in_transaction:
            self.con.execute(r.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
        elif self.con.in_transaction:
            self.con.execute("COMMIT")

    def statement(self):
        r = self.r
        columns = self.columns()
        column, other = r.choice(columns), r.choice(columns)
        clause = r.choice(["", "OR REPLACE", "OR IGNORE", "OR FAIL"])
        what = r.randrange(10)
        if what < 4:
            self.insert(clause)
        elif what < 6:
            self.attempt(f"UPDATE {clause} t SET {column} = ? WHERE {other} IS ?", (r.choice(VALUES), r.choice(VALUES)))
        elif what == 6:
            self.attempt(f"UPDATE {clause} t SET {column} = {other}, {other} = {column}" if column != other else f"UPDATE t SET {column} = {column}")
        elif what == 7:
            self.attempt(f"DELETE FROM t WHERE {column} {r.choice(['<', '=', 'IS'])} ?", (r.choice(VALUES),))
        elif what == 8:
            self.attempt(r.choice(["SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"]))
        elif r.random() < 0.2:
            self.attempt("DELETE FROM t")

    def table(self):
        columns = self.columns()
        rows = self.con.execute(f"SELECT {', '.join(columns)} FROM t").fetchall()
        return collections.Counter(self.row(dict(zip(columns, row))) for row in rows)

    def row(self, values):
        """With types, because 1 == 1.0."""
        return tuple(sorted((name, type(value).__name__, value) for name, value in values.items()))

    def follow(self):
        assert_ = self.test.assertTrue
        for table, key, old, new in self.test.changes(self.con):
            if table != "t":
                continue
            if old is not None:
                self.seen["old"] += 1
                old_row = self.row(dict(old))
                assert_(self.copy[old_row] > 0, f"{self.sql}: the copy has no row {old}")
                assert_(set(key) <= set(old), f"{self.sql}: the key {key} of {old}")
                self.copy[old_row] -= 1
            if new is not None:
                self.copy[self.row(dict(new))] += 1
        copy, own = +self.copy, self.table()
        assert_(copy == own, f"{self.sql}: only in the copy {copy - own}, only in the table {own - copy}")

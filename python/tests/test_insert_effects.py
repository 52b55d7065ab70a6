"""densite.insert: conflicts, transactions, progress."""

import array
import datetime
import random
import sqlite3
import sys
import threading
import time
import unittest

import densite
from densite import _columns
from support import Files

RESULT = "CREATE TABLE t(a INTEGER, b INTEGER, val REAL, PRIMARY KEY (a, b)) WITHOUT ROWID"


class Conflicts(Files):
    ROWS = ((1, "first"), (2, "two"), (1, "second"))

    def test_every_conflict_policy_has_sqlite_s_effect(self):
        for how, rows in {"ignore": [(1, "first"), (2, "two")], "replace": [(1, "second"), (2, "two")]}.items():
            con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
            densite.insert(con, "t", self.ROWS, how)
            self.assertEqual(self.rows(con), rows)
        for how in ("abort", "fail", "rollback"):
            con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
            with self.assertRaises(sqlite3.IntegrityError):
                densite.insert(con, "t", self.ROWS, how)
            self.assertEqual(self.rows(con), [])

    def test_ignored_rows_are_not_counted(self):
        con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
        self.assertEqual(densite.insert(con, "t", self.ROWS, "ignore"), 2)

    def test_order_is_kept_if_it_can_change_the_result(self):
        # Two unique keys: the order of rows decides which row replaces which.
        con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE)")
        plain = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE)")
        seed = random.randrange(1 << 30)
        choose = random.Random(seed)
        rows = [(choose.randrange(50), choose.randrange(50)) for _ in range(400)]
        for how in ("replace", "ignore"):
            densite.insert(con, "t", rows, how)
            plain.executemany(f"INSERT OR {how} INTO t VALUES (?, ?)", rows)
            self.assertEqual(self.rows(con), self.rows(plain), f"seed {seed}")

    def test_keys_that_are_equal_only_in_the_table_conflict_as_in_sqlite(self):
        numpy = self.library("numpy")
        seed = random.randrange(1 << 30)
        choose = random.Random(seed)
        values = ["a", "a ", "A", "b", 1, "1", "01", 1.0, "1.0", b"1", 2**53, 2**53 + 1, float(2**53), 0.1 + 0.2, 0.3, "0.3", -1, "-1"]
        keys = ["TEXT", "TEXT COLLATE RTRIM", "TEXT COLLATE NOCASE", "REAL", "NUMERIC", "BLOB", "", "VARCHAR(3) COLLATE own", "ANY"]
        tables = [f"CREATE TABLE t(k {key} PRIMARY KEY, v)" for key in keys] + [
            "CREATE TABLE t(k TEXT, v, UNIQUE(k COLLATE RTRIM))",
            "CREATE TABLE t(k ANY PRIMARY KEY, v ANY) STRICT",
            "CREATE TABLE t(k TEXT PRIMARY KEY, v) WITHOUT ROWID",
        ]

        def result(table, insert):
            con = self.memory()
            con.create_collation("own", lambda a, b: (a[:1] > b[:1]) - (a[:1] < b[:1]))
            con.execute(table)
            insert(con)
            return self.rows(con, "SELECT k, typeof(k), v FROM t ORDER BY v")

        for table in tables:
            for how in ("replace", "ignore"):
                for some in (values, ["a", "a ", "A", "b"], [1, 1.0, 2], ["1", "01", "1.0", "2"], [1, "1", 2]):
                    rows = [(choose.choice(some), v) for v in range(20)]
                    wanted = result(table, lambda con: con.executemany(f"INSERT OR {how} INTO t VALUES (?, ?)", rows))
                    for data in (rows, {"k": numpy.array([k for k, _ in rows], object), "v": numpy.arange(20)}):
                        self.assertEqual(result(table, lambda con: densite.insert(con, "t", data, how)), wanted, f"{table} {how} {rows}, seed {seed}")
        # Integer keys: text and numbers can be equal.
        table = "CREATE TABLE t(k INTEGER PRIMARY KEY, v)"
        rows = [("2", 1), (3, 2), (2, 3), ("02", 4)]
        wanted = result(table, lambda con: con.executemany("INSERT OR REPLACE INTO t VALUES (?, ?)", rows))
        self.assertEqual(result(table, lambda con: densite.insert(con, "t", rows, "replace")), wanted)

    def test_a_null_rowid_becomes_the_next_number_as_in_sqlite(self):
        seed = random.randrange(1 << 30)
        choose = random.Random(seed)
        nothing = (None, float("nan"))
        for number in range(60):
            table = f"CREATE TABLE t(a INTEGER PRIMARY KEY {choose.choice(('', 'AUTOINCREMENT'))}, b)"
            how = choose.choice(("abort", "ignore", "replace"))
            rows = [(choose.choice((*nothing, choose.randrange(1, 12))), n) for n in range(choose.randrange(1, 8))]
            found = []
            for insert in (lambda con: densite.insert(con, "t", rows, how), lambda con: con.executemany(f"INSERT OR {how} INTO t VALUES (?, ?)", rows)):
                con = self.memory(table)
                try:
                    insert(con)
                    con.commit()
                except sqlite3.IntegrityError:
                    con.rollback()
                found.append(self.rows(con))
            self.assertEqual(*found, f"{table} {how} {rows}, seed {seed}")

    def test_a_null_key_becomes_the_default_and_conflicts_as_in_sqlite(self):
        seed = random.randrange(1 << 30)
        choose = random.Random(seed)
        nothing = (None, float("nan"))
        tables = [
            "CREATE TABLE t(a INT NOT NULL DEFAULT 5 PRIMARY KEY, b)",
            "CREATE TABLE t(a INTEGER DEFAULT 5, c DEFAULT 1 NOT NULL, b, PRIMARY KEY (c, a)) WITHOUT ROWID",
            "CREATE TABLE t(c NOT NULL, a REAL NOT NULL DEFAULT (2 + 3), b, UNIQUE (c, a))",
            "CREATE TABLE t(a DEFAULT 5 UNIQUE, b)",
            "CREATE TABLE t(a INT NOT NULL ON CONFLICT REPLACE DEFAULT 5 PRIMARY KEY ON CONFLICT REPLACE, b)",
        ]
        for number in range(100):
            table = choose.choice(tables)
            how = choose.choice(("abort", "ignore", "replace", "replace", "fail"))
            names = [name for name in ("a", "b", "c") if f"{name} " in table or f"{name}," in table or f"{name})" in table]
            of = {"a": lambda n: choose.choice((*nothing, 4, 5, 6)), "b": lambda n: n, "c": lambda n: choose.choice((None, 1, 2) if how == "replace" else (1, 2))}
            rows = [{name: of[name](n) for name in names} for n in range(choose.randrange(1, 8))]
            marks = ", ".join(f":{name}" for name in names)
            found = []
            for insert in (
                lambda con: densite.insert(con, "t", rows, how),
                lambda con: con.executemany(f"INSERT OR {how} INTO t ({', '.join(names)}) VALUES ({marks})", rows),
            ):
                con = self.memory(table)
                try:
                    insert(con)
                    con.commit()
                except sqlite3.IntegrityError:
                    con.rollback()
                found.append(self.rows(con, "SELECT * FROM t ORDER BY b"))
            self.assertEqual(*found, f"{table} {how} {rows}, seed {seed}")

    def test_defer_foreign_keys_applies_to_the_next_insert(self):
        for deferred in (True, False):
            con = self.memory("PRAGMA foreign_keys = ON", "CREATE TABLE p(a INTEGER PRIMARY KEY)", "CREATE TABLE t(a REFERENCES p)")
            con.execute("CREATE TRIGGER late AFTER INSERT ON t WHEN new.a = 2 BEGIN INSERT INTO p VALUES (1), (2); END")
            con.execute("BEGIN")
            con.execute("COMMIT")
            con.execute(f"PRAGMA defer_foreign_keys = {int(deferred)}")
            # The trigger adds the parents, so this insert succeeds with and without deferred keys.
            densite.insert(con, "t", [(1,), (2,)])
            con.execute(f"PRAGMA defer_foreign_keys = {int(deferred)}")
            with self.assertRaisesRegex(sqlite3.IntegrityError, "^FOREIGN KEY constraint failed$" if deferred else "which p does not have as a"):
                densite.insert(con, "t", [(3,)])
            self.assertEqual(self.rows(con), [(1,), (2,)])

    def test_equal_instants_have_equal_text_for_every_source(self):
        numpy, pandas, pa = self.library("numpy"), self.library("pandas"), self.library("pyarrow")
        moments = [datetime.datetime(2024, 2, 29, 12, 30, 0, fraction) for fraction in (0, 1, 20, 300, 4_000, 500_000, 123_456)]
        texts = ["2024-02-29 12:30:00" + end for end in ("", ".000001", ".000020", ".000300", ".004", ".500", ".123456")]
        for unit in ("us", "ns"):
            array = numpy.array(moments, f"datetime64[{unit}]")
            series = pandas.Series(array)
            for data in (
                {"x": array},
                {"x": series},
                {"x": list(array)},
                {"x": list(series)},
                pandas.DataFrame({"x": series}),
                pa.table({"x": pa.array(moments, pa.timestamp(unit))}),
                {"x": moments},
                [(moment,) for moment in moments],
            ):
                con = self.memory("CREATE TABLE t(x)")
                densite.insert(con, "t", data)
                self.assertEqual([text for (text,) in self.rows(con)], texts, f"{unit} {data!r:.60}")
        con = self.memory("CREATE TABLE t(x)")
        zone = datetime.timezone(datetime.timedelta(hours=2))
        densite.insert(con, "t", [(moments[5].replace(tzinfo=zone),), (moments[4].time(),), (datetime.time(1, 2),)])
        self.assertEqual(self.rows(con), [("2024-02-29 10:30:00.500+00:00",), ("12:30:00.004",), ("01:02:00",)])

    def test_values_that_sqlite_cannot_store_are_refused(self):
        con = self.memory("CREATE TABLE t(x)")
        for value in ([1], (1, 2), {"a": 1}, object(), 1j, {1}):
            for data in ([(1,), (value,)], {"x": [1, value]}):
                with self.assertRaisesRegex(sqlite3.DataError, "column x, row 1: a value of type"):
                    densite.insert(con, "t", data)
        self.assertEqual(self.rows(con), [])

    def test_replacing_a_row_deletes_the_same_rows_as_in_sqlite(self):
        con = self.memory("PRAGMA foreign_keys = ON", "CREATE TABLE t(id INTEGER PRIMARY KEY, up REFERENCES t ON DELETE CASCADE)", "INSERT INTO t VALUES (1, NULL)")
        densite.insert(con, "t", [(2, 1), (1, None)], "replace")
        self.assertEqual(self.rows(con), [(1, None)])
        # Also through another table.
        con = self.memory(
            "PRAGMA foreign_keys = ON",
            "CREATE TABLE p(id INTEGER PRIMARY KEY, of REFERENCES t ON DELETE CASCADE)",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, up REFERENCES p ON DELETE CASCADE)",
            "INSERT INTO t VALUES (1, NULL)",
            "INSERT INTO p VALUES (5, 1)",
        )
        densite.insert(con, "t", [(2, 5), (1, None)], "replace")
        self.assertEqual((self.rows(con), self.rows(con, "SELECT * FROM p")), ([(1, None)], []))

    def test_rows_are_inserted_in_the_order_of_the_key(self):
        con = self.memory("CREATE TABLE t(a TEXT COLLATE NOCASE, b, PRIMARY KEY (a, b DESC))")
        seed = random.randrange(1 << 30)
        choose = random.Random(seed)
        values = [None, 3, -1, 2.5, "B", "a", "äö", "AB", b"x", 2**62, -0.0, 1e300]
        rows = list({(str(choose.choice(values)), choose.choice(values)): None for _ in range(2000)})
        choose.shuffle(rows)
        densite.insert(con, "t", rows)
        by_rowid = self.rows(con, "SELECT a, b FROM t ORDER BY rowid")
        self.assertEqual(by_rowid, self.rows(con, "SELECT a, b FROM t ORDER BY a, b DESC, rowid"), f"seed {seed}")

    def test_numbers_are_inserted_in_the_order_of_the_key(self):
        numpy = self.library("numpy")
        seed = random.randrange(1 << 30)
        choose = numpy.random.default_rng(seed)
        n = 20_000
        for a, b in (
            (choose.integers(-50, 50, n), choose.integers(0, 200, n)),
            (choose.integers(-(2**62), 2**62, n), choose.integers(0, 2, n)),
            (choose.integers(0, 5, n), choose.normal(size=n)),
            (numpy.where(choose.random(n) < 0.1, numpy.nan, choose.normal(size=n).round(2)), choose.integers(0, 2**40, n)),
        ):
            con = self.memory("CREATE TABLE t(a, b, n, PRIMARY KEY (a, b, n))")
            densite.insert(con, "t", {"n": numpy.arange(n), "b": b, "a": a})
            by_rowid = self.rows(con, "SELECT a, b, n FROM t ORDER BY rowid")
            self.assertEqual(by_rowid, self.rows(con, "SELECT a, b, n FROM t ORDER BY a, b, n"), f"seed {seed}")


class Transactions(Files):
    def test_insert_uses_the_caller_s_transaction(self):
        con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY)")
        con.execute("INSERT INTO t VALUES (1)")
        self.assertTrue(con.in_transaction)
        densite.insert(con, "t", [(2,), (3,)])
        with self.assertRaises(sqlite3.IntegrityError):
            densite.insert(con, "t", [(4,), (1,)])
        self.assertTrue(con.in_transaction)
        self.assertEqual(self.rows(con), [(1,), (2,), (3,)])
        with self.assertRaises(sqlite3.IntegrityError):
            densite.insert(con, "t", [(4,), (1,)], "rollback")
        self.assertFalse(con.in_transaction)
        self.assertEqual(self.rows(con), [])
        con.execute("INSERT INTO t VALUES (1)")
        densite.insert(con, "t", [(2,)])
        con.rollback()
        self.assertEqual(self.rows(con), [])

    def test_insert_commits_at_every_isolation_level(self):
        for n, level in enumerate(("", None, "IMMEDIATE")):
            path = self.dir / f"{n}.db"
            con = densite.connect(path, isolation_level=level)
            con.execute("CREATE TABLE t(a)")
            con.commit()
            densite.insert(con, "t", [(1,), (2,)])
            self.assertFalse(con.in_transaction)
            other = densite.connect(path)
            self.assertEqual(self.rows(other), [(1,), (2,)])
            other.close()
            con.close()

    def test_insert_respects_the_autocommit_attribute(self):
        if sys.version_info < (3, 12):
            # Older versions only have the isolation level.
            return
        for mode, open_then, stays in ((True, False, [(1,), (2,)]), (False, True, [])):
            path = self.dir / f"{mode}.db"
            con = densite.connect(path, autocommit=mode)
            con.execute("CREATE TABLE t(a PRIMARY KEY)")
            if not mode:
                con.commit()
            self.assertEqual(densite.insert(con, "t", [(1,), (2,)]), 2)
            self.assertEqual(con.in_transaction, open_then)
            with self.assertRaises(sqlite3.IntegrityError):
                densite.insert(con, "t", [(3,), (1,)])
            self.assertEqual((self.rows(con), con.in_transaction), ([(1,), (2,)], open_then))
            con.rollback()
            self.assertEqual(self.rows(con), stays)
            con.close()

    def test_a_locked_database_is_reported(self):
        path = self.dir / "l.db"
        con = densite.connect(path, timeout=0.05)
        con.execute("CREATE TABLE t(a)")
        con.commit()
        other = densite.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with self.assertRaisesRegex(sqlite3.OperationalError, "locked"):
            densite.insert(con, "t", [(1,)])
        other.execute("ROLLBACK")
        self.assertEqual(densite.insert(con, "t", [(1,)]), 1)
        other.close()
        con.close()

    def test_attached_and_temp_tables_are_filled(self):
        con = self.memory("CREATE TEMP TABLE tt(a)", "ATTACH ':memory:' AS \"o'x\"", "CREATE TABLE \"o'x\".\"t \"\"t\"(\"a \"\"b\")")
        densite.insert(con, "tt", [(1,)], schema="temp")
        densite.insert(con, 't "t', {'a "b': [2]}, schema="o'x")
        self.assertEqual(self.rows(con, "SELECT * FROM tt"), [(1,)])
        self.assertEqual(self.rows(con, "SELECT * FROM \"o'x\".\"t \"\"t\""), [(2,)])

    def test_closed_and_foreign_connections_are_refused(self):
        con = densite.connect(":memory:")
        con.close()
        with self.assertRaises(sqlite3.ProgrammingError):
            densite.insert(con, "t", [(1,)])
        with self.assertRaisesRegex(sqlite3.NotSupportedError, "a connection of type builtins.object"):
            densite.insert(object(), "t", [(1,)])

    def test_pysqlite3_works(self):
        driver = self.library("pysqlite3")
        densite.attach(driver)
        con = driver.connect(":memory:")
        con.execute("CREATE TABLE t(a PRIMARY KEY)")
        self.assertEqual(densite.insert(con, "t", [(2,), (1,)]), 2)
        with self.assertRaises(driver.IntegrityError):
            densite.insert(con, "t", [(1,)])
        self.assertEqual(densite.query(con, "SELECT a FROM t JOIN keys USING (a)", keys={"a": [2, 3]}).fetchall(), [(2,)])
        con.close()


class Progress(Files):
    def test_progress_is_called_and_can_stop_the_insert(self):
        con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY)")
        seen = []
        densite.insert(con, "t", [(n,) for n in range(200_000)], progress=seen.append)
        self.assertEqual(seen, [65_536, 131_072, 196_608, 200_000])

        def stop(rows):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            densite.insert(con, "t", [(n,) for n in range(200_000, 400_000)], progress=stop)
        self.assertFalse(con.in_transaction)
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t"), [(200_000,)])

    def test_progress_that_stops_the_insert_keeps_the_caller_s_transaction(self):
        def stop(rows):
            raise LookupError("enough")

        # A table without triggers, and one whose triggers make SQLite read all rows first.
        for more in ((), ("CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",)):
            con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY)", *more)
            con.execute("INSERT INTO t VALUES (-1)")
            for how in ("abort", "ignore", "replace", "rollback"):
                with self.subTest((more, how)):
                    with self.assertRaisesRegex(LookupError, "enough"):
                        densite.insert(con, "t", {"a": array.array("q", range(200_000))}, on_conflict=how, progress=stop)
                    self.assertEqual((self.rows(con), con.in_transaction), ([(-1,)], True))
            con.commit()
            self.assertEqual(self.rows(con), [(-1,)])

    def test_a_source_that_raises_late_inserts_nothing(self):
        def source():
            yield from ((n,) for n in range(_columns.ITERATOR_ROWS + 1))
            raise LookupError("no more")

        for begun in (False, True):
            con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY)")
            if begun:
                con.execute("INSERT INTO t VALUES (-1)")
            with self.assertRaisesRegex(LookupError, "no more"):
                densite.insert(con, "t", source())
            self.assertEqual((self.rows(con), con.in_transaction), ([(-1,)] * begun, begun))
            self.assertEqual(densite.insert(con, "t", [(1,)]), 1)

    def test_ctrl_c_is_passed_on_and_nothing_is_inserted(self):
        con = self.memory("CREATE TABLE t(a)")
        began = threading.Event()
        # At that time no Python code except the callback runs.
        with self.ctrl_c(began, after=0.02):
            densite.insert(con, "t", {"a": array.array("q", range(4_000_000))}, progress=lambda rows: began.set())
        self.assertEqual((self.rows(con), con.in_transaction), ([], False))

    def test_inserts_of_several_threads_are_one_after_the_other(self):
        con = densite.connect(self.dir / "a.db", check_same_thread=False, isolation_level=None)
        self.addCleanup(con.close)
        con.execute("CREATE TABLE t(a INTEGER PRIMARY KEY)")
        con.execute("INSERT INTO t VALUES (0)")
        done, errors = [], []

        def work(thread):
            for turn in range(20):
                first = 1_000_000 * (thread + 1) + 1000 * turn
                # Every second insert fails at its last row.
                rows = [(first + row,) for row in range(500)] + [(0,)] * (turn % 2)
                try:
                    self.assertEqual(densite.insert(con, "t", iter(rows)), 500)
                    done.append(first)
                except sqlite3.IntegrityError:
                    pass
                except Exception as error:
                    errors.append(error)

        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(len(done), 40)
        expected = sorted([0] + [first + row for first in done for row in range(500)])
        self.assertEqual([row for (row,) in con.execute("SELECT a FROM t ORDER BY a")], expected)

    def test_an_iterator_of_rows_can_insert_rows(self):
        con = self.memory("CREATE TABLE t(a)")

        def rows():
            densite.insert(con, "t", [(1,)])
            yield (2,)

        densite.insert(con, "t", rows())
        self.assertEqual(self.rows(con), [(1,), (2,)])

    def test_memory_is_released(self):
        numpy, resource = self.library("numpy"), self.library("resource")
        con = self.memory("CREATE TABLE t(a, b)")
        column = numpy.arange(1_000_000)
        for _ in range(3):
            densite.insert(con, "t", {"a": column, "b": column.astype("datetime64[s]")})
            con.execute("DELETE FROM t")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(6):
            densite.insert(con, "t", {"a": column, "b": column.astype("datetime64[s]")})
            con.execute("DELETE FROM t")
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 60_000, "KiB more after six more inserts")

    def test_sorting_makes_insert_faster_than_executemany(self):
        numpy = self.library("numpy")
        n = 200_000
        order = numpy.random.default_rng(5).permutation(n)
        rows = list(zip((order // 400).tolist(), (order % 400).tolist(), [0.5] * n))
        con = self.memory(RESULT)
        start = time.process_time()
        densite.insert(con, "t", {"a": order // 400, "b": order % 400, "val": numpy.full(n, 0.5)})
        ours = time.process_time() - start
        other = self.memory(RESULT)
        start = time.process_time()
        other.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        self.assertLess(ours * 1.5, time.process_time() - start)
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t"), [(n,)])


if __name__ == "__main__":
    unittest.main()

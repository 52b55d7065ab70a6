"""The texts of exceptions of connections from densite.connect."""

import gc
import sqlite3
import unittest

import densite
import support


class Damaged(support.Files):
    def setUp(self):
        super().setUp()
        self.path = self.dir / "a.db"
        con = densite.connect(self.path)
        con.execute("CREATE TABLE t(a, b)")
        con.executemany("INSERT INTO t VALUES (?, ?)", ((n, f"row {n} {hash(n * n)}") for n in range(20_000)))
        con.commit()
        con.close()
        content = bytearray(self.path.read_bytes())
        for at in range(len(content) // 3, 2 * len(content) // 3, 100):
            content[at] ^= 0xFF
        self.path.write_bytes(content)

    def open(self, **options):
        con = densite.connect(self.path, **options)
        self.addCleanup(con.close)
        return con

    def assert_explained(self, error):
        self.assertRegex(str(error), r"^database disk image is malformed: .*a\.db\b.*\bpage \d+")

    def test_a_damaged_page_is_named_whatever_call_meets_it(self):
        con = self.open()
        con.execute("CREATE TEMP TABLE other(a)")
        con.row_factory = sqlite3.Row
        select = "SELECT sum(a), sum(length(b)) FROM t"
        calls = {
            "Connection.execute": lambda: con.execute(select).fetchall(),
            "fetchone": lambda: con.cursor().execute(select).fetchone(),
            "fetchmany": lambda: con.cursor().execute("SELECT b FROM t").fetchmany(100_000),
            "iteration": lambda: list(con.cursor().execute("SELECT b FROM t")),
            "executemany": lambda: con.executemany("INSERT INTO other SELECT sum(length(b)) FROM t WHERE a >= ?", [(0,)]),
            "executescript": lambda: con.executescript(f"SELECT 1; {select};"),
        }
        for name, call in calls.items():
            with self.subTest(name):
                with self.assertRaises(sqlite3.DatabaseError) as caught:
                    call()
                self.assert_explained(caught.exception)

    def test_iteration_goes_on_after_a_break(self):
        with densite.connect(":memory:") as con:
            cursor = con.execute("VALUES (1), (2), (3)")
            for row in cursor:
                self.assertEqual(row, (1,))
                break
            self.assertEqual(next(cursor), (2,))
            self.assertEqual(list(cursor), [(3,)])
            con.row_factory = lambda cursor, row: None
            self.assertEqual(list(con.execute("VALUES (1), (2)")), [None, None])

    def test_an_exception_keeps_no_cursor(self):
        con = self.open()
        errors = []
        for call in (
            lambda: con.execute("SELECT sum(length(b)) FROM t"),
            lambda: list(con.execute("SELECT b FROM t")),
            lambda: con.cursor().execute("SELECT b FROM t").fetchall(),
        ):
            # Not assertRaises, which clears the frames of the exception.
            try:
                call()
            except sqlite3.DatabaseError as error:
                errors.append(error)
        self.assertEqual(len(errors), 3)
        gc.collect()
        self.assertEqual([o for o in gc.get_objects() if isinstance(o, sqlite3.Cursor)], [])

    def test_a_file_that_ends_early_says_so(self):
        content = self.path.read_bytes()
        self.path.write_bytes(content[: len(content) // 2])
        with self.assertRaises(sqlite3.DatabaseError) as caught:
            self.open().execute("SELECT count(*) FROM t").fetchall()
        self.assertRegex(str(caught.exception), r"a\.db")

    def test_a_factory_of_the_caller_is_used(self):
        class Own(sqlite3.Connection):
            pass

        self.assertIs(type(self.open(factory=Own)), Own)

    def test_a_report_about_another_file_is_not_added(self):
        with self.assertRaises(sqlite3.DatabaseError):
            self.open().execute("SELECT sum(length(b)) FROM t").fetchall()
        other = self.dir / "other.db"
        other.write_bytes(b"no database" * 1000)
        with self.assertRaises(sqlite3.DatabaseError) as caught:
            densite.connect(other).execute("SELECT 1 FROM sqlite_schema")
        self.assertEqual(str(caught.exception), "file is not a database")


if __name__ == "__main__":
    unittest.main()

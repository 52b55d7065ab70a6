"""A connection that is closed is closed, whatever failed on it before: nothing of ours keeps its files open, nor the worker of its log."""

import os
import pathlib
import sqlite3
import unittest
from concurrent.futures import ThreadPoolExecutor

import densite
from support import Files

OPEN = pathlib.Path("/proc/self/fd")


@unittest.skipUnless(OPEN.is_dir(), "the system does not tell which files are open")
class Close(Files):
    def left(self):
        """Names of this test's files that are open."""
        names = []
        for entry in OPEN.iterdir():
            try:
                names.append(os.readlink(entry))
            except FileNotFoundError:
                continue
        return [name for name in names if name.startswith(str(self.dir))]

    def failed(self, make, call):
        """`make` gives what is used from a connection, and `call` fails on that. All of it, and the exception, is there when the connection is closed."""
        con = densite.connect(self.dir / "a.db")
        self.addCleanup(con.close)
        con.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v NOT NULL)")
        con.commit()
        used = make(con)
        try:
            call(used)
        except con.Error as error:
            kept = error
        else:
            self.fail("it did not fail")
        self.assertNotEqual(self.left(), [])
        con.close()
        self.assertEqual(self.left(), [], kept)
        del used

    def test_after_ingest_failed(self):
        def ingest(con):
            return densite.ingest(con, "t")

        self.failed(ingest, lambda log: log.wait(10**9))
        self.failed(ingest, lambda log: log.append([(1, None)]))
        self.failed(lambda con: con, lambda con: densite.ingest(con, "missing"))

        def without_rejects(con):
            log = densite.ingest(con, "t")
            con.execute("DROP TABLE densite_rejects")
            return log

        self.failed(without_rejects, lambda log: log.rejects())

    def test_after_a_subscriber_failed(self):
        self.failed(lambda con: densite.subscribe(con, "one"), lambda sub: sub.ack(10**9))

        def gone(con):
            sub = densite.subscribe(con, "two")
            con.execute("SELECT densite_unsubscribe('two')").fetchall()
            return sub

        self.failed(gone, lambda sub: sub.next(timeout=0))

    def test_after_insert_and_query_failed(self):
        def same(con):
            return con

        self.failed(same, lambda con: densite.insert(con, "missing", [(1, 2)]))
        self.failed(same, lambda con: densite.insert(con, "t", [(1, None)]))
        self.failed(same, lambda con: densite.query(con, "SELECT x FROM t"))

    #: Fails at the first row, or at the third.
    FIRST = "SELECT abs(-9223372036854775808) FROM t"
    THIRD = "SELECT abs(CASE id WHEN 3 THEN -9223372036854775808 ELSE id END) FROM t"

    def query(self, sql, **given):
        def made(con):
            con.executemany("REPLACE INTO t VALUES (?, 0)", [(i,) for i in range(1, 6)])
            con.commit()
            return densite.query(con, sql, **given)

        return made

    def test_after_reading_a_result_failed(self):
        def one_by_one(result):
            while result.fetchone():
                pass

        def some(result):
            while result.fetchmany(2):
                pass

        for sql in self.FIRST, self.THIRD:
            for read in list, one_by_one, some, lambda result: result.fetchall():
                self.failed(self.query(sql), read)
            self.failed(self.query(f"{sql} JOIN keys USING (id)", keys=[(i,) for i in range(1, 6)], columns=["id"]), list)
            try:
                import numpy  # noqa: F401, PLC0415
            except ImportError:
                continue
            self.failed(self.query(sql), lambda result: result.to_numpy())
            self.failed(lambda con: (con, self.query(sql)(con)), lambda both: densite.insert(both[0], "t", both[1]))

    def test_a_result_that_failed_is_over(self):
        con = densite.connect(self.dir / "a.db")
        self.addCleanup(con.close)
        con.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v NOT NULL)")
        result = self.query(self.THIRD)(con)
        with self.assertRaisesRegex(con.Error, "overflow"):
            result.fetchall()
        with self.assertRaisesRegex(con.ProgrammingError, "run the query again"):
            result.fetchone()
        # Nor does it hold a transaction.
        con.execute("PRAGMA journal_mode = DELETE")
        con.execute("DROP TABLE t")

    def test_a_thread_that_may_not_read_ends_nothing(self):
        con = densite.connect(self.dir / "a.db")
        self.addCleanup(con.close)
        con.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v NOT NULL)")
        result = self.query("SELECT id FROM t")(con)
        self.assertEqual(result.fetchone(), (1,))
        with ThreadPoolExecutor() as other, self.assertRaisesRegex(con.ProgrammingError, "thread"):
            other.submit(result.fetchone).result()
        self.assertEqual(result.fetchall(), [(2,), (3,), (4,), (5,)])

    def test_after_a_result_was_read(self):
        def whole(result):
            self.assertEqual(len(list(result)), 5)
            self.assertIsNone(result.fetchone())

        def one_by_one(result):
            self.assertEqual(len([row for row in iter(result.fetchone, None)]), 5)

        def some(result):
            self.assertEqual([len(rows) for rows in iter(lambda: result.fetchmany(2), [])], [2, 2, 1])

        def all_of_it(result):
            self.assertEqual(len(result.fetchall()), 5)
            self.assertEqual(result.fetchall(), [])

        for read in whole, one_by_one, some, all_of_it:
            con = densite.connect(self.dir / "a.db")
            con.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v NOT NULL)")
            result = self.query("SELECT * FROM t JOIN keys USING (id)", keys=[(i,) for i in range(1, 6)], columns=["id"])(con)
            read(result)
            con.close()
            self.assertEqual(self.left(), [], read)
            del result

    def test_after_a_fetch_from_a_closed_connection_failed(self):
        for read in "fetchall", "fetchone", "__iter__":
            con = densite.connect(self.dir / "a.db")
            con.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v NOT NULL)")
            result = self.query("SELECT id FROM t")(con)
            con.close()
            with self.assertRaises(con.ProgrammingError):
                getattr(result, read)()
            self.assertEqual(self.left(), [], read)

    def test_after_a_result_outlived_its_connection(self):
        def closed(result):
            with self.assertRaises(sqlite3.ProgrammingError):
                result.close()

        for end in closed, lambda result: None:
            con = densite.connect(self.dir / "a.db")
            con.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v NOT NULL)")
            result = self.query("SELECT id FROM t JOIN keys USING (id)", keys=[(i,) for i in range(1, 6)], columns=["id"])(con)
            self.assertEqual(result.fetchone(), (1,))
            con.close()
            end(result)
            del result
            self.assertEqual(self.left(), [])

    def test_after_a_loop_was_left(self):
        con = densite.connect(self.dir / "a.db")
        self.addCleanup(con.close)
        con.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v NOT NULL)")
        result = self.query("SELECT id FROM t")(con)
        for (first,) in result:
            break
        self.assertEqual(first, 1)
        with self.assertRaisesRegex(con.ProgrammingError, "run the query again"):
            next(iter(result))
        con.close()
        self.assertEqual(self.left(), [])


if __name__ == "__main__":
    unittest.main()

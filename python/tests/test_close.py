"""Closing a connection closes its files and stops the worker of its log, after any earlier failure
on it."""

import os
import pathlib
import sqlite3
import subprocess
import sys
import textwrap
import unittest
from concurrent.futures import ThreadPoolExecutor

import densite
from support import Files

OPEN_FILES = pathlib.Path("/proc/self/fd")


@unittest.skipUnless(OPEN_FILES.is_dir(), "the system has no /proc/self/fd")
class Close(Files):
    def open_files(self):
        """The names of this test's files that are open."""
        names = []
        for entry in OPEN_FILES.iterdir():
            try:
                names.append(os.readlink(entry))
            except FileNotFoundError:
                continue
        return [name for name in names if name.startswith(str(self.dir))]

    def failed(self, make, call):
        """Makes an object from a connection with `make`, and calls `call` on it, which must fail.
        The object and the exception still exist when the connection is closed."""
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
            self.fail("the call did not fail")
        self.assertNotEqual(self.open_files(), [])
        con.close()
        self.assertEqual(self.open_files(), [], kept)
        del used

    def test_files_are_closed_after_ingest_failed(self):
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

    def test_files_are_closed_after_a_subscriber_failed(self):
        self.failed(lambda con: densite.subscribe(con, "one"), lambda sub: sub.ack(10**9))

        def gone(con):
            sub = densite.subscribe(con, "two")
            con.execute("SELECT densite_unsubscribe('two')").fetchall()
            return sub

        self.failed(gone, lambda sub: sub.next(timeout=0))

    def test_files_are_closed_after_insert_or_query_failed(self):
        def same(con):
            return con

        self.failed(same, lambda con: densite.insert(con, "missing", [(1, 2)]))
        self.failed(same, lambda con: densite.insert(con, "t", [(1, None)]))
        self.failed(same, lambda con: densite.query(con, "SELECT x FROM t"))

    #: FIRST fails at the first row, THIRD at the third.
    FIRST = "SELECT abs(-9223372036854775808) FROM t"
    THIRD = "SELECT abs(CASE id WHEN 3 THEN -9223372036854775808 ELSE id END) FROM t"

    def query(self, sql, **given):
        def made(con):
            con.executemany("REPLACE INTO t VALUES (?, 0)", [(i,) for i in range(1, 6)])
            con.commit()
            return densite.query(con, sql, **given)

        return made

    def test_files_are_closed_after_reading_a_result_failed(self):
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

    def test_a_failed_result_cannot_be_read_again(self):
        con = densite.connect(self.dir / "a.db")
        self.addCleanup(con.close)
        con.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v NOT NULL)")
        result = self.query(self.THIRD)(con)
        with self.assertRaisesRegex(con.Error, "overflow"):
            result.fetchall()
        with self.assertRaisesRegex(con.ProgrammingError, "run the query again"):
            result.fetchone()
        # The result holds no transaction either.
        con.execute("PRAGMA journal_mode = DELETE")
        con.execute("DROP TABLE t")

    def test_a_refused_read_of_another_thread_does_not_end_the_result(self):
        con = densite.connect(self.dir / "a.db")
        self.addCleanup(con.close)
        con.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v NOT NULL)")
        result = self.query("SELECT id FROM t")(con)
        self.assertEqual(result.fetchone(), (1,))
        with ThreadPoolExecutor() as other, self.assertRaisesRegex(con.ProgrammingError, "thread"):
            other.submit(result.fetchone).result()
        self.assertEqual(result.fetchall(), [(2,), (3,), (4,), (5,)])

    def test_files_are_closed_after_a_result_was_read(self):
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
            self.assertEqual(self.open_files(), [], read)
            del result

    def test_files_are_closed_after_a_fetch_from_a_closed_connection_failed(self):
        for read in "fetchall", "fetchone", "__iter__":
            con = densite.connect(self.dir / "a.db")
            con.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v NOT NULL)")
            result = self.query("SELECT id FROM t")(con)
            con.close()
            with self.assertRaises(con.ProgrammingError):
                getattr(result, read)()
            self.assertEqual(self.open_files(), [], read)

    def test_files_are_closed_after_a_result_outlived_its_connection(self):
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
            self.assertEqual(self.open_files(), [])

    def test_files_are_closed_after_a_loop_was_left(self):
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
        self.assertEqual(self.open_files(), [])


class CloseMeanwhile(Files):
    """Closes connections while the library runs a statement. Each test runs a separate process,
    because a failure would be a crash of the interpreter."""

    BEGIN = """
        import array, faulthandler, gc, os, sys, threading
        import densite
        faulthandler.enable()
        con = densite.connect(sys.argv[1], check_same_thread=False)
        con.execute("CREATE TABLE t(a INTEGER PRIMARY KEY)")
        con.commit()
        data = {"a": array.array("q", range(300_000))}

        def links():
            return [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.lexists(entry.path)] if os.path.isdir("/proc/self/fd") else []
    """

    def run_program(self, code):
        """Runs a program. Returns the lines that it prints and the number of rows in its table."""
        path = self.dir / f"{len(list(self.dir.iterdir()))}.db"
        program = textwrap.dedent(self.BEGIN) + textwrap.dedent(code)
        done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, f"{done.stdout}{done.stderr}")
        con = densite.connect(path)
        found = self.rows(con, "SELECT count(*) FROM t")[0][0]
        con.close()
        return done.stdout.splitlines(), found

    def test_progress_that_closes_the_connection_ends_the_insert(self):
        # With and without a transaction of the caller, with triggers, and with objects that the
        # interpreter frees when the connection is closed.
        for before in (
            "",
            "con.execute('INSERT INTO t VALUES (-1)')",
            "con.execute('CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END')",
            "con.set_progress_handler(lambda: 0, 10)",
            "con.set_trace_callback(lambda sql: None)",
        ):
            with self.subTest(before):
                said, found = self.run_program(
                    f"""
                    {before}
                    def close(rows):
                        con.close()
                        gc.collect()
                    try:
                        densite.insert(con, "t", data, progress=close)
                    except con.ProgrammingError as error:
                        print(error)
                    try:
                        con.execute("SELECT 1")
                    except con.ProgrammingError as error:
                        print("closed")
                    print([link for link in links() if link.startswith(sys.argv[1])])
                    """
                )
                self.assertEqual((said, found), (["progress closed the connection; nothing was inserted", "closed", "[]"], 0))

    def test_an_exception_of_progress_after_closing_the_connection_is_passed_on(self):
        said, found = self.run_program(
            """
            def close(rows):
                con.close()
                raise LookupError("enough")
            try:
                densite.insert(con, "t", data, progress=close)
            except LookupError as error:
                print(error)
            """
        )
        self.assertEqual((said, found), (["enough"], 0))

    def test_rows_that_close_the_connection_insert_nothing(self):
        said, found = self.run_program(
            """
            def rows():
                yield (1,)
                con.close()
                yield (2,)
            for source in rows(), []:
                try:
                    densite.insert(con, "t", source)
                except con.ProgrammingError as error:
                    print(error)
            """
        )
        self.assertEqual((said, found), (["Cannot operate on a closed database."] * 2, 0))

    def test_another_thread_that_closes_the_connection_ends_the_insert(self):
        said, found = self.run_program(
            """
            began, closed = threading.Event(), threading.Event()
            def close():
                began.wait()
                con.close()
                closed.set()
            thread = threading.Thread(target=close, daemon=True)
            thread.start()
            def tell(rows):
                began.set()
                closed.wait(0.2)
            try:
                densite.insert(con, "t", data, progress=tell)
            except con.ProgrammingError as error:
                print(error)
            thread.join(10)
            """
        )
        self.assertEqual((said, found), (["progress closed the connection; nothing was inserted"], 0))

    def test_ingest_of_rows_that_close_the_connection_appends_nothing(self):
        said, found = self.run_program(
            """
            log = densite.ingest(con, "t")
            def rows():
                yield from ((n,) for n in range(1000))
                con.close()
            try:
                log.append(rows())
            except con.ProgrammingError as error:
                print(error)
            """
        )
        self.assertEqual((said, found), (["Cannot operate on a closed database."], 0))

    def test_a_stream_outlives_the_connection_s_callbacks(self):
        self.library("pyarrow")
        for handler in "con.set_progress_handler(lambda: 0, 10)", "con.set_trace_callback(lambda sql: None)":
            with self.subTest(handler):
                said, found = self.run_program(
                    f"""
                    import pyarrow
                    densite.insert(con, "t", data)
                    {handler}
                    reader = pyarrow.RecordBatchReader.from_stream(densite.query(con, "SELECT a + 1 FROM t"))
                    first = reader.read_next_batch()
                    con.close()
                    del con
                    gc.collect()
                    kept = [[object()] for _ in range(100_000)]
                    print(len(first) + sum(map(len, reader)))
                    """
                )
                self.assertEqual((said, found), (["300000"], 300_000))


if __name__ == "__main__":
    unittest.main()

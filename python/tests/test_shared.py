"""Connections that threads share."""

import array
import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
import unittest

import densite
from support import Files


class Shared(Files):
    ROWS = 200_000

    def shared(self, *statements):
        con = densite.connect(":memory:", check_same_thread=False, isolation_level=None)
        self.addCleanup(con.close)
        for statement in statements:
            con.execute(statement)
        # A second thread: with only one thread, the package treats no connection as shared.
        ended = threading.Event()
        thread = threading.Thread(target=ended.wait)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(ended.set)
        return con

    def test_two_threads_on_one_connection_do_not_deadlock(self):
        # A thread that binds a value holds the interpreter's lock and waits for the connection. A
        # callback within the insert would hold the connection and wait for that lock. The test runs
        # a separate process, which can be killed.
        code = """
import array, sys, threading, time, densite
con = densite.connect(":memory:", check_same_thread=False, isolation_level=None)
con.execute("CREATE TABLE t(a INTEGER PRIMARY KEY)")
end = time.monotonic() + 3
inserts = reads = 0
def read():
    global reads
    while time.monotonic() < end:
        con.execute("SELECT 1 FROM t WHERE a = ?", (-1,)).fetchall()
        reads += 1
thread = threading.Thread(target=read)
thread.start()
while time.monotonic() < end:
    first = inserts * 100_000
    densite.insert(con, "t", {"a": array.array("q", range(first, first + 100_000))}, progress=(lambda rows: None) if inserts % 2 else None)
    inserts += 1
thread.join()
print(inserts > 1, reads > 100)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "True True\n", done.stderr)

    def test_progress_is_called_on_the_caller_s_thread_and_can_stop_the_insert(self):
        con = self.shared("CREATE TABLE t(a INTEGER PRIMARY KEY)")
        here, seen = threading.current_thread(), []

        def tell(rows):
            self.assertIs(threading.current_thread(), here)
            seen.append(rows)

        self.assertEqual(densite.insert(con, "t", {"a": array.array("q", range(self.ROWS))}, progress=tell), self.ROWS)
        self.assertEqual((seen, seen[-1]), (sorted(set(seen)), self.ROWS))

        def stop(rows):
            raise LookupError("enough")

        with self.assertRaisesRegex(LookupError, "enough"):
            densite.insert(con, "t", {"a": array.array("q", range(self.ROWS, 20 * self.ROWS))}, progress=stop)
        self.assertFalse(con.in_transaction)
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t"), [(self.ROWS,)])

    def test_ctrl_c_is_passed_on_and_nothing_is_inserted(self):
        con = self.shared("CREATE TABLE t(a)")
        began = threading.Event()
        with self.ctrl_c(began, after=0.02):
            densite.insert(con, "t", {"a": array.array("q", range(4_000_000))}, progress=lambda rows: began.set())
        self.assertEqual((self.rows(con), con.in_transaction), ([], False))

    def test_a_refused_row_is_named(self):
        con = self.shared("CREATE TABLE t(a INTEGER PRIMARY KEY, b CHECK (b < 10))")
        with self.assertRaisesRegex(sqlite3.IntegrityError, "row 1: CHECK constraint failed: b < 10"):
            densite.insert(con, "t", [(1, 2), (3, 40)])
        with self.assertRaisesRegex(sqlite3.IntegrityError, "row 1: UNIQUE constraint failed: t.a; a is 1"):
            densite.insert(con, "t", [(1, 2), (1, 4)])
        self.assertEqual((self.rows(con), con.in_transaction), ([], False))

    def test_insert_and_query_work_in_asyncio(self):
        con = densite.connect(":memory:", check_same_thread=False)
        self.addCleanup(con.close)
        con.execute("CREATE TABLE t(a)")

        async def both():
            inserted = await asyncio.to_thread(densite.insert, con, "t", [(n,) for n in range(1000)])
            return inserted, await asyncio.to_thread(lambda: densite.query(con, "SELECT sum(a) FROM t").fetchall())

        self.assertEqual(asyncio.run(both()), (1000, [(499_500,)]))

    def test_ingest_works_while_another_thread_reads(self):
        con = densite.connect(self.dir / "a.db", check_same_thread=False)
        self.addCleanup(con.close)
        con.execute("CREATE TABLE t(a INTEGER PRIMARY KEY)")
        log, end = densite.ingest(con, "t"), time.monotonic() + 1

        def read():
            while time.monotonic() < end:
                con.execute("SELECT 1 FROM t WHERE a = ?", (-1,)).fetchall()

        thread = threading.Thread(target=read)
        thread.start()
        appended = 0
        while time.monotonic() < end:
            appended = log.append({"a": array.array("q", range(appended, appended + 10_000))})
        thread.join()
        log.wait()
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t"), [(appended,)])


if __name__ == "__main__":
    unittest.main()

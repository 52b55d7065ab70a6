"""densite.replicate: a program ships its database to a directory."""

import os
import sqlite3
import threading
import time
import unittest
import warnings

import densite
from support import Files


class Replicate(Files):
    def setUp(self):
        super().setUp()
        self.replica = self.dir / "replica"
        self.con = self.opened()
        self.con.execute("PRAGMA journal_mode = WAL")
        self.con.execute("CREATE TABLE t(a)")

    def opened(self, **kwargs):
        con = densite.connect(self.dir / "a.db", **kwargs)
        self.addCleanup(con.close)
        return con

    def add(self, con=None):
        con = con or self.con
        con.execute("INSERT INTO t VALUES (1)")
        con.commit()

    def test_what_was_committed_is_in_the_replica_after_a_wait(self):
        self.assertIsNone(densite.replica_status(self.con))
        began = densite.replicate(self.con, self.replica, interval=60)
        self.assertEqual((began["role"], began["shipping"], began["replica"]), ("shipper", True, str(self.replica)))
        self.assertIs(densite.replicate_wait(self.con, 60), True)
        points = []
        for _ in range(3):
            self.add()
            self.assertIs(densite.replicate_wait(self.con, 60), True)
            status = densite.replica_status(self.con)
            points.append(status["restore_point"])
            self.assertIsNone(status["error"])
            self.assertLess(status["lag_seconds"], 30)
        # Each wait sent a restore point at once, and not after an interval.
        self.assertEqual(points, [points[0], points[0] + 1, points[0] + 2])
        # The same URL changes nothing; other row factories and text factories do not matter.
        other = self.opened()
        other.row_factory = sqlite3.Row
        other.text_factory = bytes
        self.assertEqual(densite.replicate(other, str(self.replica))["restore_point"], points[-1])
        with self.assertRaisesRegex(sqlite3.OperationalError, "already; stop that first"):
            densite.replicate(other, self.dir / "another")
        self.add()
        stopped = densite.replicate(other, None)
        self.assertEqual((stopped["shipping"], stopped["restore_point"]), (False, points[-1] + 1))
        with self.assertRaisesRegex(sqlite3.OperationalError, "nothing ships"):
            densite.replicate_wait(self.con, 1)

    def test_the_last_close_sends_what_is_new(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.dir)
        densite.replicate(self.con, "replica", interval=60)
        # A directory is the one that it was at the call.
        os.chdir(before)
        self.assertTrue(densite.replicate_wait(self.con, 60))
        before = set(self.replica.iterdir())
        self.add()
        self.con.close()
        self.assertEqual(len(set(self.replica.iterdir()) - before), 1)

    def test_the_guide_is_right(self):
        module = self.guide("python.md", "Replicas")
        self.assertEqual(module.output, module.says)

    def test_wrong_calls_are_refused(self):
        with self.assertRaisesRegex(sqlite3.OperationalError, "nothing ships"):
            densite.replicate_wait(self.con, 1)
        self.assertIsNone(densite.replicate(self.con, None))
        for options, says in (({"interval": 0}, "interval=0: use"), ({"retain": 0.5}, "retain"), ({"base_every": "x"}, "base_every")):
            with self.assertRaisesRegex(sqlite3.OperationalError, says):
                densite.replicate(self.con, self.replica, **options)
        with self.assertRaisesRegex(sqlite3.OperationalError, "in memory"):
            densite.replicate(self.memory(), self.replica)
        self.assertFalse(self.replica.exists())
        densite.replicate(self.con, self.replica)
        self.con.execute("INSERT INTO t VALUES (1)")
        with self.assertRaisesRegex(sqlite3.OperationalError, "has a transaction open") as error:
            densite.replicate_wait(self.con, 60)
        self.assertEqual(error.exception.code, 3)
        self.con.commit()
        for seconds in (-1, float("nan")):
            with self.assertRaisesRegex(sqlite3.ProgrammingError, "seconds="):
                densite.replicate_wait(self.con, seconds)

    def held_back(self):
        """A connection that two threads use, whose waits do not end before the timeout."""
        con = self.opened(check_same_thread=False)
        densite.replicate(con, self.replica, interval=0.1)
        self.assertTrue(densite.replicate_wait(con, 60))
        reader = self.opened()
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM t").fetchall()
        for _ in range(2):
            self.add(con)
        return con, reader

    def test_a_wait_leaves_the_interpreter_and_its_connection_to_other_threads(self):
        con, reader = self.held_back()
        waited = []
        thread = threading.Thread(target=lambda: waited.append(densite.replicate_wait(con, 12)))
        thread.start()
        slowest = turns = 0
        while thread.is_alive():
            begun = time.monotonic()
            con.execute("SELECT count(*) FROM t").fetchall()
            slowest = max(slowest, time.monotonic() - begun)
            turns += 1
            time.sleep(0.01)
        thread.join()
        self.assertEqual(waited, [False])
        # The wait does not keep the connection for all of its time, also on a busy machine.
        self.assertLess(slowest, 6)
        self.assertGreater(turns, 3)
        self.assertTrue(densite.replica_status(con)["held_back"])
        reader.rollback()
        self.assertTrue(densite.replicate_wait(con, 60))

    def test_ctrl_c_ends_a_wait(self):
        con, _ = self.held_back()
        began = threading.Event()
        start = time.monotonic()
        with self.ctrl_c(began, 0.3):
            began.set()
            densite.replicate_wait(con, 60)
        self.assertLess(time.monotonic() - start, 20)

    def test_a_forked_child_ships_nothing_and_its_parent_goes_on(self):
        densite.replicate(self.con, self.replica, interval=0.1)
        self.assertTrue(densite.replicate_wait(self.con, 60))
        for _ in range(10):
            self.add()
            with warnings.catch_warnings():
                # Python warns of threads, and the child has none of ours.
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                code = 1
                try:
                    own = densite.connect(self.dir / "a.db", timeout=60)
                    if densite.replica_status(own) is None:
                        self.add(own)
                        own.close()
                        code = 0
                finally:
                    os._exit(code)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertTrue(densite.replicate_wait(self.con, 60))
        self.assertEqual(self.rows(self.con, "SELECT count(*) FROM t"), [(20,)])
        self.assertIsNone(densite.replica_status(self.con)["error"])

    def test_a_child_that_lives_does_not_keep_the_replica(self):
        densite.replicate(self.con, self.replica, interval=0.1)
        self.assertTrue(densite.replicate_wait(self.con, 60))
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        os.close(read)
        try:
            densite.replicate(self.con, None)
            densite.replicate(self.con, self.replica)
            self.assertTrue(densite.replicate_wait(self.con, 60))
        finally:
            os.close(write)
            os.waitpid(child, 0)


if __name__ == "__main__":
    unittest.main()

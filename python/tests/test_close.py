"""A connection that is closed is closed, whatever failed on it before: nothing of ours keeps its files open, nor the worker of its log."""

import os
import pathlib
import unittest

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


if __name__ == "__main__":
    unittest.main()

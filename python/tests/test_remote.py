"""Databases that a web server has: nginx on a free loopback port."""

import os
import sqlite3
import unittest
import warnings

import densite
import support
import web

class Remote(support.Files):
    def setUp(self):
        super().setUp()
        self.root = self.dir / "www"
        self.root.mkdir()
        site = web.serve(self, self.root)
        con = densite.connect(self.root / "app.db")
        con.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
        con.executemany("INSERT INTO t VALUES (?, ?)", ((n, f"row {n}") for n in range(20_000)))
        con.commit()
        con.close()
        self.url = f"{site}/app.db"

    def test_a_url_is_read(self):
        con = densite.connect(self.url, decoded_cache=8)
        self.addCleanup(con.close)
        self.assertEqual(con.execute("SELECT count(*), max(b) FROM t").fetchone(), (20_000, "row 9999"))
        figures = dict(con.execute("SELECT * FROM densite_info"))
        self.assertGreater(figures["remote_requests"], 1)
        self.assertGreater(figures["remote_bytes"], 0)
        with self.assertRaisesRegex(sqlite3.OperationalError, "readonly"):
            con.execute("DELETE FROM t")

    def test_a_published_copy_is_read_and_replaced(self):
        published = self.root / "published.db"
        url = self.url.replace("app.db", "published.db")
        for rows in (20_000, 20_001):
            report = densite.publish(self.root / "app.db", published)
            self.assertEqual((report["verb"], report["in_place"]), ("publish", False))
            info = densite.info(url)
            self.assertEqual((info["path"], info["form"]), (url, "compressed"))
            self.assertGreater(info["remote"]["remote_requests"], 0)
            self.assertTrue(densite.check(url)["ok"])
            con = densite.connect(url)
            self.assertEqual(con.execute("SELECT count(*) FROM t").fetchone(), (rows,))
            con.close()
            con = densite.connect(self.root / "app.db")
            con.execute("INSERT INTO t(b) VALUES ('one more')")
            con.commit()
            con.close()
        densite.decompress(url, self.dir / "plain.db")
        self.assertIsNone(densite.info(self.dir / "plain.db")["remote"])
        with self.assertRaisesRegex(sqlite3.ProgrammingError, "can only be read"):
            densite.vacuum(url)

    def test_a_missing_file_is_told_with_its_url(self):
        with self.assertRaises(sqlite3.OperationalError) as error:
            densite.connect(self.url + "x").execute("SELECT 1 FROM sqlite_schema")
        self.assertIn(f"{self.url}x: ", str(error.exception))
        self.assertIn("404", str(error.exception))

    def test_a_forked_child_opens_its_own_connection(self):
        con = densite.connect(self.url)
        self.addCleanup(con.close)
        con.execute("SELECT b FROM t WHERE a = 1").fetchone()
        with warnings.catch_warnings():
            # Python warns of threads, and the child has none of ours.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                own = densite.connect(self.url)
                rows = own.execute("SELECT count(*) FROM t").fetchone()
                os._exit(0 if rows == (20_000,) else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(con.execute("SELECT count(*) FROM t").fetchone(), (20_000,))


if __name__ == "__main__":
    unittest.main()

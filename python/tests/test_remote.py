"""Databases that a web server has: nginx on a free loopback port."""

import os
import shutil
import socket
import sqlite3
import subprocess
import time
import unittest
import warnings

import densite
import support

CONFIGURATION = """daemon off;
master_process off;
pid nginx.pid;
events {{}}
http {{
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ root {root}; }} }}
}}
"""


class Remote(support.Files):
    def setUp(self):
        super().setUp()
        program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        if program is None:
            self.skip("nginx is not installed: remote databases are not tested")
        own = self.dir / "nginx"
        own.mkdir()
        self.root = self.dir / "www"
        self.root.mkdir()
        for _ in range(5):
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
            (own / "nginx.conf").write_text(CONFIGURATION.format(port=self.port, root=self.root))
            server = subprocess.Popen([program, "-p", own, "-c", "nginx.conf", "-e", "error.log"], stderr=subprocess.DEVNULL)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            if self.listens(server):
                break
        else:
            self.fail((own / "error.log").read_text())
        con = densite.connect(self.root / "app.db")
        con.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
        con.executemany("INSERT INTO t VALUES (?, ?)", ((n, f"row {n}") for n in range(20_000)))
        con.commit()
        con.close()
        self.url = f"http://127.0.0.1:{self.port}/app.db"

    def listens(self, server):
        for _ in range(2000):
            if server.poll() is not None:
                return False
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return True
            except OSError:
                time.sleep(0.01)
        return False

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

"""densite.join and its companions, with a stream on a server of NATS."""

import os
import pathlib
import sqlite3
import time
import unittest

import densite
from nats_server import NatsServer
from support import Files

#: A file of credentials, which a server without accounts does not ask for.
CREDENTIALS = """-----BEGIN NATS USER JWT-----
x.y.z
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
SUAIO3FHUX5PNV2LQIIP7TZ3N4L7TX3W53MQGEIVYFIGA635OZCKEYHFLM
------END USER NKEY SEED------
"""


class Members(Files):
    def setUp(self):
        super().setUp()
        self.server = NatsServer(self)
        self.address = f"{self.server.url}/APP"

    def opened(self, name, **kwargs):
        con = densite.connect(self.dir / f"{name}.db", **kwargs)
        self.addCleanup(con.close)
        return con

    def join(self, con, **kwargs):
        return densite.join(con, self.address, monitor=self.server.monitor, **kwargs)

    def founder(self, name="a"):
        con = self.opened(name)
        con.execute("PRAGMA journal_mode = WAL")
        con.execute("CREATE TABLE vote(id INTEGER PRIMARY KEY, n INT)")
        self.assertEqual(self.join(con, origin=name), name)
        return con

    def copy(self, of, name):
        of.execute("VACUUM INTO ?", (str(self.dir / f"{name}.db"),))
        con = self.opened(name)
        self.assertEqual(self.join(con, origin=name), name)
        return con

    def wait_for(self, con, sql, expected):
        end = time.monotonic() + 30
        while (found := list(map(tuple, con.execute(sql)))) != expected:
            self.assertLess(time.monotonic(), end, f"{found}, {densite.stream_status(con)}")
            time.sleep(0.01)

    def test_rows_of_each_member_come_to_all_of_them(self):
        a = self.founder()
        b = self.copy(a, "b")
        logs = [densite.ingest(con, "vote") for con in (a, b)]
        for number, log in enumerate(logs):
            seq = log.append([(number, number * 10)])
            self.assertEqual(log.wait(seq, timeout=30, stream=True), seq)
            self.assertEqual(log.wait(timeout=30), seq)
        for con in (a, b):
            self.wait_for(con, "SELECT * FROM vote ORDER BY id", [(0, 0), (1, 10)])
        status = densite.stream_status(a)
        self.assertEqual((status.address, status.origin, status.members), (self.address, "a", ("a", "b")))
        self.assertEqual((status.message, status.messages_behind, status.rows_to_send), (4, 0, 0))
        self.assertIsNone(status.stopped)
        self.assertIsNone(status.trouble)

    def test_the_schema_changes_on_all_members(self):
        a = self.founder()
        b = self.copy(a, "b")
        number = densite.schema(a, "ALTER TABLE vote ADD COLUMN by TEXT")
        self.assertEqual(a.execute("SELECT densite_wait(?)", (number,)).fetchone(), (number,))
        a.execute("SELECT by FROM vote")
        self.wait_for(b, "SELECT count(*) FROM pragma_table_info('vote')", [(3,)])
        with self.assertRaisesRegex(sqlite3.OperationalError, "does not change the schema"):
            densite.schema(a, "DELETE FROM vote")

    def test_a_member_that_left_is_an_ordinary_database(self):
        a = self.founder()
        b = self.copy(a, "b")
        self.assertEqual(densite.leave(b), "b")
        self.assertIsNone(densite.stream_status(b))
        b.execute("INSERT INTO vote VALUES (7, 7)")
        b.commit()
        self.wait_for(a, "SELECT members FROM densite_stream_status()", [("a",)])
        self.server.kill()
        with self.assertRaises(sqlite3.OperationalError):
            densite.leave(a)
        self.assertEqual(densite.leave(a, force=True), "a")
        with self.assertRaisesRegex(sqlite3.OperationalError, "no member"):
            densite.leave(a)

    def test_a_wait_for_the_stream_ends_with_its_timeout(self):
        a = self.founder()
        log = densite.ingest(a, "vote")
        a.close()
        self.server.kill()
        log = densite.ingest(self.opened("a"), "vote")
        seq = log.append([(1, 1)])
        with self.assertRaisesRegex(sqlite3.OperationalError, f"row {seq} of the log is not in the stream after 0.1 seconds") as caught:
            log.wait(seq, timeout=0.1, stream=True)
        self.assertEqual(caught.exception.code, 3)
        self.server.restart()
        self.assertEqual(log.wait(seq, timeout=30, stream=True), seq)

    def test_bad_input(self):
        con = self.founder()
        other = self.opened("other", isolation_level=None)
        other.execute("CREATE TABLE t(a)")
        for address, words in (
            ("localhost", "no scheme"),
            (self.address, "join a copy of a member"),
            ("nats://h", "name of the stream"),
            (f"file://{self.dir}/stream", "a directory cannot keep a stream: start a NATS server"),
        ):
            with self.assertRaisesRegex(sqlite3.OperationalError, words) as caught:
                densite.join(other, address, monitor=self.server.monitor)
            self.assertEqual(caught.exception.code, 1)
        with self.assertRaisesRegex(sqlite3.OperationalError, "belong together"):
            densite.join(other, self.address, client_key="k.pem")
        with self.assertRaises(TypeError):
            densite.join(other, self.address, no_such_setting=1)
        for call in (lambda: densite.leave(other), lambda: densite.schema(other, "CREATE TABLE x(a)")):
            with self.assertRaisesRegex(sqlite3.OperationalError, "no member"):
                call()
        log = densite.ingest(other, "t")
        with self.assertRaisesRegex(sqlite3.OperationalError, "no member"):
            log.wait(log.append([(1,)]), stream=True)
        other.execute("BEGIN")
        for call in (lambda: densite.join(other, self.address), lambda: densite.leave(other), lambda: densite.schema(other, "CREATE TABLE x(a)")):
            with self.assertRaisesRegex(sqlite3.ProgrammingError, "transaction open"):
                call()
        other.execute("ROLLBACK")
        self.assertIsNotNone(densite.stream_status(con))

    def test_the_guide(self):
        ports = {"nats://127.0.0.1:4222": self.server.url, "http://127.0.0.1:8222": self.server.monitor}
        module = self.guide("python.md", "Many machines", replaced=ports)
        self.assertEqual(module.output, module.says)
        module.here.close()
        module.there.close()

    def test_paths_are_stored_absolute_and_factories_do_not_matter(self):
        con = self.opened("a")
        con.row_factory = sqlite3.Row
        con.text_factory = bytes
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.dir)
        pathlib.Path("app.creds").write_text(CREDENTIALS, encoding="utf-8")
        name = self.join(con, credentials=pathlib.Path("app.creds"), trust_server=True)
        self.assertRegex(name, "^[A-Za-z0-9_-]+$")
        self.wait_for(con, "SELECT members = origin FROM densite_stream_status()", [(1,)])
        status = densite.stream_status(con)
        self.assertEqual((status.origin, status.members), (name, (name,)))
        access = con.execute("SELECT access FROM densite_member").fetchone()[0].decode()
        self.assertIn(f'"{pathlib.Path.cwd() / "app.creds"}"', access)
        self.assertIn(f'["{self.server.monitor}"]', access)


if __name__ == "__main__":
    unittest.main()

"""SQLite builds with encryption. SQLCipher encrypts pages before a VFS gets them, and SQLite3
Multiple Ciphers in a VFS of its own."""

import apsw
import densite
from sqlcipher3 import dbapi2 as sqlcipher
from support import Files

SECRET = "a text that only its owner can read"
DENSITE = b"Densite format\r\n"


class SQLCipher(Files):
    def connect(self, key):
        densite.attach(sqlcipher)
        con = sqlcipher.connect(f"file:{self.dir / 'app.db'}?vfs=densite", uri=True, isolation_level=None)
        self.addCleanup(con.close)
        con.execute("PRAGMA cipher_log_level = NONE")
        if key:
            con.execute(f"PRAGMA key = '{key}'")
        return con

    def test_a_densite_file_can_be_encrypted(self):
        for mode in ("delete", "wal"):
            with self.subTest(mode=mode):
                con = self.connect("one")
                con.execute(f"PRAGMA journal_mode = {mode}")
                con.execute("DROP TABLE IF EXISTS t")
                con.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
                con.execute("BEGIN")
                con.executemany("INSERT INTO t(a) VALUES (?)", [(SECRET,)] * 2000)
                con.execute("DELETE FROM t WHERE id % 2")
                con.execute("COMMIT")
                con.execute("VACUUM")
                con.close()
                for key in (None, "two"):
                    con = self.connect(key)
                    with self.assertRaisesRegex(sqlcipher.DatabaseError, "file is not a database"):
                        con.execute("SELECT * FROM t")
                    con.close()
                con = self.connect("one")
                con.execute("PRAGMA rekey = 'two'")
                con.close()
                con = self.connect("two")
                self.assertEqual(self.rows(con, "SELECT count(*), sum(id), min(a) FROM t"), [(1000, 1001000, SECRET)])
                self.assertEqual(self.rows(con, "PRAGMA integrity_check"), [("ok",)])
                self.assertEqual(self.rows(con, "PRAGMA cipher_integrity_check"), [])
                self.assertEqual(self.rows(con, "SELECT value FROM densite_info('main') WHERE name = 'kind'"), [("densite",)])
                con.execute("PRAGMA rekey = 'one'")
                con.close()
                data = (self.dir / "app.db").read_bytes()
                self.assertTrue(data.startswith(DENSITE))
                self.assertNotIn(SECRET.encode(), data)


class MultipleCiphers(Files):
    def connect(self):
        densite.attach(apsw)
        flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        con = apsw.Connection(f"file:{self.dir / 'app.db'}?vfs=densite", flags=flags)
        self.addCleanup(con.close)
        return con

    def refuses(self, con, sql):
        with self.assertRaisesRegex(apsw.SQLError, "Encryption is not supported by the VFS"):
            con.execute(sql)

    def test_a_densite_file_does_not_pretend_to_be_encrypted(self):
        self.assertTrue(apsw.vfs_names()[0].startswith("multipleciphers-"))
        con = self.connect()
        self.refuses(con, "PRAGMA key = 'one'")
        con.execute("CREATE TABLE t(a)")
        con.execute("INSERT INTO t VALUES (?)", (SECRET,))
        self.refuses(con, "PRAGMA rekey = 'one'")
        con.close()
        con = self.connect()
        self.assertEqual(list(con.execute("SELECT * FROM t")), [(SECRET,)])
        self.assertEqual(list(con.execute("PRAGMA integrity_check")), [("ok",)])

    def test_other_files_are_encrypted_as_before(self):
        densite.attach(apsw)
        path = str(self.dir / "plain.db")
        con = apsw.Connection(path)
        con.execute("PRAGMA key = 'one'")
        con.execute("CREATE TABLE t(a)")
        con.execute("INSERT INTO t VALUES (?)", (SECRET,))
        con.close()
        self.assertNotIn(SECRET.encode(), (self.dir / "plain.db").read_bytes())
        con = apsw.Connection(path)
        self.addCleanup(con.close)
        con.execute("PRAGMA key = 'one'")
        self.assertEqual(list(con.execute("SELECT * FROM t")), [(SECRET,)])

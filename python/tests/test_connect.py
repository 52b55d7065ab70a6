"""densite.attach and densite.connect on the sqlite3 module of the running Python."""

import os
import sqlite3
import subprocess
import sys
import types
import unittest

import densite
import support

MAGIC = b"Densite format"


class Files(support.Files):
    def magic(self, path):
        return path.read_bytes()[: len(MAGIC)]


class Connect(Files):
    def test_a_new_file_becomes_a_densite_file_and_is_read_again(self):
        path = self.dir / "a.db"
        con = densite.connect(path)
        self.assertIsInstance(con, sqlite3.Connection)
        con.execute("CREATE TABLE t(a, b)")
        con.executemany("INSERT INTO t VALUES (?, ?)", ((n, f"row {n}") for n in range(10_000)))
        con.commit()
        con.close()
        self.assertEqual(self.magic(path), MAGIC)
        con = densite.connect(str(path), level=9, threads=0, decoded_cache=8)
        self.assertEqual(con.execute("SELECT count(*), max(a) FROM t").fetchone(), (10_000, 9_999))
        for name, value in {"level": "9", "threads": "0", "decoded_cache": "8"}.items():
            self.assertEqual(con.execute(f"PRAGMA densite_{name}").fetchone(), (value,))
        self.assertEqual(con.execute("PRAGMA journal_mode").fetchone(), ("delete",))
        self.assertEqual(con.execute("PRAGMA foreign_keys").fetchone(), (0,))
        con.close()

    def test_names_can_contain_characters_with_a_meaning_in_uris(self):
        os.chdir(self.dir)
        self.addCleanup(os.chdir, "/")
        for name in ["a b.db", "100%.db", "what?.db", "a#b&c=d.db", "ünïcode.db", "file:x.db", "+.db"]:
            for path in (self.dir / name, name, os.fsencode(name)):
                con = densite.connect(path)
                con.execute("CREATE TABLE IF NOT EXISTS t(a)")
                con.commit()
                con.close()
            self.assertEqual(self.magic(self.dir / name), MAGIC, name)
        self.assertEqual(len(list(self.dir.iterdir())), 7)

    def test_a_plain_file_stays_plain(self):
        path = self.dir / "plain.db"
        con = sqlite3.connect(path)
        con.execute("CREATE TABLE t(a)")
        con.commit()
        con.close()
        con = densite.connect(path)
        con.execute("INSERT INTO t VALUES (1)")
        con.commit()
        con.close()
        con = sqlite3.connect(path)
        self.assertEqual(con.execute("SELECT a FROM t").fetchall(), [(1,)])
        con.close()

    def test_memory_databases_and_uris_are_opened(self):
        con = densite.connect(":memory:")
        self.assertEqual(con.execute("SELECT densite_version()").fetchone(), (densite.__version__,))
        con.close()
        path = self.dir / "u.db"
        con = densite.connect(f"file:{path}?mode=rwc#part", uri=True, level=5)
        con.execute("CREATE TABLE t(a)")
        self.assertEqual(con.execute("PRAGMA densite_level").fetchone(), ("5",))
        con.close()
        self.assertEqual(self.magic(path), MAGIC)
        # The text after # is not part of the name.
        for number, end in enumerate(("#part", "#part?vfs=unix")):
            path = self.dir / f"{number}.db"
            con = densite.connect(f"file:{path}{end}", uri=True)
            con.execute("CREATE TABLE t(a)")
            con.close()
            self.assertEqual(self.magic(path), MAGIC)
        with self.assertRaisesRegex(ValueError, "add uri=True"):
            densite.connect(f"file:{path}?vfs=densite")
        con = densite.connect(f"file:{path}?mode=ro&vfs=densite", uri=True)
        with self.assertRaisesRegex(sqlite3.OperationalError, "readonly"):
            con.execute("INSERT INTO t VALUES (1)")
        con.close()

    def test_arguments_are_passed_on(self):
        class Mine(sqlite3.Connection):
            pass

        con = densite.connect(self.dir / "f.db", timeout=7.5, isolation_level=None, factory=Mine)
        self.assertIsInstance(con, Mine)
        self.assertIsNone(con.isolation_level)
        self.assertEqual(con.execute("PRAGMA busy_timeout").fetchone(), (7500,))
        con.close()

    def test_an_error_names_the_setting_that_is_out_of_range(self):
        for setting in ({"level": 99}, {"threads": -1}, {"decoded_cache": -5}):
            (name,) = setting
            with self.assertRaisesRegex(sqlite3.OperationalError, name):
                densite.connect(self.dir / "bad.db", **setting)
        with self.assertRaises(sqlite3.OperationalError):
            densite.connect(self.dir / "nowhere" / "a.db")

    def test_a_path_with_a_nul_is_refused(self):
        densite.connect(self.dir / "a").execute("CREATE TABLE t(a)").connection.close()
        for path in (f"{self.dir}/a\0b", f"{self.dir}/a\0b".encode()):
            for call in (densite.connect, densite.info, densite.check, densite.vacuum, densite.decompress, lambda path: densite.compress(self.dir / "a", path)):
                with self.subTest((path, call)), self.assertRaisesRegex(ValueError, "has a NUL"):
                    call(path)
        self.assertEqual((os.listdir(self.dir), self.magic(self.dir / "a")), (["a"], MAGIC))

    def test_settings_that_are_not_whole_numbers_are_refused(self):
        for settings in ({"level": "9"}, {"level": 3.5}, {"threads": None, "decoded_cache": 1e3}):
            name = list(settings)[-1]
            with self.subTest(settings), self.assertRaisesRegex(TypeError, f"{name} is .*; give a whole number"):
                densite.connect(self.dir / "a", **settings)

    def test_another_process_reads_what_was_written(self):
        path = self.dir / "p.db"
        con = densite.connect(path)
        con.execute("PRAGMA journal_mode=WAL")
        con.execute("CREATE TABLE t(a)")
        con.execute("INSERT INTO t VALUES (42)")
        con.commit()
        program = "import densite, sys; print(*densite.connect(sys.argv[1]).execute('SELECT a FROM t').fetchone())"
        read = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
        self.assertEqual(read.stdout, "42\n")
        con.close()


class Attach(Files):
    def test_sqlite3_opens_densite_files_after_attach(self):
        densite.attach()
        densite.attach(sqlite3)
        path = self.dir / "s.db"
        con = sqlite3.connect(f"file:{path}?vfs=densite", uri=True)
        con.execute("CREATE TABLE t(a)")
        con.commit()
        con.close()
        self.assertEqual(self.magic(path), MAGIC)
        con = sqlite3.connect(self.dir / "plain.db")
        con.execute("CREATE TABLE t(a)")
        con.commit()
        con.close()
        self.assertEqual((self.dir / "plain.db").read_bytes()[:15], b"SQLite format 3")

    def test_an_error_names_the_missing_library(self):
        program = "import densite; densite.attach()"
        environment = {**os.environ, "DENSITE_LIBRARY": "/nowhere/libdensite.so"}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
        self.assertIn("OSError: /nowhere/libdensite.so: the shared library is missing; DENSITE_LIBRARY", run.stderr)

    def test_a_driver_without_extensions_and_symbols_is_refused(self):
        # A driver whose SQLite is hidden: its library cannot be reached, and it cannot load
        # extensions.
        program = (
            "import densite, densite._attach as a, sqlite3\n"
            "a._library_behind = lambda module: None\n"
            "class Con:\n"
            "    def close(self): pass\n"
            "class Driver: __name__ = 'hidden'; connect = staticmethod(lambda name: Con())\n"
            "try: densite.attach(Driver())\n"
            "except sqlite3.NotSupportedError as e: print(e)\n"
        )
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        self.assertRegex(run.stdout, "the SQLite of hidden .* is hidden .* pysqlite3 and apsw work")

    def test_a_driver_with_an_old_sqlite_is_refused(self):
        program = (
            "import densite, densite._attach as a, sqlite3\n"
            "a._library_behind = lambda module: None\n"
            "class Con:\n"
            "    def enable_load_extension(self, on): pass\n"
            "    def execute(self, sql): return self\n"
            "    def fetchone(self): return ('3.37.1',)\n"
            "    def close(self): pass\n"
            "class Driver: __name__ = 'old'; connect = staticmethod(lambda name: Con())\n"
            "try: densite.attach(Driver())\n"
            "except sqlite3.NotSupportedError as e: print(e)\n"
        )
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout, "old: Densite needs SQLite 3.37.2 or newer, and this is 3.37.1; use a newer SQLite\n")

    def test_an_object_that_is_not_a_driver_is_refused(self):
        for odd in (5, "sqlite3", types.ModuleType("odd"), self.memory()):
            with self.subTest(odd), self.assertRaisesRegex(sqlite3.NotSupportedError, "is not the module of a driver for SQLite; the sqlite3 module"):
                densite.attach(odd)

    def test_importing_imports_no_large_module(self):
        program = "import sys; before = set(sys.modules); import densite; print(*sorted(set(sys.modules) - before))"
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        heavy = {"numpy", "pyarrow", "pandas", "polars", "urllib", "json", "subprocess", "asyncio", "typing", "re", "threading", "importlib"}
        self.assertEqual(heavy & {name.partition(".")[0] for name in run.stdout.split()}, set())


class OtherDrivers(Files):
    def test_pysqlite3(self):
        driver = self.library("pysqlite3")
        densite.attach(driver)
        path = self.dir / "p.db"
        con = driver.connect(f"file:{path}?vfs=densite", uri=True)
        con.execute("CREATE TABLE t(a)")
        con.commit()
        con.close()
        self.assertEqual(self.magic(path), MAGIC)

    def test_apsw(self):
        driver = self.library("apsw")
        densite.attach(driver)
        path = self.dir / "w.db"
        con = driver.Connection(str(path), vfs="densite")
        con.execute("CREATE TABLE t(a)")
        con.execute("INSERT INTO t VALUES (1)")
        self.assertEqual(con.execute("SELECT * FROM t").fetchall(), [(1,)])
        con.close()
        self.assertEqual(self.magic(path), MAGIC)


if __name__ == "__main__":
    unittest.main()

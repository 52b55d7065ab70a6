"""docs/operations/converting.md, step by step: its commands and its Python code as they stand
there."""

import os
import pathlib
import re
import sqlite3
import subprocess
import unittest

import densite
import support

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/operations/converting.md"
ROWS = 5000


class Converting(support.Files):
    def setUp(self):
        super().setUp()
        self.page = PAGE.read_text(encoding="utf-8")
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.dir)
        con = sqlite3.connect("app.db")
        con.executescript("PRAGMA journal_mode = WAL; CREATE TABLE user(id INTEGER PRIMARY KEY); CREATE TABLE post(a, b, user REFERENCES user);")
        con.executemany("INSERT INTO post(a, b) VALUES (?, ?)", ((n, f"text {n % 7} of a post") for n in range(ROWS)))
        con.commit()
        con.close()

    def blocks(self, language, heading):
        _, title, rest = self.page.partition(f"\n## {heading}\n")
        self.assertTrue(title, f"the page has no section {heading!r}")
        section = rest.partition("\n## ")[0]
        blocks = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
        self.assertTrue(blocks, f"section {heading!r} has no {language}")
        return blocks

    def run_step(self, heading):
        for ran in map(self.run_block, self.blocks("sh", heading)):
            self.assertEqual(ran.returncode, 0, ran)

    def run_block(self, block):
        command = os.path.dirname(densite.library_path())
        env = {**os.environ, "PATH": f"{command}:{os.environ['PATH']}"}
        return subprocess.run(["bash", "-e", "-c", block], env=env, capture_output=True, text=True)

    def open_database(self):
        names = {}
        (block,) = self.blocks("python", "2. Deploy Densite, on the plain file")
        exec(compile(block, str(PAGE), "exec"), names)
        con = names["open_database"]()
        self.addCleanup(con.close)
        return con

    def serve(self, posts):
        """The application, which writes a row and reads all."""
        con = self.open_database()
        with self.assertRaises(sqlite3.IntegrityError), con:
            con.execute("INSERT INTO post VALUES (1, 'of a user that is missing', 7)")
        with con:
            con.execute("INSERT INTO post(a, b) VALUES (?, 'new')", (posts,))
        self.assertEqual(con.execute("SELECT count(*) FROM post").fetchone(), (posts + 1,))
        return con

    def form(self):
        return densite.info("app.db")["form"]

    def test_an_application_is_converted_and_back(self):
        con = self.serve(ROWS)
        self.assertEqual(self.form(), "plain")
        # While the application runs, a copy can be tried, and the file cannot be replaced.
        self.run_step("3. Try it on a copy")
        self.assertEqual(densite.info("trial.db")["form"], "compressed")
        ran = self.run_block(self.blocks("sh", "4. Convert")[0])
        self.assertEqual(ran.returncode, 3, ran)
        self.assertEqual(self.form(), "plain")
        con.close()
        self.run_step("4. Convert")
        self.assertEqual(self.form(), "compressed")
        con = sqlite3.connect("app.db")
        with self.assertRaisesRegex(sqlite3.DatabaseError, "file is not a database"):
            con.execute("SELECT * FROM post")
        con.close()
        self.serve(ROWS + 1).close()
        self.run_step("5. Undo it")
        self.assertEqual(self.form(), "plain")
        self.serve(ROWS + 2).close()
        con = sqlite3.connect("app.db")
        self.addCleanup(con.close)
        self.assertEqual(con.execute("SELECT count(*) FROM post").fetchone(), (ROWS + 3,))
        self.assertEqual(con.execute("PRAGMA integrity_check").fetchone(), ("ok",))

    def test_a_file_of_a_program_without_the_extension_stays_plain_and_becomes_smaller(self):
        con = sqlite3.connect("plain.db")
        con.executescript("CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob(1000000)); DELETE FROM t;")
        con.close()
        before = os.path.getsize("plain.db")
        self.run_step("Programs that cannot load the extension")
        self.assertEqual(densite.info("plain.db")["form"], "plain")
        self.assertLess(os.path.getsize("plain.db"), before / 10)


if __name__ == "__main__":
    unittest.main()

"""sqlite-utils on Densite: the plugin, which its command finds by the metadata of the package."""

import os
import sqlite3
import subprocess
import sys

import densite
from support import Files


class SqliteUtils(Files):
    def setUp(self):
        super().setUp()
        self.library("sqlite_utils")
        for name, connect in (("small", densite.connect), ("plain", sqlite3.connect)):
            con = connect(self.dir / f"{name}.db")
            con.execute("CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT)")
            con.execute("INSERT INTO person(name) VALUES ('Ada')")
            con.commit()
            con.close()

    def run_command(self, *arguments, rows=None, **environment):
        return subprocess.run(
            [sys.executable, "-m", "sqlite_utils", *arguments],
            cwd=self.dir,
            env={**os.environ, **environment},
            input=rows,
            capture_output=True,
            text=True,
            check=False,
        )

    def output(self, *arguments, rows=None):
        run = self.run_command(*arguments, rows=rows)
        self.assertEqual((run.returncode, run.stderr), (0, ""), arguments)
        return run.stdout

    def form(self, name):
        return densite.info(self.dir / name)["form"]

    def test_the_command_reads_and_writes_a_densite_file(self):
        self.output("insert", "small.db", "person", "-", "--pk", "id", rows='[{"id": 2, "name": "Grace"}]')
        self.output("transform", "small.db", "person", "--rename", "name", "who")
        self.output("enable-fts", "small.db", "person", "who")
        self.assertEqual(self.output("rows", "small.db", "person", "--csv"), "id,who\n1,Ada\n2,Grace\n")
        self.assertIn('"Grace"', self.output("search", "small.db", "person", "grace"))
        self.output("vacuum", "small.db")
        self.assertEqual(self.form("small.db"), "compressed")
        self.assertTrue(densite.check(self.dir / "small.db")["ok"])

    def test_the_command_attaches_densite_files(self):
        for first, second in (("plain.db", "small.db"), ("small.db", "plain.db")):
            sql = "SELECT count(*) AS n FROM person JOIN other.person USING (name)"
            self.assertEqual(self.output("query", first, sql, "--attach", "other", second), '[{"n": 1}]\n')

    def test_plain_and_new_files_stay_plain(self):
        self.output("insert", "plain.db", "person", "-", rows='[{"id": 2, "name": "Grace"}]')
        self.output("insert", "new.db", "t", "-", rows='[{"a": 1}]')
        self.assertEqual((self.form("plain.db"), self.form("new.db")), ("plain", "plain"))

    def test_the_module_opens_a_connection_of_densite(self):
        guide = self.guide("ecosystem.md", "sqlite-utils")
        self.assertEqual(guide.names, ["Ada", "Grace"])
        self.assertEqual(densite.info(self.dir / "people.db")["form"], "compressed")

    def test_without_the_plugin_the_command_reports_that_the_file_is_not_a_database(self):
        # This proves that the other tests depend on the plugin.
        run = self.run_command("tables", "small.db", PYTHONPATH="")
        self.assertIn("not a database", run.stderr + run.stdout)

"""The plugin for Datasette. `datasette app.db` finds it by the entry point of the wheel."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

import densite
import web
from support import Files


class Datasette(Files):
    def setUp(self):
        super().setUp()
        self.library("datasette")
        self.environment = dict(os.environ)
        for name, connect in (("small", densite.connect), ("plain", sqlite3.connect)):
            con = connect(self.dir / f"{name}.db")
            con.execute("CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT)")
            con.executemany("INSERT INTO person(name) VALUES (?)", [("Ada",), ("Grace",)])
            con.commit()
            con.close()

    def served(self, *arguments):
        """Starts Datasette on a free local port. Returns a function that gets a page as JSON."""
        run = subprocess.Popen(
            [sys.executable, "-m", "datasette", "serve", "--host", "127.0.0.1", "--port", "0", *map(str, arguments)],
            env=self.environment,
            cwd=self.dir,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(run.stderr.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        output = []
        for line in run.stderr:
            output.append(line)
            if "running on" in line:
                break
        self.assertTrue(output and "running on" in output[-1], "".join(output))
        address = output[-1].partition("running on ")[2].split()[0]
        threading.Thread(target=run.stderr.read, daemon=True).start()

        def get(path, **parameters):
            try:
                with urllib.request.urlopen(f"{address}{path}?{urllib.parse.urlencode(parameters)}", timeout=60) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                with error:
                    return json.load(error)

        return get

    def test_densite_files_and_plain_files_are_served(self):
        get = self.served("small.db", "plain.db", "--setting", "sql_time_limit_ms", "20000")
        (plugin,) = [plugin for plugin in get("/-/plugins.json") if plugin["name"] == "densite"]
        self.assertEqual((plugin["version"], plugin["hooks"]), (densite.__version__, ["prepare_connection", "startup"]))
        for name in ("small", "plain"):
            self.assertEqual(get(f"/{name}/person.json", _shape="array"), [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}])
        sizes = {database["name"]: database["size"] for database in get("/-/databases.json")}
        self.assertEqual(sizes["small"], (self.dir / "small.db").stat().st_size)
        info = get("/small.json", sql="SELECT value FROM densite_info('main') WHERE name = 'kind'", _shape="arrayfirst")
        self.assertEqual(info, ["densite"])
        self.assertEqual(get("/plain.json", sql="SELECT densite_version()", _shape="arrayfirst"), [densite.__version__])
        # The next request shows a row that another process has written.
        con = densite.connect(self.dir / "small.db")
        with con:
            con.execute("INSERT INTO person(name) VALUES ('Edsger')")
        con.close()
        self.assertEqual(len(get("/small/person.json", _shape="array")), 3)

    def test_crossdb_joins_densite_files_and_plain_files(self):
        site = web.serve(self, self.dir)
        configuration = self.dir / "metadata.json"
        far = {"far": f"{site}/small.db?token=5ec7e7"}
        configuration.write_text(json.dumps({"plugins": {"densite": {"databases": far}}}))
        get = self.served("small.db", "-i", "plain.db", "--crossdb", "--metadata", configuration)
        sql = "SELECT a.name FROM small.person AS a JOIN plain.person AS b USING (id) ORDER BY id"
        self.assertEqual(get("/_memory.json", sql=sql, _shape="arrayfirst"), ["Ada", "Grace"])
        # A remote database is not attached, because its URL can have a secret in it.
        names = get("/_memory.json", sql="SELECT name FROM pragma_database_list ORDER BY 1", _shape="arrayfirst")
        self.assertEqual(names, ["main", "plain", "small"])
        self.assertEqual(len(get("/far/person.json", _shape="array")), 2)
        for sql in ("SELECT row FROM densite_log('secret')", "SELECT densite_prune()"):
            answer = get("/_memory.json", sql=sql)
            self.assertRegex(str(answer.get("error")), "not authorized|prohibited", sql)

    def test_immutable_files_are_served(self):
        get = self.served("-i", "small.db")
        self.assertEqual(len(get("/small/person.json", _shape="array")), 2)

    def test_a_remote_database_is_served_and_its_secrets_are_not_shown(self):
        site = web.serve(self, self.dir)
        urls = {
            "far": f"{site}/small.db?token=5ec7e7",
            "kept": f"file:{site}/plain.db%3Ftoken=5ec7e7?cache_dir={self.dir}/cache",
        }
        configuration = self.dir / "metadata.json"
        self.environment.update(urls)
        variables = {name: {"$env": name} for name in urls}
        configuration.write_text(json.dumps({"plugins": {"densite": {"databases": variables}}}))
        get = self.served("plain.db", "--metadata", configuration, "--setting", "sql_time_limit_ms", "20000")
        for name in urls:
            self.assertEqual(len(get(f"/{name}/person.json", _shape="array")), 2, name)
        databases = get("/-/databases.json")
        for page in ("metadata", "databases", "plugins"):
            self.assertNotIn("5ec7e7", json.dumps(get(f"/-/{page}.json")))
        for name in urls:
            for sql in ("SELECT file FROM pragma_database_list()", "SELECT * FROM pragma_database_list"):
                answer = get(f"/{name}.json", sql=sql)
                self.assertFalse(answer["ok"], answer)
                self.assertNotIn("5ec7e7", json.dumps(answer))
        sizes = {database["name"]: database["size"] for database in databases}
        self.assertEqual(sizes["far"], (self.dir / "small.db").stat().st_size)
        self.assertEqual(sizes["kept"], (self.dir / "plain.db").stat().st_size)
        self.assertTrue(list((self.dir / "cache").iterdir()))

    def test_visitors_cannot_read_or_change_the_log(self):
        con = densite.connect(self.dir / "small.db")
        self.addCleanup(con.close)
        log = densite.ingest(con, "person")
        sub = densite.subscribe(con, "secret")
        log.append([{"name": "x"}])
        log.wait()
        get = self.served("small.db")
        for sql in (
            "SELECT densite_ack('secret', 1)",
            "SELECT densite_unsubscribe('secret')",
            "SELECT DENSITE_SUBSCRIBE('mine', 'start')",
            "SELECT densite_config('max_unapplied_bytes', 1)",
            "SELECT densite_prune()",
            "SELECT densite_wait(1)",
            "SELECT densite_host()",
            "SELECT row FROM densite_log('secret')",
            "SELECT * FROM densite_columns(1)",
            "SELECT * FROM densite_columns_few(1)",
            "WITH x AS (SELECT densite_ack('secret', 1) AS y) SELECT y FROM x",
        ):
            answer = get("/small.json", sql=sql)
            self.assertRegex(str(answer.get("error")), "not authorized|prohibited", sql)
        self.assertEqual(len(get("/small/person.json", _shape="array")), 3)
        # None of the statements had an effect.
        self.assertEqual([change.row["name"] for change in sub.next(0).rows], ["x"])
        self.assertNotEqual(con.execute("SELECT densite_config('max_unapplied_bytes')").fetchone(), (1,))

    def test_without_the_plugin_datasette_reports_that_the_file_is_not_a_database(self):
        # This proves that the other tests depend on the plugin.
        run = subprocess.run(
            [sys.executable, "-m", "datasette", "serve", "small.db", "--get", "/small.json"],
            env={**self.environment, "PYTHONPATH": ""},
            cwd=self.dir,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertIn("not a database", run.stderr + run.stdout)

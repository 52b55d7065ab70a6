"""The programs that speak only SQLite's format, and what users run with them."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

from . import sql

HERE = os.path.dirname(os.path.abspath(__file__))
#: A program that waits longer is ended.
SECONDS = 30
#: What programs say where they refuse a database, and the words of the table for it.
REFUSALS = (
    (r"file is not a database", "file is not a database"),
    (r"file is encrypted or is not a database", "file is encrypted or is not a database"),
    (r"database is locked|SQLITE_BUSY", "database is locked"),
    (r"is not a valid SQLite database|does not appear to be a valid SQLite database", "not a valid SQLite database"),
    (r"output file already exists", "output file already exists"),
    (r"cannot attach database", "cannot attach database"),
    (r"Unable to open (existing output )?datasource", "Unable to open datasource"),
)


@dataclass
class Verb:
    """A command. {db} in it is the database, {tmp} a new folder, in which `other.db` is a plain
    database. `silent`: the program is known to say nothing and to succeed."""

    name: str
    command: list
    stdin: str = ""
    silent: bool = False

    def run(self, db, tmp):
        """Returns (exit code, what it said)."""
        command = [word.replace("{db}", db).replace("{tmp}", tmp) for word in self.command]
        environment = {"PATH": os.environ["PATH"], "HOME": tmp, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            ran = subprocess.run(command, cwd=tmp, env=environment, input=self.stdin.replace("{db}", db), capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return -1, f"no end after {SECONDS} seconds"
        return ran.returncode, said(ran, (tmp, os.path.dirname(db)))


def said(ran, folders):
    """The refusal, or the last line, or nothing after success."""
    stdout, stderr = ran.stdout, ran.stderr
    for pattern, words in REFUSALS:
        if re.search(pattern, stderr + stdout):
            return words
    if ran.returncode == 0:
        return ""
    if ran.returncode == 124:
        return "(a window)"
    lines = [line.strip() for line in (stderr.strip() or stdout).splitlines() if line.strip()]
    text = lines[-1] if lines else ""
    for folder in folders:
        text = text.replace(folder + "/", "")
    return text


@dataclass
class Program:
    """`missing`: why it cannot run here."""

    name: str
    version: str
    verbs: list = field(default_factory=list)
    missing: str = ""


def output(*command):
    """What a command prints, or nothing if it does not run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def through_sql(run, names=None, attach=True):
    """Verbs of a driver: `run(verb, path, statements)` is the command."""
    verbs = [Verb(name, run("statements", "{db}", sql.ON_MAIN[name])) for name in names or sql.ON_MAIN]
    if attach:
        verbs += [Verb(name, run("statements", "{tmp}/other.db", statements)) for name, statements in sql.ATTACHED.items()]
    return verbs


#: What a shell does without a word if it cannot read the database. The newest is the quieter one.
SILENT = (".tables", ".indexes", ".expert", ".databases")


def shell(name, path):
    version = output(path, "--version").split(" ")[0] if path else ""
    if not version:
        return Program(name, "", missing=f"the sqlite3 shell does not run: {path or name}")

    def command(file, *lines):
        return [path, "-batch", "-bail", "-init", "/dev/null", file, *lines]

    verbs = [Verb(name, command("{db}", *statements)) for name, statements in sql.ON_MAIN.items()]
    verbs += [Verb(name, command("{tmp}/other.db", *statements)) for name, statements in sql.ATTACHED.items()]
    dots = [".tables", ".schema", ".dump", ".indexes", ".dbinfo", ".fullschema", ".backup {tmp}/copy.db", ".save {tmp}/copy.db", ".clone {tmp}/copy.db"]
    dots += [".restore {tmp}/other.db", ".import /dev/null t", ".expert", ".archive -t", ".lint fkey-indexes", ".databases", ".read {tmp}/script.sql"]
    # Not every build of the shell has .recover, .dbinfo or .archive.
    known = output(path, ":memory:", ".help")
    dots = [dot for dot in (*dots, ".recover") if dot.split(" ")[0] in known]
    verbs += [Verb(dot.split(" ")[0], command("{db}", dot), silent=dot in SILENT) for dot in dots]
    verbs.append(Verb(".sha3sum", command("{db}", ".sha3sum"), silent=True))
    verbs.append(Verb(".open", command("{tmp}/other.db", ".open {db}", ".tables"), silent=True))
    verbs.append(Verb(".restore it into another", command("{tmp}/other.db", ".restore {db}")))
    verbs.append(Verb(".backup onto it", command("{tmp}/other.db", ".backup {db}")))
    verbs.append(Verb(".output of a dump", ["/bin/sh", "-c", 'exec "$0" -batch "$1" .dump', path, "{db}"]))
    for option in ("mode=ro", "immutable=1", "mode=ro&nolock=1", "vfs=unix-dotfile", "vfs=unix-none", "vfs=unix-excl"):
        verbs.append(Verb(f"?{option}", command("file:{db}?" + option, "SELECT count(*) FROM t")))
    verbs.append(Verb("-readonly", [path, "-batch", "-readonly", "{db}", "SELECT count(*) FROM t"]))
    return Program(name, version, verbs)


def python(name, interpreter, module="sqlite3", extras=("backup", "backup onto it", "iterdump", "serialize"), names=None, attach=True):
    question = {
        "sqlite3": "import platform, sqlite3; print(platform.python_version(), 'with SQLite', sqlite3.sqlite_version)",
        "pysqlite3": "import importlib.metadata as m, pysqlite3; print(m.version('pysqlite3-binary'), 'with SQLite', pysqlite3.sqlite_version)",
        "apsw": "import apsw; print(apsw.apsw_version())",
        "turso": "import importlib.metadata as m; print(m.version('pyturso'))",
        "duckdb": "import duckdb, duckdb_extension_sqlite_scanner; print(duckdb.__version__)",
    }[module]
    version = output(interpreter, "-c", question)
    if not version:
        return Program(name, "", missing=f"{interpreter} does not run, or has no module {module}")

    def command(verb, path, statements=()):
        return [interpreter, f"{HERE}/drivers.py", module, verb, path, "{tmp}", *statements]

    verbs = through_sql(command, names, attach)
    if module == "sqlite3" and "serialize" in extras and not output(interpreter, "-c", "import sqlite3; print(sqlite3.Connection.serialize)"):
        extras = tuple(extra for extra in extras if extra != "serialize")
    verbs += [Verb(verb, command(verb.split(" ")[0] if verb != "backup onto it" else "onto", "{db}")) for verb in extras]
    return Program(name, version, verbs)


def packaged(path):
    """The version of a package of Node."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)["version"]
    except OSError:
        return ""


def node(name, interpreter, modules, extras=(), names=None, attach=True):
    if name.startswith("node:"):
        version = output(interpreter, "-e", f"require('{name}'); console.log(process.versions.node)")
    else:
        version = packaged(f"{modules}/{name}/package.json") if output(interpreter, "--version") else ""
    if not version:
        return Program(name, "", missing=f"{interpreter} has no module {name}")

    def command(verb, path, statements=()):
        return ["env", f"NODE_PATH={modules}", interpreter, "--no-warnings", f"{HERE}/drivers.cjs", name, verb, path, "{tmp}", *statements]

    # The backup of better-sqlite3 waits for a locked database, and Node ends meanwhile.
    verbs = through_sql(command, names, attach) + [Verb(verb, command(verb, "{db}"), silent=verb == "backup") for verb in extras]
    return Program(name, version, verbs)


def commands(name, version, verbs, why=""):
    if not version:
        return Program(name, "", missing=why or f"{name} does not run")
    return Program(name, version.split("\n")[0], [Verb(verb, command) for verb, command in verbs.items()])


def pythons():
    """Interpreters that are other programs, by the version of Python."""
    found = {}
    for name in ("python3", "/usr/bin/python3", *(f"python3.{n}" for n in range(9, 16))):
        path = shutil.which(name)
        version = path and output(path, "-c", "import sqlite3, platform; print(platform.python_version())")
        if version:
            found.setdefault(version, path)
    return found


#: What users do most, for the tests that run with every change.
QUICK = ("SELECT", "integrity_check", "journal_mode=delete", "journal_mode=wal", "wal_checkpoint", "CREATE TABLE", "VACUUM", "ATTACH, INSERT", ".tables", ".dump", ".recover", ".backup", "backup")


def quick():
    """Those that every system with the tests has, with a part of their verbs."""
    found = [shell("sqlite3", shutil.which("sqlite3")), python("Python", sys.executable)]
    for program in found:
        program.verbs = [verb for verb in program.verbs if verb.name in QUICK]
    return found


def first(pattern):
    return next(iter(sorted(glob.glob(pattern))), "")


def every(folder):
    """All programs, those in `folder` among them, which setup.sh makes."""
    extra = first(f"{folder}/env/lib/python3*/site-packages/apsw/sqlite_extra_binaries")
    binaries, env, modules = f"{folder}/env/bin", f"{folder}/env/bin/python", f"{folder}/node/node_modules"
    own = python("Python", sys.executable)
    found = [shell("sqlite3", shutil.which("sqlite3")), shell("sqlite3, the newest", f"{extra}/sqlite3_shell"), own]
    found += [python("Python", path) for version, path in pythons().items() if not own.version.startswith(version + " ")]
    found += [
        python("pysqlite3", f"{folder}/other/bin/python", "pysqlite3", ("backup", "backup onto it")),
        python("apsw", env, "apsw", ("backup", "backup onto it")),
        node("node:sqlite", f"{modules}/node/bin/node", modules, ("backup",)),
        node("better-sqlite3", "node", modules, ("backup",)),
        node("libsql", "node", modules),
        python("pyturso", env, "turso", (), sql.PORTABLE, attach=False),
        node("@tursodatabase/database", f"{modules}/node/bin/node", modules, (), sql.PORTABLE, attach=False),
        python("DuckDB", f"{folder}/other/bin/python", "duckdb", (), ("SELECT", "CREATE TABLE", "INSERT", "DELETE", "DROP TABLE"), attach=False),
    ]
    rsync, diff, hashing = f"{extra}/sqlite3_rsync", f"{extra}/sqlite3_diff", f"{extra}/sqlite3_dbhash"
    newest = output(f"{extra}/sqlite3_shell", "--version").split(" ")[0]
    found.append(commands("sqlite3_rsync", newest, {
        "from it": [rsync, "{db}", "{tmp}/replica.db"],
        "from it to a database": [rsync, "{db}", "{tmp}/other.db"],
        "to it": [rsync, "{tmp}/other.db", "{db}"],
    }))
    found.append(commands("sqldiff, dbhash", newest, {
        "sqldiff from it": [diff, "{db}", "{tmp}/other.db"],
        "sqldiff to it": [diff, "{tmp}/other.db", "{db}"],
        "dbhash": [hashing, "{db}"],
    }))
    litestream = f"{folder}/litestream/bin/litestream"
    found.append(commands("Litestream", output(litestream, "version").lstrip("v"), {
        "replicate -once": [litestream, "replicate", "-once", "{db}", "file://{tmp}/replica"],
        "replicate -once -force-snapshot": [litestream, "replicate", "-once", "-force-snapshot", "{db}", "file://{tmp}/replica"],
        "replicate for 2 seconds": [litestream, "replicate", "-exec", "sleep 2", "{db}", "file://{tmp}/replica"],
        "restore onto it": ["/bin/sh", "-ec", '"$0" replicate -once "$2/other.db" "file://$2/replica"; exec "$0" restore -o "$1" "file://$2/replica"', litestream, "{db}", "{tmp}"],
    }))
    found.append(commands("GDAL", output("ogrinfo", "--version").replace("GDAL ", "").split(",")[0], {
        "ogrinfo": ["ogrinfo", "{db}"],
        "ogrinfo -al": ["ogrinfo", "-al", "{db}"],
        "ogrinfo, SQL": ["ogrinfo", "{db}", "-sql", "DROP TABLE t"],
        "ogr2ogr from it": ["ogr2ogr", "-f", "CSV", "{tmp}/out.csv", "{db}"],
        "ogr2ogr -update": ["ogr2ogr", "-f", "SQLite", "-update", "{db}", "{tmp}/points.csv"],
        "ogr2ogr -append": ["ogr2ogr", "-f", "SQLite", "-append", "{db}", "{tmp}/points.csv"],
        "ogr2ogr onto it": ["ogr2ogr", "-f", "SQLite", "{db}", "{tmp}/points.csv"],
    }))
    browser = commands("DB Browser", output("sh", "-c", "QT_QPA_PLATFORM=offscreen sqlitebrowser --version 2>&1 | sed -n 's/^DB Browser.* Version //p'"), {
        "open for 3 seconds": ["env", "QT_QPA_PLATFORM=offscreen", "timeout", "3", "sqlitebrowser", "{db}"],
        "open for 3 seconds, read-only": ["env", "QT_QPA_PLATFORM=offscreen", "timeout", "3", "sqlitebrowser", "-R", "{db}"],
    })
    found.append(browser)
    datasette, utils = f"{binaries}/datasette", f"{binaries}/sqlite-utils"
    found.append(commands("Datasette", output(datasette, "--version").split(" ")[-1], {
        "inspect": [datasette, "inspect", "{db}"],
        "table": [datasette, "{db}", "--get", "/app/t.json"],
        "immutable": [datasette, "-i", "{db}", "--get", "/app/t.json"],
        "query": [datasette, "{db}", "--get", "/app.json?sql=select+1"],
    }))
    found.append(commands("sqlite-utils", output(utils, "--version").split(" ")[-1], {
        "tables": [utils, "tables", "{db}"],
        "rows": [utils, "rows", "{db}", "t"],
        "query": [utils, "{db}", "select count(*) from t"],
        "insert": ["/bin/sh", "-c", 'echo \'{"a": 1}\' | "$0" insert "$1" x -', utils, "{db}"],
        "enable-wal": [utils, "enable-wal", "{db}"],
        "disable-wal": [utils, "disable-wal", "{db}"],
        "vacuum": [utils, "vacuum", "{db}"],
        "optimize": [utils, "optimize", "{db}"],
        "dump": [utils, "dump", "{db}"],
        "transform": [utils, "transform", "{db}", "t", "--drop", "n"],
        "create-table": [utils, "create-table", "{db}", "x", "a", "integer"],
    }))
    return found

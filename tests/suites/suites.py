"""The suites: what each runs, and how one of its tests is run alone."""

import glob
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
RECORD = f"{HERE}/preload/suites_record.py"


class Suite:
    """A suite of Python. `sources` is what setup.sh unpacked."""

    def __init__(self, installed, name, package, sources):
        self.name, self.package = name, package
        self.python = f"{installed}/env/bin/python"
        found = sorted(glob.glob(f"{installed}/sources/{sources}"))
        self.sources = found[-1] if found else None
        self.missing = None if found else f"its sources are missing: see what setup.sh said about {package}"

    def version(self):
        return self.sources.rsplit("-", 1)[-1]

    def everything(self):
        """The command that runs all tests, and its folder (default: a folder of the run)."""
        raise NotImplementedError

    def alone(self, test):
        """The command that runs one test, or the file that it is in."""
        raise NotImplementedError

    def environment(self):
        """Variables that all its runs need."""
        return {}


class Pytest(Suite):
    def __init__(self, *arguments, tests=("tests",), options=()):
        super().__init__(*arguments)
        self.tests, self.options = tests, options

    def command(self, tests):
        return [self.python, "-m", "pytest", "-q", "-p", "suites_record", "-p", "no:cacheprovider", *self.options, *tests]

    def everything(self):
        return self.command(self.tests)

    def alone(self, test):
        return self.command([test])


class SQLAlchemy(Pytest):
    def alone(self, test):
        # Its plugin of pytest adds the driver to the names of classes after it has selected tests.
        return super().alone(re.sub(r"_sqlite\+pysqlite_[0-9_]+[0-9]", "", test))


class StandardLibrary(Suite):
    """test_sqlite3 of the Python that runs this."""

    def __init__(self, installed):
        self.name, self.package = "test_sqlite3", "CPython"
        self.python, self.sources = f"{installed}/env/bin/python", None
        ran = subprocess.run([self.python, "-c", "import test.test_sqlite3"], capture_output=True, text=True, check=False)
        self.missing = None if ran.returncode == 0 else "this Python was installed without its tests; on Debian: apt-get install libpython3.X-testsuite"

    def version(self):
        words = "import sys, sqlite3; print(sys.version.split()[0], 'with SQLite', sqlite3.sqlite_version)"
        return subprocess.run([self.python, "-c", words], capture_output=True, text=True, check=True).stdout.strip()

    def everything(self):
        return [self.python, RECORD, "-m", "unittest", "-q", "test.test_sqlite3"]

    def alone(self, test):
        return [self.python, RECORD, "-m", "unittest", "-q", test]


class Peewee(Suite):
    def everything(self):
        return [self.python, RECORD, "runtests.py"]

    def alone(self, test):
        return [self.python, RECORD, "runtests.py", test]

    def environment(self):
        return {"PEEWEE_SLOW_TESTS": "1"}


class Django(Suite):
    def everything(self):
        return [self.python, RECORD, "tests/runtests.py", "--settings=suites_django", "--parallel=1", "--noinput"]

    def alone(self, test):
        return [*self.everything(), test]


class BetterSqlite3(Suite):
    """The tests are in the repository, the compiled module in the package."""

    def __init__(self, installed):
        super().__init__(installed, "better-sqlite3", "better-sqlite3", "better-sqlite3-*")
        self.node = f"{installed}/node/node_modules"
        if not self.missing and not os.path.exists(f"{self.node}/mocha"):
            self.missing = "its package is missing: see what setup.sh said about Node"

    def everything(self):
        reporter = f"{HERE}/preload/record.cjs"
        return ["node", f"{self.node}/mocha/bin/mocha.js", "--exit", "--timeout=60000", "--require", f"{HERE}/preload/preload.cjs", "--reporter", reporter]

    def alone(self, test):
        # Some tests use what the one before them has left.
        return [*self.everything(), "test/00.setup.js", f"test/{test.partition(':')[0]}"]

    def environment(self):
        return {"NODE_PATH": self.node}


def every(installed):
    pysqlite = ("--dburi", "sqlite:///suites.db", "--maxfail=0")
    return [
        StandardLibrary(installed),
        Peewee(installed, "Peewee", "peewee", "peewee-*"),
        Pytest(installed, "sqlite-utils", "sqlite-utils", "sqlite_utils-*"),
        Pytest(installed, "diskcache", "diskcache", "diskcache-*", options=("--ignore=tests/test_djangocache.py",)),
        Django(installed, "Django", "django", "django-*"),
        SQLAlchemy(installed, "SQLAlchemy", "sqlalchemy", "sqlalchemy-*", tests=("test/dialect/test_suite.py", "test/dialect/sqlite", "test/orm"), options=pysqlite),
        BetterSqlite3(installed),
    ]

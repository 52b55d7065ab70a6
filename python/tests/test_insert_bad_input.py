"""densite.insert: errors for bad input."""

import os
import re
import sqlite3
import sys
import types
import unittest
import warnings

import densite
from densite import _columns
from support import Files


class BadInput(Files):
    """Bad input raises an exception of the right class that names column, row and value. No row is
    inserted."""

    TABLE = "CREATE TABLE t(a INTEGER NOT NULL PRIMARY KEY, b REAL NOT NULL, c TEXT)"

    def refused(self, error, pattern, data, table=TABLE, con=None, **more):
        con = con or self.memory(table)
        before = self.rows(con)
        with self.assertRaisesRegex(getattr(sqlite3, error), pattern) as caught:
            densite.insert(con, "t", data, **more)
        self.assertIs(type(caught.exception), getattr(sqlite3, error))
        self.assertEqual(self.rows(con), before)
        self.assertFalse(con.in_transaction)

    def test_data_that_violates_its_interface_is_refused(self):
        class Odd:
            def __init__(self, **methods):
                for name, answer in methods.items():
                    setattr(self, name, lambda requested_schema=None, answer=answer: answer)

        class Zero:
            shape = ()

            def __iter__(self):
                raise TypeError("iteration over a 0-d array")

        for data, words in (
            (Odd(__arrow_c_stream__=5), "returns int instead of a capsule named arrow_array_stream"),
            (Odd(__arrow_c_array__=5), "returns int instead of two capsules"),
            (Odd(__arrow_c_array__=(5, 6)), "returns int instead of a capsule named arrow_schema"),
            (Zero(), "type Zero is neither columns nor rows"),
            ([{}], "row 0 has no columns"),
        ):
            self.refused("ProgrammingError", words, data)
        for name in ("a\0b", "\ud800", ""):
            self.refused("OperationalError", f"t has no column {re.escape(repr(name))}", {name: [1]})

    def test_columns_that_do_not_match_are_named(self):
        self.refused("OperationalError", "table t has no column d; its columns are a, b, c", {"a": [1], "b": [1.0], "d": ["x"]})
        with self.assertRaisesRegex(sqlite3.OperationalError, "no such table: u"):
            densite.insert(self.memory(self.TABLE), "u", [(1,)])
        con = self.memory(self.TABLE)
        con.execute("CREATE TEMP TABLE u(a)")
        for name in ("u", "temp.u"):
            with self.assertRaisesRegex(sqlite3.OperationalError, f'no such table: {name}; there is one in the schema temp: use insert.con, "u", data, schema="temp".'):
                densite.insert(con, name, [(1,)])
        self.refused("ProgrammingError", "row 1 has 2 values, but there are 3 columns: a, b, c", [(1, 1.0, "x"), (2, 2.0)])
        self.refused("ProgrammingError", "row 1 has no 'b', which the first row has", [{"a": 1, "b": 1.0}, {"a": 2}])
        self.refused("ProgrammingError", "row 1 has 'c', which the first row does not have", [{"a": 1, "b": 1.0}, {"a": 2, "b": 1.0, "c": "x"}])
        self.refused("ProgrammingError", "the data has a column twice: a, A", {"a": [1], "A": [2]})
        self.refused("DataError", "column b has 1 rows, and those before it have 2", {"a": [1, 2], "b": [1.0]})
        pandas = self.library("pandas")
        self.refused("ProgrammingError", "the data has a column twice: a, a", pandas.DataFrame([[1, 2]], columns=["a", "a"]))

    def test_an_integer_beyond_64_bits_is_refused(self):
        self.refused("DataError", f"column a, row 1: {2**63} does not fit", [(1, 0.5, None), (2**63, 0.5, None)])
        self.refused("DataError", f"column a, row 1: -{2**63 + 1} does not fit", {"a": [1, -(2**63) - 1], "b": [0.5, 0.5]})
        numpy = self.library("numpy")
        self.refused("DataError", f"column a, row 1: {2**64 - 1} does not fit", {"a": numpy.array([1, 2**64 - 1], "uint64"), "b": numpy.zeros(2)})

    def test_an_array_or_a_series_as_one_value_is_refused(self):
        numpy, pandas = self.library("numpy"), self.library("pandas")
        for value in (numpy.array([1, 2]), numpy.array([1]), numpy.array([[1.5]]), numpy.zeros(2, "M8[s]"), pandas.Series([1, 2]), pandas.DataFrame([[1]])):
            words = f"column c, row 1: a value of type {type(value).__name__} cannot be stored by SQLite"
            self.refused("DataError", words, [(1, 0.5, "x"), (2, 0.5, value)])
        con = self.memory(self.TABLE)
        densite.insert(con, "t", [(1, 0.5, numpy.array(7))])
        self.assertEqual(con.execute("SELECT c FROM t").fetchone(), ("7",))

    def test_text_that_is_not_utf8_is_refused(self):
        self.refused("DataError", "column c, row 1: .*lone surrogate", [(1, 0.5, "x"), (2, 0.5, "\udc80")])
        pyarrow = self.library("pyarrow")
        text = pyarrow.Array.from_buffers(pyarrow.string(), 2, [None, pyarrow.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0"), pyarrow.py_buffer(b"x\xff\xfe")])
        self.refused("DataError", r'column c, row 1: text that is not UTF-8 from byte 0 on: b"\\xff\\xfe"', pyarrow.table({"a": [1, 2], "b": [0.5, 0.5], "c": text}))

    def test_nan_in_a_not_null_column_is_refused(self):
        rows = [(1, 0.5, "x"), (2, float("nan"), "y")]
        self.refused("IntegrityError", "row 1: NOT NULL constraint failed: t.b; b is NaN, which SQLite stores as NULL", rows)
        numpy = self.library("numpy")
        # The error has the number of the row in the given data, not in sorted order.
        data = {"a": numpy.array([9, 3, 5]), "b": numpy.array([0.5, numpy.nan, 1.5])}
        self.refused("IntegrityError", "row 1: NOT NULL constraint failed: t.b; b is NaN, which SQLite stores as NULL", data)

    def test_a_constraint_names_row_column_and_value(self):
        con = self.memory(self.TABLE, "INSERT INTO t VALUES (7, 0.5, 'old')")
        self.refused("IntegrityError", "row 2: UNIQUE constraint failed: t.a; a is 7", {"a": [9, 8, 7, 6], "b": [0.5] * 4}, con=con)
        table = "CREATE TABLE t(a, b CHECK (b < 10))"
        self.refused("IntegrityError", "row 1: CHECK constraint failed: b < 10; a is 3, b is 40$", [(1, 2), (3, 40)], table)
        self.refused("IntegrityError", "row 1: datatype mismatch", [(1,), ("x",)], "CREATE TABLE t(a INTEGER PRIMARY KEY)")
        # If SQLite names no column, the error shows the row.
        con = self.memory("CREATE TABLE t(a, b CONSTRAINT small CHECK (b < 10))", "CREATE UNIQUE INDEX i ON t(lower(a))")
        self.refused("IntegrityError", "row 1: CHECK constraint failed: small; a is \"y\", b is 40$", [("x", 2), ("y", 40)], con=con)
        self.refused("IntegrityError", "row 1: UNIQUE constraint failed: index 'i'; b is 3, a is \"X\"$", {"b": [2, 3], "a": ["x", "X"]}, con=con)
        wide = f"CREATE TABLE t({', '.join(f'c{n}' for n in range(12))}, CHECK (c11 < 3))"
        self.refused("IntegrityError", "row 0: CHECK constraint failed: c11 < 3; c0 is 9, .*, c9 is 9, ...$", [(9,) * 12], wide)
        # A missing column has no value.
        self.refused("IntegrityError", "row 0: NOT NULL constraint failed: t.b; b is not given$", {"a": [1]})

    def test_a_value_longer_than_the_limit_of_the_connection_is_refused(self):
        con = self.memory("CREATE TABLE t(a, b)")
        if not hasattr(con, "setlimit"):
            self.skipTest("setlimit needs Python 3.11")
        con.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
        self.refused("DataError", "row 1: string or blob too big; a is 1, b is a blob of 2000 bytes$", [(0, b""), (1, bytes(2000))], con=con)

    def test_a_foreign_key_names_row_column_and_value(self):
        def tables(child, *more):
            return self.memory("PRAGMA foreign_keys=1", "CREATE TABLE p(x INTEGER PRIMARY KEY, y, z, UNIQUE (y, z))", "INSERT INTO p VALUES (1, 'a', 2), (2, 'b', 3)", child, *more)

        con = tables("CREATE TABLE t(a INTEGER PRIMARY KEY, r REFERENCES p)")
        self.refused("IntegrityError", r"row 1: FOREIGN KEY constraint failed; r is 7, which p does not have as x", [(9, 1), (8, 7), (7, None)], con=con)
        con = tables("CREATE TABLE t(a INTEGER PRIMARY KEY, m, n, FOREIGN KEY (m, n) REFERENCES p (y, z))")
        self.refused("IntegrityError", r'row 2: .*; m is "a", n is 3, which p does not have as y, z', [(9, "a", 2), (8, None, 5), (7, "a", 3)], con=con)
        # A table that refers to itself, also to rows of the same insert.
        con = tables("CREATE TABLE t(a INTEGER PRIMARY KEY, up REFERENCES t(a))")
        self.refused("IntegrityError", r"row 0: .*; up is 5, which t does not have as a", [(9, 5), (8, 9), (7, 8)], con=con)
        self.assertEqual(densite.insert(con, "t", [(9, 8), (8, 9), (7, 8)]), 3)
        # Deferred keys are checked by the commit, which does not name the row. With triggers the
        # row is named.
        con = tables("CREATE TABLE t(a INTEGER PRIMARY KEY, r REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
        self.refused("IntegrityError", "^FOREIGN KEY constraint failed$", [(1, 7)], con=con)
        con = tables("CREATE TABLE t(a INTEGER PRIMARY KEY, r REFERENCES p)", "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END")
        self.refused("IntegrityError", "row 1: .*; r is 7, which p does not have as x", [(9, 1), (8, 7)], con=con)

    def test_a_row_can_refer_to_a_later_row_of_the_same_insert(self):
        last = _columns.ITERATOR_ROWS + 10
        tree = "CREATE TABLE t(a INTEGER PRIMARY KEY, up INTEGER REFERENCES t(a))"

        def rows(orphan=None):
            return ((n, orphan if n == last else last) for n in range(1, last + 1))

        def tables(*statements):
            return self.memory("PRAGMA foreign_keys = 1", *statements, "CREATE INDEX i ON t(up)")

        con = tables(tree)
        self.assertEqual(densite.insert(con, "t", rows()), last)
        # Also to a row that a trigger adds, as within one statement of SQLite.
        by_trigger = (
            "CREATE TABLE p(a INTEGER PRIMARY KEY)",
            "CREATE TABLE t(a INTEGER PRIMARY KEY, up INTEGER REFERENCES p(a))",
            "CREATE TRIGGER g AFTER INSERT ON t WHEN new.up IS NULL BEGIN INSERT INTO p VALUES (new.a); END",
        )
        self.assertEqual(densite.insert(tables(*by_trigger), "t", rows()), last)
        # A missing parent is still named. A parent of a later call is missing.
        con = tables(tree)
        with self.assertRaisesRegex(sqlite3.IntegrityError, f"row {last - 1}: FOREIGN KEY constraint failed; up is 0, which t does not have as a"):
            densite.insert(con, "t", rows(0))
        self.assertEqual((self.rows(con), con.in_transaction), ([], False))
        with self.assertRaisesRegex(sqlite3.IntegrityError, "row 0: FOREIGN KEY"):
            densite.insert(con, "t", [(1, 2)])
        # If SQLite does not check foreign keys, the rows are not collected in memory.
        con = tables(tree)
        con.execute("PRAGMA foreign_keys = 0")
        self.assertEqual(densite.insert(con, "t", rows(0)), last)

    def test_factories_cursors_and_converters_of_the_caller_do_not_affect_the_package(self):
        def broken(value):
            raise LookupError("a factory of the caller was called")

        class Cursor(sqlite3.Cursor):
            execute = fetchall = broken

        class Connection(sqlite3.Connection):
            def cursor(self, *arguments):
                return super().cursor(Cursor)

        self.addCleanup(sqlite3.converters.pop, "OWN")
        sqlite3.register_converter("own", broken)
        for factory in (bytes, bytearray, memoryview, len, str.swapcase, lambda text: text.decode()[::-1], broken):
            for encoding in ("UTF-8", "UTF-16le", "UTF-16be"):
                con = densite.connect(":memory:", factory=Connection, detect_types=sqlite3.PARSE_DECLTYPES)
                self.addCleanup(con.close)
                run = sqlite3.Connection.cursor(con).execute
                run(f"PRAGMA encoding = '{encoding}'")
                run("PRAGMA foreign_keys = ON")
                run('CREATE TABLE "Pä"(id own PRIMARY KEY)')
                # Each of these names is the other one reversed.
                run('CREATE TABLE t(ab own REFERENCES "Pä", ba UNIQUE, "日" DEFAULT 5)')
                con.commit()
                con.text_factory, con.row_factory = factory, broken
                with self.assertRaisesRegex(sqlite3.IntegrityError, "row 0: FOREIGN KEY constraint failed; ab is 7, which Pä does not have as id"):
                    densite.insert(con, "t", [(7, 1, 0)])
                with self.assertRaisesRegex(sqlite3.IntegrityError, "row 1: UNIQUE constraint failed: t.ba; ba is 1"):
                    densite.insert(con, "t", {"BA": [1, 1]})
                with self.assertRaisesRegex(sqlite3.OperationalError, "no column x; its columns are ab, ba, 日"):
                    densite.insert(con, "t", {"x": [1]})
                with self.assertRaisesRegex(sqlite3.OperationalError, "there is one in the schema temp"):
                    run("CREATE TEMP TABLE tt(a)")
                    densite.insert(con, "tt", [(1,)])
                self.assertEqual(densite.insert(con, "t", [(None, 2, 3)]), 1)
                with self.assertRaisesRegex(sqlite3.ProgrammingError, "parameter 1 is of type object"):
                    densite.query(con, "SELECT ?", (object(),))
                with densite.query(con, "SELECT k.a + ? AS a, ba FROM keys k JOIN t ON ba = k.a", (1,), keys={"a": [2]}) as result:
                    self.assertEqual(result.fetchall(), [(3, 2)])
                con.text_factory = con.row_factory = None
                self.assertEqual(run('SELECT ab, ba, "日" FROM t').fetchall(), [(None, 2, 3)])

    def test_names_compare_as_in_sqlite(self):
        # Only A to Z equal a to z: É and é are two columns, and the kelvin sign (whose lower case
        # is k) is neither K nor k.
        con = self.memory("CREATE TABLE t(É, é, k)")
        densite.insert(con, "t", {"É": [1], "é": [2], "K": [3]})
        self.assertEqual(self.rows(con), [(1, 2, 3)])
        with self.assertRaisesRegex(sqlite3.OperationalError, "table t has no column \u212a"):
            densite.insert(con, "t", {"\u212a": [1]})
        for name, words in ((None, "table is None; give a name"), (b"t", "table is b't'; give a name")):
            with self.assertRaisesRegex(sqlite3.ProgrammingError, words):
                densite.insert(con, name, [(1, 2, 3)])
        with self.assertRaisesRegex(sqlite3.ProgrammingError, "schema is None; give a name"):
            densite.insert(con, "t", [(1, 2, 3)], schema=None)
        with self.assertRaisesRegex(sqlite3.ProgrammingError, "on_conflict is None; use one of abort"):
            densite.insert(con, "t", [(1, 2, 3)], None)

    def test_the_message_of_a_trigger_is_passed_on(self):
        con = self.memory(self.TABLE, "CREATE TRIGGER g BEFORE INSERT ON t WHEN new.b > 9 BEGIN SELECT RAISE(ABORT, 'too much'); END")
        self.refused("IntegrityError", "^too much$", [(1, 1.0, None), (2, 10.0, None)], con=con)

    def test_closed_and_foreign_connections_are_refused(self):
        con = densite.connect(":memory:")
        con.close()
        with self.assertRaisesRegex(sqlite3.ProgrammingError, "closed"):
            densite.insert(con, "t", [(1,)])
        with self.assertRaisesRegex(sqlite3.ProgrammingError, "closed"):
            densite.query(con, "SELECT 1")
        for call in (lambda con: densite.insert(con, "t", [(1,)]), lambda con: densite.query(con, "SELECT 1")):
            with self.assertRaisesRegex(sqlite3.NotSupportedError, "type builtins.object .*use one of sqlite3 or pysqlite3"):
                call(object())
        with self.assertRaisesRegex(sqlite3.NotSupportedError, "type densite.Cursor .*give its connection"):
            densite.insert(self.memory().cursor(), "t", [(1,)])

    def test_exceptions_are_those_of_the_connection_s_driver(self):
        # A module can have the names of a driver, and a class derived from sqlite3's.
        module = types.ModuleType("own_database")
        module.connect = module.DataError = None
        self.addCleanup(sys.modules.pop, "own_database")
        sys.modules["own_database"] = module
        own = type("Own", (sqlite3.Connection,), {"__module__": "own_database"})
        con = densite.connect(":memory:", factory=own)
        self.addCleanup(con.close)
        con.execute("CREATE TABLE t(a NOT NULL)")
        with self.assertRaisesRegex(sqlite3.IntegrityError, "row 0: NOT NULL"):
            densite.insert(con, "t", [(None,)])
        none = type("None", (), {"__module__": "own_database"})()
        for call in (lambda: densite.insert(none, "t", [(1,)]), lambda: densite.query(none, "SELECT 1"), lambda: densite.ingest(none, "t"), lambda: densite.subscribe(none, "s")):
            with self.assertRaisesRegex(sqlite3.NotSupportedError, "type own_database.None is not supported"):
                call()

    def test_a_connection_of_apsw_is_refused_with_the_alternatives(self):
        apsw = self.library("apsw")
        con = apsw.Connection(":memory:")
        con.execute("CREATE TABLE t(a)")
        for call in (lambda: densite.insert(con, "t", [(1,)]), lambda: densite.query(con, "SELECT a FROM t")):
            with self.assertRaisesRegex(sqlite3.NotSupportedError, "type apsw.Connection .*use one of sqlite3 or pysqlite3"):
                call()
        self.assertEqual(con.execute("SELECT * FROM t").fetchall(), [])
        con.close()

    def test_a_forked_child_must_open_its_own_connection(self):
        con = self.memory(self.TABLE)
        result = densite.query(con, "SELECT 1 AS n")
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            messages = []
            try:
                for call in (
                    lambda: densite.insert(con, "t", [(1, 0.5, None)]),
                    lambda: densite.query(con, "SELECT 1"),
                    result.fetchall,
                    lambda: result.__arrow_c_stream__(),
                ):
                    try:
                        call()
                        messages.append("nothing")
                    except sqlite3.ProgrammingError as error:
                        messages.append(str(error))
                result.close()
                own = densite.connect(":memory:")
                own.execute("CREATE TABLE t(a)")
                densite.insert(own, "t", [(3,)])
                messages.append(str(densite.query(own, "SELECT a FROM t JOIN keys USING (a)", keys={"a": [3]}).fetchall()))
            finally:
                os.write(write, "\n".join(messages).encode())
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            messages = pipe.read().split("\n")
        os.waitpid(child, 0)
        self.assertEqual(len(messages), 5, messages)
        for message in messages[:4]:
            self.assertRegex(message, f"belongs to process {os.getpid()}, which was forked; open")
        self.assertEqual(messages[4], "[(3,)]")
        self.assertEqual(result.fetchall(), [(1,)])


if __name__ == "__main__":
    unittest.main()

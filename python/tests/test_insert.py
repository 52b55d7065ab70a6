"""densite.insert."""

import array
import datetime
import decimal
import os
import random
import re
import sqlite3
import sys
import threading
import time
import types
import unittest
import warnings

import densite
from densite import _columns
from support import Files

RESULT = "CREATE TABLE t(a INTEGER, b INTEGER, val REAL, PRIMARY KEY (a, b)) WITHOUT ROWID"


class Shapes(Files):
    def test_lists_of_tuples_and_of_dicts_and_iterators(self):
        con = self.memory(RESULT)
        self.assertEqual(densite.insert(con, "t", [(2, 1, 0.5), (1, 2, None), (1, 1, 3)]), 3)
        self.assertFalse(con.in_transaction)
        self.assertEqual(densite.insert(con, "t", [{"val": 1.5, "b": 0, "a": 0}, {"val": None, "b": 1, "a": 0}]), 2)
        self.assertEqual(densite.insert(con, "t", ((n, n, n / 2) for n in range(10, 400_000))), 399_990)
        self.assertEqual(self.rows(con)[:5], [(0, 0, 1.5), (0, 1, None), (1, 1, 3.0), (1, 2, None), (2, 1, 0.5)])
        self.assertEqual(self.rows(con, "SELECT count(*), sum(b) FROM t WHERE a >= 10"), [(399_990, sum(range(10, 400_000)))])

    def test_columns_of_python_values_and_of_buffers(self):
        con = self.memory("CREATE TABLE t(a, b, c, d)")
        data = {"a": array.array("i", [1, 2]), "b": memoryview(array.array("d", [0.5, 1.5])), "c": ["x", None], "d": (b"\0", True)}
        self.assertEqual(densite.insert(con, "t", data), 2)
        self.assertEqual(self.rows(con), [(1, 0.5, "x", b"\0"), (2, 1.5, None, 1)])
        self.assertEqual(densite.insert(con, "t", {"b": memoryview(bytes([7, 8]))}), 2)
        self.assertEqual(self.rows(con, "SELECT a, b FROM t WHERE rowid > 2"), [(None, 7), (None, 8)])

    def test_nothing_is_fine(self):
        con = self.memory(RESULT)
        for data in ([], {}, {"a": [], "b": [], "val": []}, iter(())):
            self.assertEqual(densite.insert(con, "t", data), 0)

    def test_rows_of_sqlite_and_views_with_triggers(self):
        con = self.memory(
            "CREATE TABLE t(a, b)",
            "CREATE VIEW v AS SELECT b, a FROM t",
            "CREATE TRIGGER i INSTEAD OF INSERT ON v BEGIN INSERT INTO t VALUES (new.a, new.b); END",
        )
        con.row_factory = sqlite3.Row
        con.execute("INSERT INTO t VALUES (1, 2), (3, 4)")
        densite.insert(con, "t", con.execute("SELECT b AS a, a AS b FROM t").fetchall())
        densite.insert(con, "v", [(6, 5)])
        self.assertEqual([tuple(row) for row in self.rows(con)], [(1, 2), (3, 4), (2, 1), (4, 3), (5, 6)])

    def test_numpy(self):
        numpy = self.library("numpy")
        con = self.memory("CREATE TABLE t(a, b, c, d, e, f, g)")
        at = numpy.array(["2024-02-29T12:30:00.5", "NaT"], "datetime64[ms]")
        data = {
            "a": numpy.array([1, -2], "int8"),
            "b": numpy.array([[0.5, 9], [float("nan"), 9]], "float32")[:, 0],
            "c": numpy.array([True, False]),
            "d": at,
            "e": at.astype("datetime64[D]"),
            "f": numpy.array(["ä", "bc"]),
            "g": numpy.ma.masked_array([5, 6], [False, True]),
        }
        self.assertEqual(densite.insert(con, "t", data), 2)
        self.assertEqual(
            self.rows(con),
            [(1, 0.5, 1, "2024-02-29 12:30:00.500", "2024-02-29", "ä", 5), (-2, None, 0, None, None, "bc", None)],
        )
        con.execute("DELETE FROM t")
        structured = numpy.array([(1, 2.5, b"x"), (2, 3.5, b"yz")], [("a", ">i4"), ("b", "f8"), ("c", "S3")])
        densite.insert(con, "t", structured[::-1])
        self.assertEqual(self.rows(con, "SELECT a, b, c FROM t"), [(2, 3.5, b"yz"), (1, 2.5, b"x")])

    def test_times_of_numpy_are_stored_alike_however_they_lie(self):
        numpy = self.library("numpy")
        con = self.memory("CREATE TABLE t(a, b)")

        def stored(values):
            con.execute("DELETE FROM t")
            densite.insert(con, "t", {"a": values})
            return [a for a, _ in self.rows(con)]

        for unit, wanted in (
            ("ms", "2024-02-29 12:30:00.500"),
            ("10ms", "2024-02-29 12:30:00.500"),
            ("us", "2024-02-29 12:30:00.500000"),
            ("ns", "2024-02-29 12:30:00.500000000"),
        ):
            with self.subTest(unit):
                at = numpy.array(["2024-02-29T12:30:00.5", "NaT"], "datetime64[ms]").astype(f"datetime64[{unit}]")
                for values in (at, at.astype(at.dtype.newbyteorder(">")), numpy.repeat(at, 2)[::2], list(at)):
                    self.assertEqual(stored(values), [wanted, None])
                self.assertEqual(stored(numpy.broadcast_to(at[:1], 2)), [wanted, wanted])
                self.assertEqual(stored(numpy.ma.masked_array(at[[0, 0]], [False, True])), [wanted, None])
        self.assertEqual(stored(numpy.array([5 * 10**11], "datetime64[ps]")), ["1970-01-01 00:00:00.500000000"])
        for unit, wanted in (("Y", "2024-01-01"), ("M", "2024-02-01"), ("D", "2024-02-29"), ("h", "2024-02-29 12:00:00"), ("15m", "2024-02-29 12:15:00"), ("25s", "2024-02-29 12:20:00")):
            at = numpy.array(["2024-02-29T12:20"], "datetime64[s]").astype(f"datetime64[{unit}]")
            self.assertEqual((stored(at), stored(list(at))), ([wanted], [wanted]), unit)
        for wanted in ("-0001-12-31", "+12000-01-01"):
            at = numpy.array([wanted], "datetime64[D]")
            self.assertEqual((stored(at), stored(list(at))), ([wanted], [wanted]))
        took = numpy.array([5, "NaT"], "timedelta64[s]")
        for values in (took, took.astype(">m8[s]"), list(took), numpy.ma.masked_array(numpy.array([5, 6], "timedelta64[s]"), [False, True])):
            self.assertEqual(stored(values), [5, None])
        for values in (numpy.array([0, 1], "datetime64[ps]"), numpy.array([0, 2**62], "datetime64[h]")):
            for shape in (values, list(values)):
                with self.assertRaisesRegex(sqlite3.DataError, "column a, row 1: .* is not exact in a unit that is stored"):
                    densite.insert(con, "t", {"a": shape})

    def test_what_numpy_has_and_python_has_not(self):
        numpy = self.library("numpy")
        con = self.memory("CREATE TABLE t(a)")
        for value in (numpy.longdouble(1), numpy.clongdouble(1), datetime.timedelta(1)):
            for data in ([(value,)], {"a": numpy.array([value])}):
                with self.assertRaisesRegex(sqlite3.ProgrammingError, "column a, row 0: a value of type .* is none that SQLite stores"):
                    densite.insert(con, "t", data)

        class Elsewhere(list):
            """The interface allows an object with a buffer in the place of the address."""

            __array_interface__ = {"shape": (2,), "typestr": "<i8", "data": bytearray(16), "version": 3}

        densite.insert(con, "t", {"a": Elsewhere([7, 8])})
        self.assertEqual(self.rows(con), [(7,), (8,)])

    def test_series_of_pandas_by_themselves(self):
        pandas = self.library("pandas")
        con = self.memory("CREATE TABLE t(a, b)")
        columns = {"a": pandas.Series([2**60 + 1, None], dtype="Int64"), "b": pandas.Series(["x", None], dtype="string")}
        densite.insert(con, "t", columns)
        densite.insert(con, "t", [(1, pandas.NA), (2, pandas.NaT)])
        self.assertEqual(self.rows(con), [(2**60 + 1, "x"), (None, None), (1, None), (2, None)])
        with self.assertRaisesRegex(sqlite3.ProgrammingError, "column a, row 0: a value of type Timedelta"):
            densite.insert(con, "t", [(pandas.Timedelta(1, "s"), 1)])

    def test_arrow(self):
        pa = self.library("pyarrow")
        con = self.memory("CREATE TABLE t(i, f, s, b, ok, d, ts, tz, tm, dec NUMERIC, exact TEXT, cat, big, view, half, dur, fixed, none)")
        when = datetime.datetime(2024, 2, 29, 12, 30, 0, 7)
        zone = datetime.timezone(datetime.timedelta(hours=2))
        table = pa.table(
            {
                "i": pa.array([1, None, 3], pa.int16()),
                "f": pa.array([0.5, None, float("nan")]),
                "s": pa.array(["ä", None, ""]),
                "b": pa.array([b"\0\1", None, b""]),
                "ok": pa.array([True, None, False]),
                "d": pa.array([when.date(), None, None]),
                "ts": pa.array([when, None, None], pa.timestamp("us")),
                "tz": pa.array([when.replace(tzinfo=zone), None, None], pa.timestamp("us", "Europe/Berlin")),
                "tm": pa.array([datetime.time(1, 2, 3), None, None], pa.time32("s")),
                "dec": pa.array([decimal.Decimal("-12.30"), None, None], pa.decimal128(10, 2)),
                "exact": pa.array([decimal.Decimal("12.30"), None, None], pa.decimal256(50, 2)),
                "cat": pa.array(["x", None, "y"]).dictionary_encode(),
                "big": pa.array(["large", None, None], pa.large_string()),
                "view": pa.array(["short", None, "a text that is longer than twelve"], pa.string_view()),
                "half": pa.array([1.5, None, None], pa.float16()),
                "dur": pa.array([datetime.timedelta(seconds=2), None, None], pa.duration("ms")),
                "fixed": pa.array([b"abc", None, None], pa.binary(3)),
                "none": pa.nulls(3),
            }
        )
        self.assertEqual(densite.insert(con, "t", table), 3)
        rows = self.rows(con)
        self.assertEqual(
            rows[0],
            (1, 0.5, "ä", b"\0\1", 1, "2024-02-29", "2024-02-29 12:30:00.000007", "2024-02-29 10:30:00.000007+00:00", "01:02:03", -12.3, "12.30")
            + ("x", "large", "short", 1.5, 2000, b"abc", None),
        )
        self.assertEqual(rows[1], (None,) * 18)
        self.assertEqual(rows[2][:5] + rows[2][11:14], (3, None, "", b"", 0, "y", None, "a text that is longer than twelve"))
        # Slices have offsets; batches follow each other; a batch alone is taken too.
        con.execute("DELETE FROM t")
        densite.insert(con, "t", pa.concat_tables([table.slice(1, 2), table.slice(0, 1)]))
        self.assertEqual(sorted(self.rows(con), key=str), sorted(rows, key=str))
        con.execute("DELETE FROM t")
        densite.insert(con, "t", table.to_batches()[0].slice(2))
        self.assertEqual(self.rows(con), rows[2:])
        # Nothing of every type, and a dictionary without values.
        self.assertEqual(densite.insert(con, "t", table.slice(0, 0)), 0)
        empty = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string()))
        self.assertEqual(densite.insert(con, "t", pa.table({"cat": empty})), 2)
        # Rows that are NULL as a whole are no rows, counted or not.
        structs = pa.array([{"i": 1}, None, {"i": 3}])
        for data in (structs, structs.slice(0, 3), structs.slice(1, 2)):
            with self.assertRaisesRegex(sqlite3.Error, "NULL as a whole"):
                densite.insert(con, "t", data)
        self.assertEqual(densite.insert(con, "t", structs.slice(2, 1)), 1)

    def test_polars_pandas_and_duckdb(self):
        polars, pandas, duckdb = self.library("polars"), self.library("pandas"), self.library("duckdb")
        words = {"a": [2, 1], "b": ["zwei, und noch viel mehr", "eins"], "val": [0.5, None]}
        kinds = {"polars": polars.DataFrame(words), "pandas": pandas.DataFrame(words), "duckdb": duckdb.from_arrow(polars.DataFrame(words).to_arrow())}
        kinds["polars, categories"] = polars.DataFrame(words).with_columns(polars.col("b").cast(polars.Categorical))
        kinds["pandas, columns"] = {name: pandas.DataFrame(words)[name] for name in words}
        for name, frame in kinds.items():
            with self.subTest(name):
                con = self.memory("CREATE TABLE t(a PRIMARY KEY, b, val)")
                self.assertEqual(densite.insert(con, "t", frame), 2)
                self.assertEqual(self.rows(con), [(1, "eins", None), (2, "zwei, und noch viel mehr", 0.5)])


    def test_numpy_of_every_type_however_it_lies(self):
        numpy = self.library("numpy")
        con = self.memory("CREATE TABLE t(a)")
        base = [1, 0, 1, 1, 0, 1]
        for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "?", "S2", "U2", "O", "M8[s]", "m8[s]", "V3"):
            for order in "<>":
                dtype = numpy.dtype(kind).newbyteorder(order)
                plain = numpy.zeros(6, dtype) if dtype.kind == "V" else numpy.array(base).astype(dtype)
                fixed = plain.copy()
                fixed.setflags(write=False)
                lies = {
                    "plain": plain,
                    "read-only": fixed,
                    "backwards": plain[::-1],
                    "every other": plain[::2],
                    "a column": numpy.array([plain, plain]).T[:, 1],
                    "one for all": numpy.broadcast_to(plain[:1], 6),
                }
                if dtype.kind != "O":
                    lies["at an odd address"] = numpy.frombuffer(b"x" + plain.tobytes(), dtype, offset=1)
                for how, values in lies.items():
                    wanted = {
                        "M": lambda: [str(value).replace("T", " ") for value in values],
                        "m": lambda: values.astype("i8").tolist(),
                        "V": lambda: [value.tobytes() for value in values],
                    }.get(dtype.kind, values.tolist)()
                    with self.subTest(kind=kind, order=order, how=how):
                        con.execute("DELETE FROM t")
                        self.assertEqual(densite.insert(con, "t", {"a": values}), len(values))
                        self.assertEqual([a for (a,) in self.rows(con, "SELECT a FROM t ORDER BY rowid")], wanted)

    def test_tables_of_every_kind(self):
        cases = [
            ("CREATE TABLE t(a, b DEFAULT 'd', c DEFAULT (1 + 1))", {"a": [7]}, [(7, "d", 2)]),
            ("CREATE TABLE t(a, b AS (a * 2), c AS (a + d) STORED, d)", [(7, 1)], [(7, 14, 8, 1)]),
            ("CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT, b)", {"b": ["x", "y"]}, [(1, "x"), (2, "y")]),
            ("CREATE TABLE t(a INTEGER PRIMARY KEY, b)", [(None, "x"), (9, "y"), (None, "z")], [(1, "x"), (9, "y"), (10, "z")]),
            ("CREATE TABLE t(a TEXT PRIMARY KEY, b ANY) STRICT, WITHOUT ROWID", [("y", 1), ("x", b"2")], [("x", b"2"), ("y", 1)]),
            ("CREATE TABLE t(a REAL, b BLOB) STRICT", [(1, b"x"), (decimal.Decimal("1.5"), b"")], [(1.0, b"x"), (1.5, b"")]),
            ("CREATE VIRTUAL TABLE t USING fts5(a, b)", [("one", "two")], [("one", "two")]),
            ("CREATE VIRTUAL TABLE t USING rtree(a, b, c)", [(2, 0.0, 1.0), (1, 3.0, 4.0)], [(1, 3.0, 4.0), (2, 0.0, 1.0)]),
        ]
        for table, data, wanted in cases:
            with self.subTest(table):
                con = self.memory(table)
                self.assertEqual(densite.insert(con, "t", data), len(wanted))
                self.assertEqual(sorted(self.rows(con), key=str), sorted(wanted, key=str))
        con = self.memory("CREATE TABLE t(a, b AS (a * 2))", "CREATE VIEW v AS SELECT a FROM t")
        for table, data, words in (("t", {"b": [1]}, "t has no column b; its columns are a"), ("v", [(1,)], "cannot modify v"), ("sqlite_schema", [(1,) * 5], "may not be modified")):
            with self.subTest(words), self.assertRaisesRegex(sqlite3.OperationalError, words):
                densite.insert(con, table, data)


class Values(Files):
    def test_frames_of_pandas_as_they_come(self):
        pandas = self.library("pandas")
        self.library("pyarrow")
        frame = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, None]})
        con = self.memory("CREATE TABLE t(a, b)")
        # Rows that were picked have an index, which is no column; one with a name is.
        densite.insert(con, "t", frame[frame.a > 1])
        for few in ([0], [2, 0]):
            densite.insert(con, "t", frame.set_index("a").iloc[few])
        # Of several types, which Arrow has no column for.
        densite.insert(con, "t", pandas.DataFrame({"a": [7, "x"], "b": [b"y", datetime.date(2024, 2, 29)]}, index=[5, 6]))
        self.assertEqual(self.rows(con), [(2, 1.5), (3, None), (1, 0.5), (3, None), (1, 0.5), (7, b"y"), ("x", "2024-02-29")])
        # With names, one of them a column's too; and as keys.
        two = frame.set_index(["a", "b"], drop=False).rename_axis(["a", "c"]).assign(b=9)
        other = self.memory("CREATE TABLE t(a, b, c)")
        densite.insert(other, "t", two.iloc[:1])
        self.assertEqual(self.rows(other), [(1, 9, 0.5)])
        self.assertEqual(densite.query(con, "SELECT * FROM keys", keys=frame[["a"]][frame.a != 2]).fetchall(), [(1,), (3,)])

    def test_both_kinds_of_dates_of_arrow_are_dates(self):
        pa = self.library("pyarrow")
        con = self.memory("CREATE TABLE t(a, b)")
        days = [datetime.date(2024, 2, 29), None, datetime.date(1969, 12, 31)]
        densite.insert(con, "t", pa.table({"a": pa.array(days, pa.date32()), "b": pa.array(days, pa.date64())}))
        self.assertEqual(self.rows(con), [("2024-02-29",) * 2, (None, None), ("1969-12-31",) * 2])

    def test_batches_that_are_not_of_their_schema(self):
        pa = self.library("pyarrow")
        con = self.memory("CREATE TABLE t(a)")
        # Their text would be read as numbers.
        reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), iter([pa.record_batch({"a": [1]}), pa.record_batch({"a": ["x"]})]))
        with self.assertRaisesRegex(sqlite3.OperationalError, "does not fit its schema"):
            densite.insert(con, "t", reader)
        self.assertEqual(self.rows(con), [])

    def test_a_bad_value_of_a_dictionary_is_that_of_its_row(self):
        pa = self.library("pyarrow")
        con = self.memory("CREATE TABLE t(a)")
        texts = pa.Array.from_buffers(pa.utf8(), 3, pa.array([b"\xff", b"ok", b"\xfe"], pa.binary()).buffers())

        def table(*indices):
            return pa.table({"a": pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), texts)})

        with self.assertRaisesRegex(sqlite3.DataError, r'column a, row 3: text that is not UTF-8 from byte 0 on: b"\\xfe"'):
            densite.insert(con, "t", table(1, None, 1, 2, 0))
        self.assertEqual(self.rows(con), [])
        # One that no row has, as slices of a larger table have them.
        densite.insert(con, "t", table(1, None, 1))
        self.assertEqual(self.rows(con), [("ok",), (None,), ("ok",)])

    def test_python_values(self):
        con = self.memory("CREATE TABLE t(a, n NUMERIC)")
        zone = datetime.timezone(datetime.timedelta(hours=-5))
        given = [
            (datetime.date(2024, 2, 29), "2024-02-29"),
            (datetime.datetime(2024, 2, 29, 1, 2, 3), "2024-02-29 01:02:03"),
            (datetime.datetime(2024, 2, 29, 1, 2, 3, 40, zone), "2024-02-29 06:02:03.000040+00:00"),
            (datetime.time(1, 2, 3), "01:02:03"),
            (decimal.Decimal("1E+3"), "1000"),
            (decimal.Decimal("0.10"), "0.10"),
            (True, 1),
            (-(2**63), -(2**63)),
            (float("inf"), float("inf")),
            (bytearray(b"x"), b"x"),
            ("ä\0ö", "ä\0ö"),
            (None, None),
        ]
        densite.insert(con, "t", [(value, 0) for value, _ in given])
        self.assertEqual([a for (a,) in self.rows(con, "SELECT a FROM t")], [stored for _, stored in given])
        densite.insert(con, "t", {"n": [decimal.Decimal("12.50"), decimal.Decimal("7.00")]})
        self.assertEqual(self.rows(con, "SELECT n, typeof(n) FROM t WHERE a IS NULL AND n > 0"), [(12.5, "real"), (7, "integer")])

    def test_dates_compare_with_sqlite_s_own(self):
        con = self.memory("CREATE TABLE t(a)")
        seed = random.randrange(1 << 30)
        choose = random.Random(seed)
        days = [datetime.date.fromordinal(choose.randrange(1, datetime.date.max.toordinal())) for _ in range(500)]
        densite.insert(con, "t", [(day,) for day in days])
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t WHERE date(a) IS NOT a"), [(0,)], f"seed {seed}")

    def test_what_does_not_fit_is_named_and_nothing_is_inserted(self):
        con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT NOT NULL, c INTEGER CHECK (c < 10)) STRICT")
        good = [(n, "x", 1) for n in range(100)]
        cases = [
            ([*good, (2**64, "x", 1)], sqlite3.DataError, "column a, row 100: 18446744073709551616 does not fit"),
            ([*good, (200, "\udcff", 1)], sqlite3.DataError, "column b, row 100: .* lone surrogate"),
            ([*good, (200, "x", object())], sqlite3.ProgrammingError, "column c, row 100: a value of type object"),
            ([*good, (50, "x", 1)], sqlite3.IntegrityError, "row 100: UNIQUE constraint failed: t.a; a is 50"),
            ([*good, (200, None, 1)], sqlite3.IntegrityError, "row 100: NOT NULL constraint failed: t.b; b is NULL"),
            ([*good, (200, "x", 11)], sqlite3.IntegrityError, "row 100: CHECK constraint failed"),
            ([*good, (200, "x", "y")], sqlite3.IntegrityError, "row 100: cannot store TEXT value in INTEGER column t.c; c is \"y\""),
            ([*good, (200, "x")], sqlite3.ProgrammingError, "row 100 has 2 values, and there are 3 columns: a, b, c"),
            ([{"a": 1, "b": "x"}, {"a": 2}], sqlite3.ProgrammingError, "row 1 has no 'b'"),
            ([{"a": 1}, {"a": 2, "b": "x"}], sqlite3.ProgrammingError, "row 1 has 'b'"),
            ({"a": [1], "x": [2]}, sqlite3.OperationalError, "table t has no column x; its columns are a, b, c"),
            ({"a": [1, 2], "b": ["x"]}, sqlite3.DataError, "column b has 1 rows, and those before it have 2"),
            ({"a": [1], "A": [2]}, sqlite3.ProgrammingError, "a column twice"),
            ({"a": "text"}, sqlite3.ProgrammingError, "column a is a single str"),
            (7, sqlite3.ProgrammingError, "neither columns nor rows"),
            (["text"], sqlite3.ProgrammingError, "row 0 is of type str"),
            ([*good, "abc"], sqlite3.ProgrammingError, "row 100 is of type str; rows are tuples or lists"),
            ([*good, {"a": 1, "b": "x", "c": 1}], sqlite3.ProgrammingError, "row 100 is of type dict"),
            ([*good, iter((1, "x", 1))], sqlite3.ProgrammingError, "row 100 is of type tuple_iterator"),
            ([{1, 2, 3}], sqlite3.ProgrammingError, "row 0 is of type set"),
            ([(datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-5))), "x", 1)], sqlite3.DataError, "row 0: .* beyond the years"),
            ([*good, ("y", "x", 1)], sqlite3.IntegrityError, "row 100: datatype mismatch; a is \"y\""),
            ([(decimal.Decimal("NaN"), "x", 1)], sqlite3.DataError, "column a, row 0: the decimal NaN"),
        ]
        for data, error, words in cases:
            with self.subTest(words), self.assertRaisesRegex(error, words):
                densite.insert(con, "t", data)
            self.assertEqual(self.rows(con), [])
            self.assertFalse(con.in_transaction)
        with self.assertRaisesRegex(sqlite3.OperationalError, "no such table: nowhere"):
            densite.insert(con, "nowhere", good)
        with self.assertRaisesRegex(sqlite3.ProgrammingError, "on_conflict is 'update'; use one of abort"):
            densite.insert(con, "t", good, "update")

    def test_what_does_not_fit_in_arrays(self):
        numpy, pa = self.library("numpy"), self.library("pyarrow")
        con = self.memory("CREATE TABLE t(a, b REAL NOT NULL)")
        one = numpy.ones(3)
        text = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(array.array("i", [0, 1, 2, 3])), pa.py_buffer(b"x\xffy")])
        cases = [
            ({"a": numpy.array([1, 2, 2**63], "uint64"), "b": one}, sqlite3.DataError, "column a, row 2: 9223372036854775808 does not fit"),
            ({"a": one, "b": numpy.array([1, numpy.nan, 2])}, sqlite3.IntegrityError, "row 1: NOT NULL .* b is NaN, which SQLite stores as NULL"),
            (pa.table({"a": text, "b": one}), sqlite3.DataError, r'column a, row 1: text that is not UTF-8 from byte 0 on: b"\\xff"'),
            (pa.table({"a": [[1], [2], []], "b": one}), sqlite3.DataError, "column a is a list"),
            ({"a": numpy.ones((3, 2)), "b": one}, sqlite3.ProgrammingError, "column a has 2 dimensions"),
        ]
        for data, error, words in cases:
            with self.subTest(words), self.assertRaisesRegex(error, words):
                densite.insert(con, "t", data)
            self.assertEqual(self.rows(con), [])

    def test_the_row_is_that_of_the_whole_data(self):
        con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY)")
        with self.assertRaisesRegex(sqlite3.IntegrityError, "row 299999: UNIQUE constraint failed: t.a; a is 5"):
            densite.insert(con, "t", ((n if n < 299_999 else 5,) for n in range(300_000)))
        with self.assertRaisesRegex(sqlite3.DataError, "column a, row 299999"):
            densite.insert(con, "t", ((n if n < 299_999 else 2**70,) for n in range(300_000)))
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t"), [(0,)])

    def test_a_source_that_fails(self):
        con = self.memory("CREATE TABLE t(a)")

        def rows():
            yield (1,)
            raise ValueError("the source is broken")

        with self.assertRaisesRegex(ValueError, "the source is broken"):
            densite.insert(con, "t", rows())
        pa = self.library("pyarrow")

        def batches():
            yield pa.record_batch({"a": [1]})
            raise ValueError("the stream is broken")

        with self.assertRaisesRegex(sqlite3.OperationalError, "the stream is broken"):
            densite.insert(con, "t", pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches()))
        self.assertEqual(self.rows(con), [])


class BadInput(Files):
    """What bad input gets: an exception of the right class that names column, row and value, and no row inserted."""

    TABLE = "CREATE TABLE t(a INTEGER NOT NULL PRIMARY KEY, b REAL NOT NULL, c TEXT)"

    def refused(self, error, pattern, data, table=TABLE, con=None, **more):
        con = con or self.memory(table)
        before = self.rows(con)
        with self.assertRaisesRegex(getattr(sqlite3, error), pattern) as caught:
            densite.insert(con, "t", data, **more)
        self.assertIs(type(caught.exception), getattr(sqlite3, error))
        self.assertEqual(self.rows(con), before)
        self.assertFalse(con.in_transaction)

    def test_data_that_breaks_its_own_interface(self):
        class Odd:
            def __init__(self, **methods):
                for name, answer in methods.items():
                    setattr(self, name, lambda requested_schema=None, answer=answer: answer)

        class Zero:
            shape = ()

            def __iter__(self):
                raise TypeError("iteration over a 0-d array")

        for data, words in (
            (Odd(__arrow_c_stream__=5), "int instead of a capsule named arrow_array_stream"),
            (Odd(__arrow_c_array__=5), "int instead of two capsules"),
            (Odd(__arrow_c_array__=(5, 6)), "int instead of a capsule named arrow_schema"),
            (Zero(), "type Zero is neither columns nor rows"),
            ([{}], "row 0 has no columns"),
        ):
            self.refused("ProgrammingError", words, data)
        for name in ("a\0b", "\ud800", ""):
            self.refused("OperationalError", f"t has no column {re.escape(repr(name))}", {name: [1]})

    def test_columns_that_do_not_match(self):
        self.refused("OperationalError", "table t has no column d; its columns are a, b, c", {"a": [1], "b": [1.0], "d": ["x"]})
        with self.assertRaisesRegex(sqlite3.OperationalError, "no such table: u"):
            densite.insert(self.memory(self.TABLE), "u", [(1,)])
        con = self.memory(self.TABLE)
        con.execute("CREATE TEMP TABLE u(a)")
        for name in ("u", "temp.u"):
            with self.assertRaisesRegex(sqlite3.OperationalError, f'no such table: {name}; there is one in the schema temp: insert.con, "u", data, schema="temp".'):
                densite.insert(con, name, [(1,)])
        self.refused("ProgrammingError", "row 1 has 2 values, and there are 3 columns: a, b, c", [(1, 1.0, "x"), (2, 2.0)])
        self.refused("ProgrammingError", "row 1 has no 'b', which the first row has", [{"a": 1, "b": 1.0}, {"a": 2}])
        self.refused("ProgrammingError", "row 1 has 'c', which the first row has not", [{"a": 1, "b": 1.0}, {"a": 2, "b": 1.0, "c": "x"}])
        self.refused("ProgrammingError", "the data has a column twice: a, A", {"a": [1], "A": [2]})
        self.refused("DataError", "column b has 1 rows, and those before it have 2", {"a": [1, 2], "b": [1.0]})
        pandas = self.library("pandas")
        self.refused("ProgrammingError", "the data has a column twice: a, a", pandas.DataFrame([[1, 2]], columns=["a", "a"]))

    def test_an_integer_beyond_64_bits(self):
        self.refused("DataError", f"column a, row 1: {2**63} does not fit", [(1, 0.5, None), (2**63, 0.5, None)])
        self.refused("DataError", f"column a, row 1: -{2**63 + 1} does not fit", {"a": [1, -(2**63) - 1], "b": [0.5, 0.5]})
        numpy = self.library("numpy")
        self.refused("DataError", f"column a, row 1: {2**64 - 1} does not fit", {"a": numpy.array([1, 2**64 - 1], "uint64"), "b": numpy.zeros(2)})

    def test_text_that_is_not_utf8(self):
        self.refused("DataError", "column c, row 1: .*lone surrogate", [(1, 0.5, "x"), (2, 0.5, "\udc80")])
        pyarrow = self.library("pyarrow")
        text = pyarrow.Array.from_buffers(pyarrow.string(), 2, [None, pyarrow.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0"), pyarrow.py_buffer(b"x\xff\xfe")])
        self.refused("DataError", r'column c, row 1: text that is not UTF-8 from byte 0 on: b"\\xff\\xfe"', pyarrow.table({"a": [1, 2], "b": [0.5, 0.5], "c": text}))

    def test_nan_into_not_null(self):
        rows = [(1, 0.5, "x"), (2, float("nan"), "y")]
        self.refused("IntegrityError", "row 1: NOT NULL constraint failed: t.b; b is NaN, which SQLite stores as NULL", rows)
        numpy = self.library("numpy")
        # The number is that of the row as it was handed over, not as it was sorted.
        data = {"a": numpy.array([9, 3, 5]), "b": numpy.array([0.5, numpy.nan, 1.5])}
        self.refused("IntegrityError", "row 1: NOT NULL constraint failed: t.b; b is NaN, which SQLite stores as NULL", data)

    def test_a_constraint_names_row_column_and_value(self):
        con = self.memory(self.TABLE, "INSERT INTO t VALUES (7, 0.5, 'old')")
        self.refused("IntegrityError", "row 2: UNIQUE constraint failed: t.a; a is 7", {"a": [9, 8, 7, 6], "b": [0.5] * 4}, con=con)
        table = "CREATE TABLE t(a, b CHECK (b < 10))"
        self.refused("IntegrityError", "row 1: CHECK constraint failed: b < 10; a is 3, b is 40$", [(1, 2), (3, 40)], table)
        self.refused("IntegrityError", "row 1: datatype mismatch", [(1,), ("x",)], "CREATE TABLE t(a INTEGER PRIMARY KEY)")
        # Where SQLite names no column, the row is shown.
        con = self.memory("CREATE TABLE t(a, b CONSTRAINT small CHECK (b < 10))", "CREATE UNIQUE INDEX i ON t(lower(a))")
        self.refused("IntegrityError", "row 1: CHECK constraint failed: small; a is \"y\", b is 40$", [("x", 2), ("y", 40)], con=con)
        self.refused("IntegrityError", "row 1: UNIQUE constraint failed: index 'i'; b is 3, a is \"X\"$", {"b": [2, 3], "a": ["x", "X"]}, con=con)
        wide = f"CREATE TABLE t({', '.join(f'c{n}' for n in range(12))}, CHECK (c11 < 3))"
        self.refused("IntegrityError", "row 0: CHECK constraint failed: c11 < 3; c0 is 9, .*, c9 is 9, ...$", [(9,) * 12], wide)
        # One that was not given has no value.
        self.refused("IntegrityError", "row 0: NOT NULL constraint failed: t.b; b is not given$", {"a": [1]})

    def test_a_value_longer_than_the_connection_allows(self):
        con = self.memory("CREATE TABLE t(a, b)")
        if not hasattr(con, "setlimit"):
            self.skipTest("setlimit came with Python 3.11")
        con.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
        self.refused("DataError", "row 1: string or blob too big; a is 1, b is a blob of 2000 bytes$", [(0, b""), (1, bytes(2000))], con=con)

    def test_a_foreign_key_names_row_column_and_value(self):
        def tables(child, *more):
            return self.memory("PRAGMA foreign_keys=1", "CREATE TABLE p(x INTEGER PRIMARY KEY, y, z, UNIQUE (y, z))", "INSERT INTO p VALUES (1, 'a', 2), (2, 'b', 3)", child, *more)

        con = tables("CREATE TABLE t(a INTEGER PRIMARY KEY, r REFERENCES p)")
        self.refused("IntegrityError", r"row 1: FOREIGN KEY constraint failed; r is 7, which p has not as x", [(9, 1), (8, 7), (7, None)], con=con)
        con = tables("CREATE TABLE t(a INTEGER PRIMARY KEY, m, n, FOREIGN KEY (m, n) REFERENCES p (y, z))")
        self.refused("IntegrityError", r'row 2: .*; m is "a", n is 3, which p has not as y, z', [(9, "a", 2), (8, None, 5), (7, "a", 3)], con=con)
        # A table that refers to itself, also to rows that come with it.
        con = tables("CREATE TABLE t(a INTEGER PRIMARY KEY, up REFERENCES t(a))")
        self.refused("IntegrityError", r"row 0: .*; up is 5, which t has not as a", [(9, 5), (8, 9), (7, 8)], con=con)
        self.assertEqual(densite.insert(con, "t", [(9, 8), (8, 9), (7, 8)]), 3)
        # Deferred ones are looked at by the commit, which cannot tell; triggers change the order of things but not this.
        con = tables("CREATE TABLE t(a INTEGER PRIMARY KEY, r REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
        self.refused("IntegrityError", "^FOREIGN KEY constraint failed$", [(1, 7)], con=con)
        con = tables("CREATE TABLE t(a INTEGER PRIMARY KEY, r REFERENCES p)", "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END")
        self.refused("IntegrityError", "row 1: .*; r is 7, which p has not as x", [(9, 1), (8, 7)], con=con)

    def test_a_row_may_refer_to_one_that_comes_later_as_within_one_statement(self):
        last = _columns.ITERATOR_ROWS + 10
        tree = "CREATE TABLE t(a INTEGER PRIMARY KEY, up INTEGER REFERENCES t(a))"

        def rows(orphan=None):
            return ((n, orphan if n == last else last) for n in range(1, last + 1))

        def tables(*statements):
            return self.memory("PRAGMA foreign_keys = 1", *statements, "CREATE INDEX i ON t(up)")

        con = tables(tree)
        self.assertEqual(densite.insert(con, "t", rows()), last)
        # Also one that a trigger adds, in SQLite's own statement too.
        by_trigger = (
            "CREATE TABLE p(a INTEGER PRIMARY KEY)",
            "CREATE TABLE t(a INTEGER PRIMARY KEY, up INTEGER REFERENCES p(a))",
            "CREATE TRIGGER g AFTER INSERT ON t WHEN new.up IS NULL BEGIN INSERT INTO p VALUES (new.a); END",
        )
        self.assertEqual(densite.insert(tables(*by_trigger), "t", rows()), last)
        # One that comes nowhere is still named, and one that comes later in an earlier call is not there.
        con = tables(tree)
        with self.assertRaisesRegex(sqlite3.IntegrityError, f"row {last - 1}: FOREIGN KEY constraint failed; up is 0, which t has not as a"):
            densite.insert(con, "t", rows(0))
        self.assertEqual((self.rows(con), con.in_transaction), ([], False))
        with self.assertRaisesRegex(sqlite3.IntegrityError, "row 0: FOREIGN KEY"):
            densite.insert(con, "t", [(1, 2)])
        # Where SQLite does not look there is nothing to be held in memory.
        con = tables(tree)
        con.execute("PRAGMA foreign_keys = 0")
        self.assertEqual(densite.insert(con, "t", rows(0)), last)

    def test_factories_cursors_and_converters_of_the_caller_s_see_nothing_of_ours(self):
        def broken(value):
            raise LookupError("a factory of the caller's")

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
                # Names that are each other's, turned around.
                run('CREATE TABLE t(ab own REFERENCES "Pä", ba UNIQUE, "日" DEFAULT 5)')
                con.commit()
                con.text_factory, con.row_factory = factory, broken
                with self.assertRaisesRegex(sqlite3.IntegrityError, "row 0: FOREIGN KEY constraint failed; ab is 7, which Pä has not as id"):
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

    def test_names_of_every_kind(self):
        # Only A to Z are the same as a to z: É and é are two columns, and the sign of kelvin (whose small letter is k) is none of these.
        con = self.memory("CREATE TABLE t(É, é, k)")
        densite.insert(con, "t", {"É": [1], "é": [2], "K": [3]})
        self.assertEqual(self.rows(con), [(1, 2, 3)])
        with self.assertRaisesRegex(sqlite3.OperationalError, "table t has no column \u212a"):
            densite.insert(con, "t", {"\u212a": [1]})
        for name, words in ((None, "table is None; it is a name"), (b"t", "table is b't'; it is a name")):
            with self.assertRaisesRegex(sqlite3.ProgrammingError, words):
                densite.insert(con, name, [(1, 2, 3)])
        with self.assertRaisesRegex(sqlite3.ProgrammingError, "schema is None; it is a name"):
            densite.insert(con, "t", [(1, 2, 3)], schema=None)
        with self.assertRaisesRegex(sqlite3.ProgrammingError, "on_conflict is None; use one of abort"):
            densite.insert(con, "t", [(1, 2, 3)], None)

    def test_a_trigger_that_refuses(self):
        con = self.memory(self.TABLE, "CREATE TRIGGER g BEFORE INSERT ON t WHEN new.b > 9 BEGIN SELECT RAISE(ABORT, 'too much'); END")
        self.refused("IntegrityError", "^too much$", [(1, 1.0, None), (2, 10.0, None)], con=con)

    def test_a_closed_connection_and_one_of_no_driver(self):
        con = densite.connect(":memory:")
        con.close()
        with self.assertRaisesRegex(sqlite3.ProgrammingError, "closed"):
            densite.insert(con, "t", [(1,)])
        with self.assertRaisesRegex(sqlite3.ProgrammingError, "closed"):
            densite.query(con, "SELECT 1")
        for call in (lambda con: densite.insert(con, "t", [(1,)]), lambda con: densite.query(con, "SELECT 1")):
            with self.assertRaisesRegex(sqlite3.NotSupportedError, "type builtins.object .*use one of sqlite3 or pysqlite3"):
                call(object())
        with self.assertRaisesRegex(sqlite3.NotSupportedError, "type sqlite3.Cursor .*give its connection"):
            densite.insert(self.memory().cursor(), "t", [(1,)])

    def test_whose_exceptions_are_raised(self):
        # A module may have names like a driver's, and a class that is made from sqlite3's.
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
            with self.assertRaisesRegex(sqlite3.NotSupportedError, "type own_database.None is none of a driver"):
                call()

    def test_apsw_is_told_what_works(self):
        apsw = self.library("apsw")
        con = apsw.Connection(":memory:")
        con.execute("CREATE TABLE t(a)")
        for call in (lambda: densite.insert(con, "t", [(1,)]), lambda: densite.query(con, "SELECT a FROM t")):
            with self.assertRaisesRegex(sqlite3.NotSupportedError, "type apsw.Connection .*use one of sqlite3 or pysqlite3"):
                call()
        self.assertEqual(con.execute("SELECT * FROM t").fetchall(), [])
        con.close()

    def test_a_forked_child_is_told_to_open_its_own(self):
        con = self.memory(self.TABLE)
        result = densite.query(con, "SELECT 1 AS n")
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            said = []
            try:
                for call in (
                    lambda: densite.insert(con, "t", [(1, 0.5, None)]),
                    lambda: densite.query(con, "SELECT 1"),
                    result.fetchall,
                    lambda: result.__arrow_c_stream__(),
                ):
                    try:
                        call()
                        said.append("nothing")
                    except sqlite3.ProgrammingError as error:
                        said.append(str(error))
                result.close()
                own = densite.connect(":memory:")
                own.execute("CREATE TABLE t(a)")
                densite.insert(own, "t", [(3,)])
                said.append(str(densite.query(own, "SELECT a FROM t JOIN keys USING (a)", keys={"a": [3]}).fetchall()))
            finally:
                os.write(write, "\n".join(said).encode())
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            said = pipe.read().split("\n")
        os.waitpid(child, 0)
        self.assertEqual(len(said), 5, said)
        for told in said[:4]:
            self.assertRegex(told, f"belongs to process {os.getpid()}, which was forked; open")
        self.assertEqual(said[4], "[(3,)]")
        self.assertEqual(result.fetchall(), [(1,)])


class Conflicts(Files):
    ROWS = ((1, "first"), (2, "two"), (1, "second"))

    def test_each_of_sqlite_s(self):
        for how, rows in {"ignore": [(1, "first"), (2, "two")], "replace": [(1, "second"), (2, "two")]}.items():
            con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
            densite.insert(con, "t", self.ROWS, how)
            self.assertEqual(self.rows(con), rows)
        for how in ("abort", "fail", "rollback"):
            con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
            with self.assertRaises(sqlite3.IntegrityError):
                densite.insert(con, "t", self.ROWS, how)
            self.assertEqual(self.rows(con), [])

    def test_ignored_rows_are_not_counted(self):
        con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
        self.assertEqual(densite.insert(con, "t", self.ROWS, "ignore"), 2)

    def test_order_is_kept_where_it_matters(self):
        # Two unique keys: which rows replace which depends on their order.
        con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE)")
        plain = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE)")
        seed = random.randrange(1 << 30)
        choose = random.Random(seed)
        rows = [(choose.randrange(50), choose.randrange(50)) for _ in range(400)]
        for how in ("replace", "ignore"):
            densite.insert(con, "t", rows, how)
            plain.executemany(f"INSERT OR {how} INTO t VALUES (?, ?)", rows)
            self.assertEqual(self.rows(con), self.rows(plain), f"seed {seed}")

    def test_of_keys_that_are_equal_in_the_table_alone_the_same_one_stays_as_in_sqlite(self):
        numpy = self.library("numpy")
        seed = random.randrange(1 << 30)
        choose = random.Random(seed)
        values = ["a", "a ", "A", "b", 1, "1", "01", 1.0, "1.0", b"1", 2**53, 2**53 + 1, float(2**53), 0.1 + 0.2, 0.3, "0.3", -1, "-1"]
        keys = ["TEXT", "TEXT COLLATE RTRIM", "TEXT COLLATE NOCASE", "REAL", "NUMERIC", "BLOB", "", "VARCHAR(3) COLLATE own", "ANY"]
        tables = [f"CREATE TABLE t(k {key} PRIMARY KEY, v)" for key in keys] + [
            "CREATE TABLE t(k TEXT, v, UNIQUE(k COLLATE RTRIM))",
            "CREATE TABLE t(k ANY PRIMARY KEY, v ANY) STRICT",
            "CREATE TABLE t(k TEXT PRIMARY KEY, v) WITHOUT ROWID",
        ]

        def result(table, insert):
            con = self.memory()
            con.create_collation("own", lambda a, b: (a[:1] > b[:1]) - (a[:1] < b[:1]))
            con.execute(table)
            insert(con)
            return self.rows(con, "SELECT k, typeof(k), v FROM t ORDER BY v")

        for table in tables:
            for how in ("replace", "ignore"):
                for some in (values, ["a", "a ", "A", "b"], [1, 1.0, 2], ["1", "01", "1.0", "2"], [1, "1", 2]):
                    rows = [(choose.choice(some), v) for v in range(20)]
                    wanted = result(table, lambda con: con.executemany(f"INSERT OR {how} INTO t VALUES (?, ?)", rows))
                    for data in (rows, {"k": numpy.array([k for k, _ in rows], object), "v": numpy.arange(20)}):
                        self.assertEqual(result(table, lambda con: densite.insert(con, "t", data, how)), wanted, f"{table} {how} {rows}, seed {seed}")
        # Integers: their key tells the whole order.
        table = "CREATE TABLE t(k INTEGER PRIMARY KEY, v)"
        rows = [("2", 1), (3, 2), (2, 3), ("02", 4)]
        wanted = result(table, lambda con: con.executemany("INSERT OR REPLACE INTO t VALUES (?, ?)", rows))
        self.assertEqual(result(table, lambda con: densite.insert(con, "t", rows, "replace")), wanted)

    def test_a_row_without_its_number_gets_the_next_one_as_in_sqlite(self):
        seed = random.randrange(1 << 30)
        choose = random.Random(seed)
        nothing = (None, float("nan"))
        for number in range(60):
            table = f"CREATE TABLE t(a INTEGER PRIMARY KEY {choose.choice(('', 'AUTOINCREMENT'))}, b)"
            how = choose.choice(("abort", "ignore", "replace"))
            rows = [(choose.choice((*nothing, choose.randrange(1, 12))), n) for n in range(choose.randrange(1, 8))]
            found = []
            for insert in (lambda con: densite.insert(con, "t", rows, how), lambda con: con.executemany(f"INSERT OR {how} INTO t VALUES (?, ?)", rows)):
                con = self.memory(table)
                try:
                    insert(con)
                    con.commit()
                except sqlite3.IntegrityError:
                    con.rollback()
                found.append(self.rows(con))
            self.assertEqual(*found, f"{table} {how} {rows}, seed {seed}")

    def test_a_row_that_is_replaced_takes_those_with_it_that_sqlite_says(self):
        con = self.memory("PRAGMA foreign_keys = ON", "CREATE TABLE t(id INTEGER PRIMARY KEY, up REFERENCES t ON DELETE CASCADE)", "INSERT INTO t VALUES (1, NULL)")
        densite.insert(con, "t", [(2, 1), (1, None)], "replace")
        self.assertEqual(self.rows(con), [(1, None)])
        # Also by way of another table.
        con = self.memory(
            "PRAGMA foreign_keys = ON",
            "CREATE TABLE p(id INTEGER PRIMARY KEY, of REFERENCES t ON DELETE CASCADE)",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, up REFERENCES p ON DELETE CASCADE)",
            "INSERT INTO t VALUES (1, NULL)",
            "INSERT INTO p VALUES (5, 1)",
        )
        densite.insert(con, "t", [(2, 5), (1, None)], "replace")
        self.assertEqual((self.rows(con), self.rows(con, "SELECT * FROM p")), ([(1, None)], []))

    def test_rows_go_in_sorted(self):
        con = self.memory("CREATE TABLE t(a TEXT COLLATE NOCASE, b, PRIMARY KEY (a, b DESC))")
        seed = random.randrange(1 << 30)
        choose = random.Random(seed)
        values = [None, 3, -1, 2.5, "B", "a", "äö", "AB", b"x", 2**62, -0.0, 1e300]
        rows = list({(str(choose.choice(values)), choose.choice(values)): None for _ in range(2000)})
        choose.shuffle(rows)
        densite.insert(con, "t", rows)
        by_rowid = self.rows(con, "SELECT a, b FROM t ORDER BY rowid")
        self.assertEqual(by_rowid, self.rows(con, "SELECT a, b FROM t ORDER BY a, b DESC, rowid"), f"seed {seed}")

    def test_numbers_go_in_sorted(self):
        numpy = self.library("numpy")
        seed = random.randrange(1 << 30)
        choose = numpy.random.default_rng(seed)
        n = 20_000
        for a, b in (
            (choose.integers(-50, 50, n), choose.integers(0, 200, n)),
            (choose.integers(-(2**62), 2**62, n), choose.integers(0, 2, n)),
            (choose.integers(0, 5, n), choose.normal(size=n)),
            (numpy.where(choose.random(n) < 0.1, numpy.nan, choose.normal(size=n).round(2)), choose.integers(0, 2**40, n)),
        ):
            con = self.memory("CREATE TABLE t(a, b, n, PRIMARY KEY (a, b, n))")
            densite.insert(con, "t", {"n": numpy.arange(n), "b": b, "a": a})
            by_rowid = self.rows(con, "SELECT a, b, n FROM t ORDER BY rowid")
            self.assertEqual(by_rowid, self.rows(con, "SELECT a, b, n FROM t ORDER BY a, b, n"), f"seed {seed}")


class Transactions(Files):
    def test_within_the_callers(self):
        con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY)")
        con.execute("INSERT INTO t VALUES (1)")
        self.assertTrue(con.in_transaction)
        densite.insert(con, "t", [(2,), (3,)])
        with self.assertRaises(sqlite3.IntegrityError):
            densite.insert(con, "t", [(4,), (1,)])
        self.assertTrue(con.in_transaction)
        self.assertEqual(self.rows(con), [(1,), (2,), (3,)])
        with self.assertRaises(sqlite3.IntegrityError):
            densite.insert(con, "t", [(4,), (1,)], "rollback")
        self.assertFalse(con.in_transaction)
        self.assertEqual(self.rows(con), [])
        con.execute("INSERT INTO t VALUES (1)")
        densite.insert(con, "t", [(2,)])
        con.rollback()
        self.assertEqual(self.rows(con), [])

    def test_on_a_densite_file_by_any_isolation_level(self):
        for n, level in enumerate(("", None, "IMMEDIATE")):
            path = self.dir / f"{n}.db"
            con = densite.connect(path, isolation_level=level)
            con.execute("CREATE TABLE t(a)")
            con.commit()
            densite.insert(con, "t", [(1,), (2,)])
            self.assertFalse(con.in_transaction)
            other = densite.connect(path)
            self.assertEqual(self.rows(other), [(1,), (2,)])
            other.close()
            con.close()

    def test_with_the_autocommit_attribute(self):
        if sys.version_info < (3, 12):
            # Without it the isolation level tells when a transaction begins.
            return
        for mode, open_then, stays in ((True, False, [(1,), (2,)]), (False, True, [])):
            path = self.dir / f"{mode}.db"
            con = densite.connect(path, autocommit=mode)
            con.execute("CREATE TABLE t(a PRIMARY KEY)")
            if not mode:
                con.commit()
            self.assertEqual(densite.insert(con, "t", [(1,), (2,)]), 2)
            self.assertEqual(con.in_transaction, open_then)
            with self.assertRaises(sqlite3.IntegrityError):
                densite.insert(con, "t", [(3,), (1,)])
            self.assertEqual((self.rows(con), con.in_transaction), ([(1,), (2,)], open_then))
            con.rollback()
            self.assertEqual(self.rows(con), stays)
            con.close()

    def test_a_locked_database(self):
        path = self.dir / "l.db"
        con = densite.connect(path, timeout=0.05)
        con.execute("CREATE TABLE t(a)")
        con.commit()
        other = densite.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with self.assertRaisesRegex(sqlite3.OperationalError, "locked"):
            densite.insert(con, "t", [(1,)])
        other.execute("ROLLBACK")
        self.assertEqual(densite.insert(con, "t", [(1,)]), 1)
        other.close()
        con.close()

    def test_attached_and_temp(self):
        con = self.memory("CREATE TEMP TABLE tt(a)", "ATTACH ':memory:' AS \"o'x\"", "CREATE TABLE \"o'x\".\"t \"\"t\"(\"a \"\"b\")")
        densite.insert(con, "tt", [(1,)], schema="temp")
        densite.insert(con, 't "t', {'a "b': [2]}, schema="o'x")
        self.assertEqual(self.rows(con, "SELECT * FROM tt"), [(1,)])
        self.assertEqual(self.rows(con, "SELECT * FROM \"o'x\".\"t \"\"t\""), [(2,)])

    def test_connections_that_cannot(self):
        con = densite.connect(":memory:")
        con.close()
        with self.assertRaises(sqlite3.ProgrammingError):
            densite.insert(con, "t", [(1,)])
        with self.assertRaisesRegex(sqlite3.NotSupportedError, "a connection of type builtins.object"):
            densite.insert(object(), "t", [(1,)])

    def test_pysqlite3(self):
        driver = self.library("pysqlite3")
        densite.attach(driver)
        con = driver.connect(":memory:")
        con.execute("CREATE TABLE t(a PRIMARY KEY)")
        self.assertEqual(densite.insert(con, "t", [(2,), (1,)]), 2)
        with self.assertRaises(driver.IntegrityError):
            densite.insert(con, "t", [(1,)])
        self.assertEqual(densite.query(con, "SELECT a FROM t JOIN keys USING (a)", keys={"a": [2, 3]}).fetchall(), [(2,)])
        con.close()


class Progress(Files):
    def test_it_is_told_and_can_stop(self):
        con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY)")
        seen = []
        densite.insert(con, "t", [(n,) for n in range(200_000)], progress=seen.append)
        self.assertEqual(seen, [65_536, 131_072, 196_608, 200_000])

        def stop(rows):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            densite.insert(con, "t", [(n,) for n in range(200_000, 400_000)], progress=stop)
        self.assertFalse(con.in_transaction)
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t"), [(200_000,)])

    def test_what_it_stops_leaves_the_caller_s_transaction_as_it_was(self):
        def stop(rows):
            raise LookupError("enough")

        # A plain table, and one for which SQLite reads all rows first.
        for more in ((), ("CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",)):
            con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY)", *more)
            con.execute("INSERT INTO t VALUES (-1)")
            for how in ("abort", "ignore", "replace", "rollback"):
                with self.subTest((more, how)):
                    with self.assertRaisesRegex(LookupError, "enough"):
                        densite.insert(con, "t", {"a": array.array("q", range(200_000))}, on_conflict=how, progress=stop)
                    self.assertEqual((self.rows(con), con.in_transaction), ([(-1,)], True))
            con.commit()
            self.assertEqual(self.rows(con), [(-1,)])

    def test_a_source_that_raises_late_leaves_nothing(self):
        def source():
            yield from ((n,) for n in range(_columns.ITERATOR_ROWS + 1))
            raise LookupError("no more")

        for begun in (False, True):
            con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY)")
            if begun:
                con.execute("INSERT INTO t VALUES (-1)")
            with self.assertRaisesRegex(LookupError, "no more"):
                densite.insert(con, "t", source())
            self.assertEqual((self.rows(con), con.in_transaction), ([(-1,)] * begun, begun))
            self.assertEqual(densite.insert(con, "t", [(1,)]), 1)

    def test_ctrl_c_is_passed_on_and_nothing_is_inserted(self):
        con = self.memory("CREATE TABLE t(a)")
        began = threading.Event()
        # While no Python code runs but for the callback.
        with self.ctrl_c(began, after=0.02):
            densite.insert(con, "t", {"a": array.array("q", range(4_000_000))}, progress=lambda rows: began.set())
        self.assertEqual((self.rows(con), con.in_transaction), ([], False))

    def test_memory_is_given_back(self):
        numpy, resource = self.library("numpy"), self.library("resource")
        con = self.memory("CREATE TABLE t(a, b)")
        column = numpy.arange(1_000_000)
        for _ in range(3):
            densite.insert(con, "t", {"a": column, "b": column.astype("datetime64[s]")})
            con.execute("DELETE FROM t")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(6):
            densite.insert(con, "t", {"a": column, "b": column.astype("datetime64[s]")})
            con.execute("DELETE FROM t")
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 60_000, "KiB more after six more inserts")

    def test_sorting_pays(self):
        numpy = self.library("numpy")
        n = 200_000
        order = numpy.random.default_rng(5).permutation(n)
        rows = list(zip((order // 400).tolist(), (order % 400).tolist(), [0.5] * n))
        con = self.memory(RESULT)
        start = time.process_time()
        densite.insert(con, "t", {"a": order // 400, "b": order % 400, "val": numpy.full(n, 0.5)})
        ours = time.process_time() - start
        other = self.memory(RESULT)
        start = time.process_time()
        other.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        self.assertLess(ours * 1.5, time.process_time() - start)
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t"), [(n,)])


if __name__ == "__main__":
    unittest.main()

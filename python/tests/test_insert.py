"""densite.insert: data of every shape and type."""

import array
import datetime
import decimal
import functools
import itertools
import random
import sqlite3
import unittest

import densite
from support import Files

RESULT = "CREATE TABLE t(a INTEGER, b INTEGER, val REAL, PRIMARY KEY (a, b)) WITHOUT ROWID"


class Shapes(Files):
    def test_lists_of_tuples_and_dicts_and_iterators_are_inserted(self):
        con = self.memory(RESULT)
        self.assertEqual(densite.insert(con, "t", [(2, 1, 0.5), (1, 2, None), (1, 1, 3)]), 3)
        self.assertFalse(con.in_transaction)
        self.assertEqual(densite.insert(con, "t", [{"val": 1.5, "b": 0, "a": 0}, {"val": None, "b": 1, "a": 0}]), 2)
        self.assertEqual(densite.insert(con, "t", ((n, n, n / 2) for n in range(10, 400_000))), 399_990)
        self.assertEqual(self.rows(con)[:5], [(0, 0, 1.5), (0, 1, None), (1, 1, 3.0), (1, 2, None), (2, 1, 0.5)])
        self.assertEqual(self.rows(con, "SELECT count(*), sum(b) FROM t WHERE a >= 10"), [(399_990, sum(range(10, 400_000)))])

    def test_columns_of_python_values_and_buffers_are_inserted(self):
        con = self.memory("CREATE TABLE t(a, b, c, d)")
        data = {"a": array.array("i", [1, 2]), "b": memoryview(array.array("d", [0.5, 1.5])), "c": ["x", None], "d": (b"\0", True)}
        self.assertEqual(densite.insert(con, "t", data), 2)
        self.assertEqual(self.rows(con), [(1, 0.5, "x", b"\0"), (2, 1.5, None, 1)])
        self.assertEqual(densite.insert(con, "t", {"b": memoryview(bytes([7, 8]))}), 2)
        self.assertEqual(self.rows(con, "SELECT a, b FROM t WHERE rowid > 2"), [(None, 7), (None, 8)])

    def test_empty_data_inserts_nothing(self):
        con = self.memory(RESULT)
        for data in ([], {}, {"a": [], "b": [], "val": []}, iter(())):
            self.assertEqual(densite.insert(con, "t", data), 0)

    def test_sqlite3_rows_and_views_with_triggers_are_accepted(self):
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

    def test_numpy_arrays_are_inserted(self):
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

    def test_times_of_numpy_have_the_same_text_in_every_memory_layout(self):
        numpy = self.library("numpy")
        con = self.memory("CREATE TABLE t(a, b)")

        def stored(values):
            con.execute("DELETE FROM t")
            densite.insert(con, "t", {"a": values})
            return [a for a, _ in self.rows(con)]

        for unit, wanted in (
            ("ms", "2024-02-29 12:30:00.500"),
            ("10ms", "2024-02-29 12:30:00.500"),
            ("us", "2024-02-29 12:30:00.500"),
            ("ns", "2024-02-29 12:30:00.500"),
        ):
            with self.subTest(unit):
                at = numpy.array(["2024-02-29T12:30:00.5", "NaT"], "datetime64[ms]").astype(f"datetime64[{unit}]")
                for values in (at, at.astype(at.dtype.newbyteorder(">")), numpy.repeat(at, 2)[::2], list(at)):
                    self.assertEqual(stored(values), [wanted, None])
                self.assertEqual(stored(numpy.broadcast_to(at[:1], 2)), [wanted, wanted])
                self.assertEqual(stored(numpy.ma.masked_array(at[[0, 0]], [False, True])), [wanted, None])
        self.assertEqual(stored(numpy.array([5 * 10**11], "datetime64[ps]")), ["1970-01-01 00:00:00.500"])
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
                with self.assertRaisesRegex(sqlite3.DataError, "column a, row 1: .* is not exact in a unit that can be stored"):
                    densite.insert(con, "t", {"a": shape})

    def test_types_of_numpy_without_a_python_type_are_refused(self):
        numpy = self.library("numpy")
        con = self.memory("CREATE TABLE t(a)")
        for value in (numpy.longdouble(1), numpy.clongdouble(1), datetime.timedelta(1)):
            for data in ([(value,)], {"a": numpy.array([value])}):
                with self.assertRaisesRegex(sqlite3.DataError, "column a, row 0: a value of type .* cannot be stored by SQLite"):
                    densite.insert(con, "t", data)

        class Elsewhere(list):
            """The interface allows an object with a buffer instead of an address."""

            __array_interface__ = {"shape": (2,), "typestr": "<i8", "data": bytearray(16), "version": 3}

        densite.insert(con, "t", {"a": Elsewhere([7, 8])})
        self.assertEqual(self.rows(con), [(7,), (8,)])

    def test_columns_that_are_pandas_series_are_inserted(self):
        pandas = self.library("pandas")
        con = self.memory("CREATE TABLE t(a, b)")
        columns = {"a": pandas.Series([2**60 + 1, None], dtype="Int64"), "b": pandas.Series(["x", None], dtype="string")}
        densite.insert(con, "t", columns)
        densite.insert(con, "t", [(1, pandas.NA), (2, pandas.NaT)])
        self.assertEqual(self.rows(con), [(2**60 + 1, "x"), (None, None), (1, None), (2, None)])
        with self.assertRaisesRegex(sqlite3.DataError, "column a, row 0: a value of type Timedelta"):
            densite.insert(con, "t", [(pandas.Timedelta(1, "s"), 1)])

    def test_every_type_of_arrow_is_inserted(self):
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
        # Slices have offsets, tables have several batches, and a single batch is accepted.
        con.execute("DELETE FROM t")
        densite.insert(con, "t", pa.concat_tables([table.slice(1, 2), table.slice(0, 1)]))
        self.assertEqual(sorted(self.rows(con), key=str), sorted(rows, key=str))
        con.execute("DELETE FROM t")
        densite.insert(con, "t", table.to_batches()[0].slice(2))
        self.assertEqual(self.rows(con), rows[2:])
        # Empty columns of every type, and a dictionary without values.
        self.assertEqual(densite.insert(con, "t", table.slice(0, 0)), 0)
        empty = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string()))
        self.assertEqual(densite.insert(con, "t", pa.table({"cat": empty})), 2)
        # Rows that are NULL as a whole are refused, also if the null count is unknown.
        structs = pa.array([{"i": 1}, None, {"i": 3}])
        for data in (structs, structs.slice(0, 3), structs.slice(1, 2)):
            with self.assertRaisesRegex(sqlite3.Error, "NULL as a whole"):
                densite.insert(con, "t", data)
        self.assertEqual(densite.insert(con, "t", structs.slice(2, 1)), 1)

    def test_frames_of_polars_pandas_and_duckdb_are_inserted(self):
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

    def test_numpy_arrays_of_every_type_and_memory_layout_are_inserted(self):
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

    def test_tables_of_every_kind_are_filled(self):
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
    def test_a_column_of_several_types_is_stored_as_by_sqlite3_in_any_order(self):
        inputs = {"rows": lambda values: [(value,) for value in values], "columns": lambda values: {"a": list(values)}}
        for name, made in (
            ("numpy", lambda numpy, values: {"a": numpy.fromiter(values, object, len(values))}),
            ("pandas", lambda pandas, values: pandas.DataFrame({"a": list(values)}, dtype=object)),
            ("polars", lambda polars, values: polars.DataFrame({"a": polars.Series(values, dtype=polars.Object)})),
        ):
            inputs[name] = functools.partial(made, self.library(name))
        for values in ((1, 2.5, "x"), (1, 2.0, None), (b"x", "x", 3), (1, 0.1 + 0.2, "5"), (True, 7, 0.5)):
            for order in itertools.permutations(values):
                for kind in ("", "TEXT", "INTEGER", "REAL", "BLOB", "NUMERIC"):
                    con = self.memory(f"CREATE TABLE t(a {kind})")
                    con.executemany("INSERT INTO t VALUES (?)", [(value,) for value in order])
                    wanted = self.rows(con)
                    for name, made in inputs.items():
                        con.execute("DELETE FROM t")
                        densite.insert(con, "t", made(order))
                        self.assertEqual(list(map(repr, self.rows(con))), list(map(repr, wanted)), (name, order, kind))
                    con.close()

    def test_objects_are_refused_with_their_type(self):
        pandas, polars = self.library("pandas"), self.library("polars")
        con = self.memory("CREATE TABLE t(a)")
        for values in ([1, object()], ["x", [1]], [(1,), 2], [{}, 0.5], [1j, 1]):
            frames = [pandas.DataFrame({"a": values}, dtype=object), polars.DataFrame({"a": polars.Series(values, dtype=polars.Object)})]
            for data in (*frames, {"a": values}, [(value,) for value in values]):
                with self.assertRaisesRegex(sqlite3.DataError, "column a, row [01]: a value of type"):
                    densite.insert(con, "t", data)
        self.assertEqual(self.rows(con), [])

    def test_pandas_frames_with_an_index_are_inserted(self):
        pandas = self.library("pandas")
        self.library("pyarrow")
        frame = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, None]})
        con = self.memory("CREATE TABLE t(a, b)")
        # An index without a name, as of selected rows, does not become a column. A named one does.
        densite.insert(con, "t", frame[frame.a > 1])
        for few in ([0], [2, 0]):
            densite.insert(con, "t", frame.set_index("a").iloc[few])
        # A column of several types, which Arrow cannot represent.
        densite.insert(con, "t", pandas.DataFrame({"a": [7, "x"], "b": [b"y", datetime.date(2024, 2, 29)]}, index=[5, 6]))
        self.assertEqual(self.rows(con), [(2, 1.5), (3, None), (1, 0.5), (3, None), (1, 0.5), (7, b"y"), ("x", "2024-02-29")])
        # Index levels with names, one of which is also a column; and a frame as keys.
        two = frame.set_index(["a", "b"], drop=False).rename_axis(["a", "c"]).assign(b=9)
        other = self.memory("CREATE TABLE t(a, b, c)")
        densite.insert(other, "t", two.iloc[:1])
        self.assertEqual(self.rows(other), [(1, 9, 0.5)])
        self.assertEqual(densite.query(con, "SELECT * FROM keys", keys=frame[["a"]][frame.a != 2]).fetchall(), [(1,), (3,)])

    def test_date32_and_date64_of_arrow_are_stored_as_dates(self):
        pa = self.library("pyarrow")
        con = self.memory("CREATE TABLE t(a, b)")
        days = [datetime.date(2024, 2, 29), None, datetime.date(1969, 12, 31)]
        densite.insert(con, "t", pa.table({"a": pa.array(days, pa.date32()), "b": pa.array(days, pa.date64())}))
        self.assertEqual(self.rows(con), [("2024-02-29",) * 2, (None, None), ("1969-12-31",) * 2])

    def test_a_batch_that_does_not_fit_its_schema_is_refused(self):
        pa = self.library("pyarrow")
        con = self.memory("CREATE TABLE t(a)")
        # Otherwise their text would be read as numbers.
        reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), iter([pa.record_batch({"a": [1]}), pa.record_batch({"a": ["x"]})]))
        with self.assertRaisesRegex(sqlite3.OperationalError, "does not fit its schema"):
            densite.insert(con, "t", reader)
        self.assertEqual(self.rows(con), [])

    def test_a_bad_value_of_a_dictionary_is_reported_for_its_row(self):
        pa = self.library("pyarrow")
        con = self.memory("CREATE TABLE t(a)")
        texts = pa.Array.from_buffers(pa.utf8(), 3, pa.array([b"\xff", b"ok", b"\xfe"], pa.binary()).buffers())

        def table(*indices):
            return pa.table({"a": pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), texts)})

        with self.assertRaisesRegex(sqlite3.DataError, r'column a, row 3: text that is not UTF-8 from byte 0 on: b"\\xfe"'):
            densite.insert(con, "t", table(1, None, 1, 2, 0))
        self.assertEqual(self.rows(con), [])
        # A bad value that no row uses is accepted: slices of a larger table have such values.
        densite.insert(con, "t", table(1, None, 1))
        self.assertEqual(self.rows(con), [("ok",), (None,), ("ok",)])

    def test_python_values_are_stored_as_documented(self):
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

    def test_stored_dates_equal_those_of_sqlite_s_date_function(self):
        con = self.memory("CREATE TABLE t(a)")
        seed = random.randrange(1 << 30)
        choose = random.Random(seed)
        days = [datetime.date.fromordinal(choose.randrange(1, datetime.date.max.toordinal())) for _ in range(500)]
        densite.insert(con, "t", [(day,) for day in days])
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t WHERE date(a) IS NOT a"), [(0,)], f"seed {seed}")

    def test_a_value_that_does_not_fit_is_named_and_nothing_is_inserted(self):
        con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT NOT NULL, c INTEGER CHECK (c < 10)) STRICT")
        good = [(n, "x", 1) for n in range(100)]
        cases = [
            ([*good, (2**64, "x", 1)], sqlite3.DataError, "column a, row 100: 18446744073709551616 does not fit"),
            ([*good, (200, "\udcff", 1)], sqlite3.DataError, "column b, row 100: .* lone surrogate"),
            ([*good, (200, "x", object())], sqlite3.DataError, "column c, row 100: a value of type object"),
            ([*good, (50, "x", 1)], sqlite3.IntegrityError, "row 100: UNIQUE constraint failed: t.a; a is 50"),
            ([*good, (200, None, 1)], sqlite3.IntegrityError, "row 100: NOT NULL constraint failed: t.b; b is NULL"),
            ([*good, (200, "x", 11)], sqlite3.IntegrityError, "row 100: CHECK constraint failed"),
            ([*good, (200, "x", "y")], sqlite3.IntegrityError, "row 100: cannot store TEXT value in INTEGER column t.c; c is \"y\""),
            ([*good, (200, "x")], sqlite3.ProgrammingError, "row 100 has 2 values, but there are 3 columns: a, b, c"),
            ([{"a": 1, "b": "x"}, {"a": 2}], sqlite3.ProgrammingError, "row 1 has no 'b'"),
            ([{"a": 1}, {"a": 2, "b": "x"}], sqlite3.ProgrammingError, "row 1 has 'b'"),
            ({"a": [1], "x": [2]}, sqlite3.OperationalError, "table t has no column x; its columns are a, b, c"),
            ({"a": [1, 2], "b": ["x"]}, sqlite3.DataError, "column b has 1 rows, and those before it have 2"),
            ({"a": [1], "A": [2]}, sqlite3.ProgrammingError, "a column twice"),
            ({"a": "text"}, sqlite3.ProgrammingError, "column a is a single str"),
            (7, sqlite3.ProgrammingError, "neither columns nor rows"),
            (["text"], sqlite3.ProgrammingError, "row 0 is of type str"),
            ([*good, "abc"], sqlite3.ProgrammingError, "row 100 is of type str; give rows as tuples or lists"),
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

    def test_a_value_of_an_array_that_does_not_fit_is_named(self):
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

    def test_an_error_counts_rows_from_the_start_of_all_data(self):
        con = self.memory("CREATE TABLE t(a INTEGER PRIMARY KEY)")
        with self.assertRaisesRegex(sqlite3.IntegrityError, "row 299999: UNIQUE constraint failed: t.a; a is 5"):
            densite.insert(con, "t", ((n if n < 299_999 else 5,) for n in range(300_000)))
        with self.assertRaisesRegex(sqlite3.DataError, "column a, row 299999"):
            densite.insert(con, "t", ((n if n < 299_999 else 2**70,) for n in range(300_000)))
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t"), [(0,)])

    def test_a_source_that_fails_inserts_nothing(self):
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


if __name__ == "__main__":
    unittest.main()

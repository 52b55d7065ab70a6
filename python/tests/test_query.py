"""densite.query."""

import gc
import itertools
import os
import pathlib
import pickle
import random
import sqlite3
import subprocess
import sys
import threading
import unittest

import densite
from densite._columns import sets
from support import Files


class Query(Files):
    def filled(self, n=1000):
        con = self.memory("CREATE TABLE t(a INTEGER, b INTEGER, val REAL, PRIMARY KEY (a, b)) WITHOUT ROWID")
        densite.insert(con, "t", ((i // 100, i % 100, i / 4) for i in range(n)))
        return con

    KEYED = "SELECT k.a, k.b, t.val FROM keys k JOIN t USING (a, b)"

    def test_keys_of_every_shape_are_joined(self):
        con = self.filled()
        wanted = [(0, 5, 1.25), (3, 7, 76.75), (9, 99, 249.75)]
        pairs = [(9, 99), (3, 7), (0, 5), (77, 1)]
        columns = {"a": [a for a, _ in pairs], "b": [b for _, b in pairs]}
        shapes = [columns, [{"a": a, "b": b} for a, b in pairs], ({"a": a, "b": b} for a, b in pairs)]
        try:
            import pyarrow

            shapes.append(pyarrow.table(columns))
        except ImportError:
            pass
        for keys in shapes:
            with densite.query(con, self.KEYED, keys=keys) as result:
                self.assertEqual(result.fetchall(), wanted)
        with densite.query(con, self.KEYED, keys=pairs, columns=("a", "b")) as result:
            self.assertEqual(list(result), wanted)
        with densite.query(con, "SELECT c0, val FROM keys JOIN t ON a = c0 AND b = c1", keys=pairs) as result:
            self.assertEqual((result.fetchone(), result.fetchmany(5)), ((0, 1.25), [(3, 76.75), (9, 249.75)]))

    def test_a_loop_keeps_a_result_without_a_name_alive(self):
        con = self.filled()
        found = []
        for row in densite.query(con, "SELECT a, b FROM t WHERE a < 2"):
            found.append(row)
        self.assertEqual(found, [(i // 100, i % 100) for i in range(200)])
        rows = iter(densite.query(con, "SELECT a, b FROM t"))
        self.assertEqual(next(rows), (0, 0))
        del rows
        con.execute("DROP TABLE t")  # no statement reads it any more

    def test_the_tuples_of_a_loop_have_the_names_of_their_columns(self):
        con = self.filled()
        (row,) = densite.query(con, "SELECT a, count(*) AS n, 1 AS \"class\" FROM t WHERE a = 1")
        self.assertEqual((row, row._fields), ((1, 100, 1), ("a", "n", "class")))
        copy = pickle.loads(pickle.dumps(row))
        self.assertEqual((copy, type(copy)), ((1, 100, 1), tuple))

    def test_repeated_keys_and_null_keys_are_joined_as_in_sqlite(self):
        con = self.filled()
        keys = {"a": [3, None, 1, 3, None, 1.0, "1"], "b": [7, 1, None, 7, None, 2, "2"]}
        outer = "SELECT k.a, k.b, t.val FROM keys k LEFT JOIN t USING (a, b)"
        # In the order of the keys, NULL first. A repeated key comes twice. Numbers and texts
        # compare as in any comparison of SQLite.
        wanted = [(None, None, None), (None, 1, None), (1, None, None), (1, 2, 25.5), (3, 7, 76.75), (3, 7, 76.75), ("1", "2", 25.5)]
        self.assertEqual(densite.query(con, outer, keys=keys).fetchall(), wanted)
        self.assertEqual(densite.query(con, self.KEYED, keys=keys).fetchall(), [row for row in wanted if row[2] is not None])

    def test_the_connection_writes_while_a_stream_is_read(self):
        pa = self.library("pyarrow")
        con = self.filled(150_000)
        for end in (con.commit, con.rollback):
            reader = pa.RecordBatchReader.from_stream(densite.query(con, "SELECT a FROM t WHERE a >= 0"))
            rows = reader.read_next_batch().num_rows
            con.execute("INSERT INTO t VALUES (-1, ?, 0)", (rows + len(str(end)),))
            densite.insert(con, "t", [(-2, rows + len(str(end)), None)])
            with self.assertRaisesRegex(sqlite3.OperationalError, "locked"):
                con.execute("DROP TABLE t")
            end()
            self.assertEqual(rows + sum(batch.num_rows for batch in reader), 150_000)
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t WHERE a < 0"), [(2,)])
        # A reader that is closed early keeps no statement.
        reader = pa.RecordBatchReader.from_stream(densite.query(con, "SELECT a FROM t"))
        reader.read_next_batch()
        reader.close()
        del reader
        con.execute("DROP TABLE t")

    def test_closing_the_connection_ends_cursors_but_not_streams(self):
        self.library("numpy")
        con = self.filled(2000)
        begun, compiled, whole = densite.query(con, "SELECT a FROM t"), densite.query(con, "SELECT a FROM t"), densite.query(con, "SELECT a FROM t")
        rows = iter(begun)
        next(rows)
        con.close()
        for read in (lambda: list(rows), compiled.fetchall):
            with self.assertRaisesRegex(sqlite3.ProgrammingError, "closed"):
                read()
        self.assertEqual(len(whole.to_numpy()["a"]), 2000)

    def test_a_failed_stream_fails_again(self):
        pa = self.library("pyarrow")
        con = self.filled(150_000)
        reader = pa.RecordBatchReader.from_stream(densite.query(con, "SELECT abs(iif(a = 900, -9223372036854775807 - 1, a)) AS x FROM t"))
        self.assertEqual(reader.read_next_batch().num_rows, 65_536)
        for _ in range(2):
            with self.assertRaisesRegex(OSError, "integer overflow"):
                reader.read_next_batch()
        con.execute("DROP TABLE t")

    def test_keys_are_looked_up_through_the_index(self):
        con = self.filled()
        numpy = self.library("numpy")
        n = 100_000
        densite.insert(con, "t", {"a": numpy.arange(n) + 1000, "b": numpy.zeros(n, int), "val": numpy.ones(n)})
        steps = []
        con.set_progress_handler(lambda: steps.append(1) and None, 1000)
        keys = {"a": numpy.arange(1000, 3000), "b": numpy.zeros(2000, int)}
        self.assertEqual(len(densite.query(con, self.KEYED, keys=keys).to_numpy()["a"]), 2000)
        con.set_progress_handler(None, 0)
        self.assertLess(len(steps), 60, "thousands of steps for 2,000 keys: the query scanned the table")

    def test_keys_are_added_to_a_with_clause(self):
        con = self.filled()
        for sql in (
            "WITH x AS (SELECT 1 AS n) SELECT k.a + n FROM keys k, x",
            " -- a comment with WITH\n /* and\n another */ with recursive n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 1) SELECT k.a + n FROM keys k, n",
            "SELECT a + 1 FROM keys",
        ):
            self.assertEqual(densite.query(con, sql, keys={"a": [4]}).fetchall(), [(5,)], sql)

    def test_many_leading_comments_are_fast(self):
        con = self.memory()
        # Each comment has one possible end. With two, there would be 2^40 ways to match.
        self.assertEqual(densite.query(con, "/* x */ " * 40 + "SELECT a FROM keys", keys={"a": [1]}).fetchall(), [(1,)])

    def test_from_1_to_999_columns_are_supported(self):
        for count in (1, 15, 16, 17, 30, 999):
            names = [f"k{i}" for i in range(count)]
            con = self.memory(f"CREATE TABLE t({', '.join(names)})")
            rows = [tuple(range(n, n + count)) for n in (5, 7)]
            self.assertEqual(densite.insert(con, "t", rows), 2)
            self.assertEqual(con.execute("SELECT * FROM t").fetchall(), rows)
            got = densite.query(con, "SELECT * FROM keys", keys=dict(zip(names, zip(*rows))))
            self.assertEqual(got.fetchall(), rows)
        source = sets({f"k{i}": [1] for i in range(17)}, None, sqlite3)
        with self.assertRaisesRegex(sqlite3.DatabaseError, "the set has 17 columns; use densite_columns"):
            con.execute("SELECT * FROM densite_columns_few(?)", (next(source).handle,)).fetchall()
        source.close()

    def test_parameters_are_bound_by_position_and_by_name(self):
        con = self.filled()
        for sql, parameters in (("SELECT val FROM t JOIN keys USING (a) WHERE b = ?", (3,)), ("SELECT val FROM t JOIN keys USING (a) WHERE b = :b", {"b": 3, "more": 4})):
            self.assertEqual(densite.query(con, sql, parameters, keys={"a": [2]}).fetchall(), [(50.75,)])
            self.library("numpy")
            self.assertEqual(densite.query(con, sql, parameters, keys={"a": [2]}).to_numpy()["val"].tolist(), [50.75])
        for parameters in ((), (1, 2), {"c": 1}):
            with self.assertRaises(sqlite3.Error):
                densite.query(con, "SELECT val FROM t WHERE b = ?1", parameters)

    def test_parameters_that_do_not_fit_are_named(self):
        con = self.filled(10)
        cases = [
            ("SELECT ?", (), "has 1 parameters, and 0 were given"),
            ("SELECT :n", {"m": 1}, "has 1 parameters, and 0 of them were given by name"),
            ("SELECT ?, ?", (1, object()), "parameter 2 is of type object"),
            ("SELECT :m, :n", {"m": 1, "n": object()}, "parameter :n is of type object"),
            ("SELECT ?", "5", "parameters are of type str; give a tuple"),
            ("SELECT ?", 5, "parameters are of type int; give a tuple"),
            ("SELECT ?", None, "parameters are of type NoneType; give a tuple"),
            ("SELECT ?", {1: 2}, "a parameter's name is 1"),
        ]
        for sql, parameters, words in cases:
            with self.subTest(parameters), self.assertRaisesRegex(sqlite3.ProgrammingError, words):
                densite.query(con, sql, parameters)
        # The values of an iterator are kept for reading tuples.
        self.assertEqual(densite.query(con, "SELECT ?, ?", iter((1, "x"))).fetchall(), [(1, "x")])

    def test_to_numpy_returns_an_array_for_each_column(self):
        numpy = self.library("numpy")
        con = self.memory("CREATE TABLE t(i INTEGER, r REAL, s TEXT, b BLOB, x)")
        con.execute("INSERT INTO t VALUES (1, 0.5, 'ä', x'00ff', NULL), (NULL, NULL, NULL, NULL, NULL), (3, 2, '', x'', NULL)")
        got = densite.query(con, "SELECT * FROM t").to_numpy()
        self.assertEqual(list(got), ["i", "r", "s", "b", "x"])
        self.assertEqual((got["i"].dtype, got["i"].tolist()), (numpy.int64, [1, None, 3]))
        self.assertTrue(numpy.array_equal(got["r"], [0.5, numpy.nan, 2], equal_nan=True))
        self.assertEqual((got["s"].tolist(), got["b"].tolist(), got["x"].tolist()), (["ä", None, ""], [b"\0\xff", None, b""], [None] * 3))
        empty = densite.query(con, "SELECT i, r, s FROM t WHERE 0").to_numpy()
        self.assertEqual([(v.dtype, len(v)) for v in empty.values()], [(numpy.int64, 0), (numpy.float64, 0), (object, 0)])
        with self.assertRaisesRegex(sqlite3.DataError, "two columns are called i"):
            densite.query(con, "SELECT i, i FROM t").to_numpy()

    def test_to_numpy_joins_batches(self):
        numpy = self.library("numpy")
        con = self.filled(200_000)
        got = densite.query(con, "SELECT a * 100 + b AS n, CASE WHEN b = 99 AND a > 1500 THEN NULL ELSE a END AS a, 'x' || b AS s FROM t").to_numpy()
        self.assertTrue(numpy.array_equal(got["n"], numpy.arange(200_000)))
        self.assertEqual((got["a"].mask.sum(), got["s"][123_456]), (499, "x56"))

    def test_types_are_those_of_the_first_batch(self):
        numpy = self.library("numpy")
        con = self.memory("CREATE TABLE t(n INTEGER PRIMARY KEY, x)")
        cases = [
            ([1, 2.5, None], [1.0, 2.5, None]),
            ([1, "x", 2.5], ["1", "x", "2.5"]),
            (["ä", b"x"], ["ä".encode(), b"x"]),
            ([None, None, 7], [None, None, 7]),
        ]
        for values, wanted in cases:
            con.execute("DELETE FROM t")
            densite.insert(con, "t", {"x": values})
            got = densite.query(con, "SELECT x FROM t ORDER BY n").to_numpy()["x"]
            self.assertEqual([None if v is None or v != v else v for v in got.tolist()], wanted)
        for values, words in (([2**62 + 1, 0.5], "not exact"), ([1, b"x"], "integers in a column with blobs")):
            con.execute("DELETE FROM t")
            densite.insert(con, "t", {"x": values})
            with self.assertRaisesRegex(sqlite3.DataError, f"column x, row 0: .*{words}"):
                densite.query(con, "SELECT x FROM t ORDER BY n").to_numpy()
        con.execute("DELETE FROM t")
        densite.insert(con, "t", {"x": [1] * 70_000 + ["late"]})
        with self.assertRaisesRegex(sqlite3.DataError, "column x, row 70000: text in a column that began with integers; use CAST"):
            densite.query(con, "SELECT x FROM t ORDER BY n").to_numpy()
        self.assertEqual(densite.query(con, "SELECT CAST(x AS TEXT) AS x FROM t ORDER BY n").to_numpy()["x"][-1], "late")
        # Dates are text, as insert stores them, also if the first batch has only NULLs.
        con.execute("CREATE TABLE d(day DATE, at TIMESTAMP)")
        densite.insert(con, "d", [(None, None)] * 70_000 + [("2024-02-29", "2024-02-29 12:30:00")])
        got = densite.query(con, "SELECT day, at FROM d").to_numpy()
        self.assertEqual((got["day"][0], got["day"][-1], got["at"][-1]), (None, "2024-02-29", "2024-02-29 12:30:00"))
        self.assertIsInstance(numpy, object)

    def test_the_order_of_rows_does_not_change_the_type_of_a_column(self):
        self.library("numpy")
        con = self.memory("CREATE TABLE t(n INTEGER PRIMARY KEY, x)")
        # The values include text that is not UTF-8. Among blobs it becomes a blob.
        values = (1, 5.0, 0.1 + 0.2, "b", b"c", None, 2**53 + 1, "CAST(x'ff' AS TEXT)")
        text = {value: con.execute("SELECT CAST(? AS TEXT)", (value,)).fetchone()[0] for value in values[:4] + values[5:7]}
        for count in (2, 3, 4):
            for some in itertools.combinations(values, count):
                there = set(map(type, some)) - {type(None)}
                is_broken = values[-1] in some
                if bytes in there:
                    wanted = None if there & {int, float} else {value: b"\xff" if value == values[-1] else value.encode() if isinstance(value, str) else value for value in some}
                elif is_broken:
                    wanted = None
                elif str in there:
                    wanted = text
                elif there == {int, float}:
                    wanted = None if 2**53 + 1 in some else {value: None if value is None else float(value) for value in some}
                else:
                    continue
                for order in itertools.permutations(some):
                    marks = ", ".join(f"({value})" if value == values[-1] else "(?)" for value in order)
                    given = [value for value in order if value != values[-1]]
                    # The statement has no ORDER BY, so rows keep this order.
                    result = densite.query(con, f"WITH v(x) AS (VALUES {marks}) SELECT x FROM v", given)
                    if wanted is None:
                        with self.assertRaises(sqlite3.DataError, msg=str(order)):
                            result.to_numpy()
                        continue
                    found = [None if value is None or value != value else value for value in result.to_numpy()["x"].tolist()]
                    self.assertEqual(list(map(repr, found)), [repr(wanted[value]) for value in order])

    def test_keys_compare_like_columns_without_a_type(self):
        # SQLite converts a key by the affinity of the column that it is compared with. A compound
        # of tables of several types has one affinity, so a key can miss equal rows of some tables.
        # Any table without types behaves like this.
        types = ("", "TEXT", "INTEGER", "REAL", "NUMERIC", "BLOB")
        values = (1, "1", 2.0, "2", "a", None)
        for first, second in itertools.product(types, repeat=2):
            con = self.memory(f"CREATE TABLE t(x {first})", f"CREATE TABLE u(x {second} UNIQUE)", "CREATE VIEW tu AS SELECT x FROM t UNION ALL SELECT x FROM u")
            for table in "tu":
                con.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?)", [(value,) for value in values])
            con.execute("CREATE TEMP TABLE plain(a)")
            con.executemany("INSERT INTO plain VALUES (?)", [(value,) for value in values])
            for join in ("keys k JOIN tu r ON r.x = k.a", "tu r JOIN keys k ON k.a = r.x", "keys k LEFT JOIN tu r ON r.x = k.a", "keys k JOIN tu r ON r.x IN (k.a)"):
                sql = f"SELECT k.a, r.x FROM {join}"
                wanted = con.execute(sql.replace("keys", "plain")).fetchall()
                found = densite.query(con, sql, keys={"a": values}).fetchall()
                self.assertEqual(sorted(map(repr, found)), sorted(map(repr, wanted)), (first, second, join))
            con.close()

    def test_integers_of_a_compound_stay_integers(self):
        numpy = self.library("numpy")
        con = self.memory("CREATE TABLE t(x REAL)", "CREATE TABLE u(x INTEGER)", "INSERT INTO u VALUES (2)", "CREATE VIEW tu AS SELECT x FROM t UNION ALL SELECT x FROM u")
        con.execute("CREATE TEMP VIEW both AS SELECT * FROM tu")
        # SQLite converts them to floating point if it joins the compound with another table.
        compounds = [
            "SELECT x FROM t UNION ALL SELECT x FROM u",
            "SELECT x FROM t UNION SELECT x FROM u",
            "SELECT CAST(x AS REAL) AS x FROM u WHERE 0 UNION ALL SELECT x FROM u",
            "SELECT x FROM tu",
            "SELECT x FROM both",
            "WITH w AS (SELECT x FROM tu) SELECT x FROM w",
        ]
        for sql in compounds:
            for more in ("", " LIMIT 5"):
                ((wanted,),) = densite.query(con, sql + more).fetchall()
                found = densite.query(con, sql + more).to_numpy()["x"]
                self.assertEqual((found.tolist(), found.dtype), ([wanted], numpy.dtype(type(wanted))), sql)

    def test_later_numbers_in_a_text_column_become_sqlite_s_text(self):
        self.library("numpy")
        con = self.memory("CREATE TABLE t(n INTEGER PRIMARY KEY, x)")
        densite.insert(con, "t", {"x": ["text"] * 70_000 + [0.1 + 0.2, 7, None, "end"]})
        wanted = [con.execute("SELECT CAST(? AS TEXT)", (0.1 + 0.2,)).fetchone()[0], "7", None, "end"]
        self.assertEqual(densite.query(con, "SELECT x FROM t").to_numpy()["x"].tolist()[-4:], wanted)

    def test_a_result_read_to_its_end_does_not_keep_the_connection_open(self):
        pyarrow = self.library("pyarrow")
        con = densite.connect(self.dir / "a.db")
        con.execute("CREATE TABLE t(x)")
        con.commit()
        reader = pyarrow.RecordBatchReader.from_stream(densite.query(con, "SELECT 1 AS x UNION ALL SELECT 'a'"))
        self.assertEqual(reader.read_all().column(0).to_pylist(), ["1", "a"])
        con.close()
        open_files = [os.readlink(entry) for entry in pathlib.Path("/proc/self/fd").iterdir() if entry.exists()]
        self.assertEqual([name for name in open_files if name.startswith(str(self.dir))], [])

    def test_pyarrow_polars_and_duckdb_read_a_result(self):
        pa, polars, duckdb = self.library("pyarrow"), self.library("polars"), self.library("duckdb")
        con = self.filled(150_000)
        table = pa.table(densite.query(con, "SELECT a, b, val, 'text' AS s FROM t"))
        self.assertEqual((table.num_rows, table.schema.names, str(table.schema.types)), (150_000, ["a", "b", "val", "s"], "[DataType(int64), DataType(int64), DataType(double), DataType(string)]"))
        table.validate(full=True)
        frame = polars.DataFrame(densite.query(con, "SELECT * FROM t"))
        self.assertEqual((frame.height, frame["val"].sum()), (150_000, table["val"].combine_chunks().to_numpy().sum()))
        reader = pa.RecordBatchReader.from_stream(densite.query(con, "SELECT * FROM t"))
        self.assertEqual(reader.read_next_batch().num_rows, 65_536)
        self.assertEqual(duckdb.sql("SELECT count(*) FROM reader").fetchall(), [(150_000 - 65_536,)])
        # A result is also valid data for insert.
        other = self.memory("CREATE TABLE t(a, b, val)")
        self.assertEqual(densite.insert(other, "t", densite.query(con, "SELECT * FROM t")), 150_000)

    def test_a_result_is_read_once(self):
        self.library("numpy")
        con = self.filled()
        result = densite.query(con, "SELECT * FROM t")
        result.to_numpy()
        for again in (result.to_numpy, result.fetchall, result.__arrow_c_stream__):
            with self.assertRaisesRegex(sqlite3.ProgrammingError, "already read or closed; run the query again"):
                again()

    def test_a_stream_outlives_result_connection_and_keys(self):
        pa = self.library("pyarrow")
        con = densite.connect(self.dir / "s.db")
        con.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
        densite.insert(con, "t", ((n, str(n)) for n in range(300_000)))
        keys = {"a": list(range(0, 300_000, 2)), "s": [str(n) for n in range(0, 300_000, 2)]}
        reader = pa.RecordBatchReader.from_stream(densite.query(con, "SELECT k.a, k.s, b FROM keys k JOIN t USING (a)", keys=keys))
        del keys
        gc.collect()
        reader.read_next_batch()
        con.close()
        rest = reader.read_all()
        self.assertEqual(rest.num_rows, 150_000 - 65_536)
        self.assertEqual(rest["s"].to_pylist(), rest["b"].to_pylist())

    def test_a_stream_that_is_not_consumed_is_freed(self):
        con = self.filled()
        capsule = densite.query(con, "SELECT * FROM t").__arrow_c_stream__()
        result = densite.query(con, "SELECT * FROM t")
        del capsule, result
        gc.collect()
        # A table that a statement reads cannot be dropped.
        con.execute("DROP TABLE t")

    def test_another_thread_can_read_a_stream(self):
        pa = self.library("pyarrow")
        con = self.filled(100_000)
        reader = pa.RecordBatchReader.from_stream(densite.query(con, "SELECT * FROM t"))
        got = []
        thread = threading.Thread(target=lambda: got.append(reader.read_all().num_rows))
        thread.start()
        for _ in range(100):
            con.execute("SELECT count(*) FROM t").fetchone()
        thread.join()
        self.assertEqual(got, [100_000])

    def test_errors_are_raised_before_reading(self):
        con = self.filled()
        cases = [
            ("SELECT * FROM nowhere", None, sqlite3.OperationalError, "no such table: nowhere"),
            ("SELEC 1", None, sqlite3.OperationalError, "syntax error"),
            (self.KEYED, {"a": [1]}, sqlite3.OperationalError, "no such column: k?.?b.*keys has the columns a|cannot join using column b"),
            (self.KEYED, {"a": [2**70], "b": [1]}, sqlite3.DataError, "column a, row 0: 1180591620717411303424"),
            (self.KEYED, 5, sqlite3.ProgrammingError, "neither columns nor rows"),
            (self.KEYED, [], sqlite3.ProgrammingError, "keys has no columns; name them"),
            (self.KEYED, {}, sqlite3.ProgrammingError, "keys has no columns; name them"),
            (self.KEYED, {"a": [1], "A": [1]}, sqlite3.ProgrammingError, "keys has a column twice: a, A"),
        ]
        for sql, keys, error, words in cases:
            with self.subTest(sql), self.assertRaisesRegex(error, words):
                densite.query(con, sql, keys=keys)
        for sql, words in (("DELETE FROM t", "changes the database"), ("BEGIN", "answers no rows"), ("SELECT 1; SELECT 2", "more than one SQL statement")):
            with self.subTest(sql), self.assertRaisesRegex(sqlite3.ProgrammingError, words):
                densite.query(con, sql)
        for sql in (None, b"SELECT 1"):
            with self.subTest(sql), self.assertRaisesRegex(sqlite3.ProgrammingError, "sql is of type .*; give the text of a statement"):
                densite.query(con, sql)
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t"), [(1000,)])
        con.close()
        with self.assertRaises(sqlite3.ProgrammingError):
            densite.query(con, "SELECT 1")

    def test_an_error_while_reading_is_raised(self):
        self.library("numpy")
        con = self.filled()
        with self.assertRaisesRegex(sqlite3.Error, "integer overflow"):
            densite.query(con, "SELECT sum(9223372036854775807) OVER (), a FROM t").to_numpy()

    def test_ctrl_c_ends_reading(self):
        self.library("numpy")
        for shared in (False, True):
            con = densite.connect(":memory:", check_same_thread=not shared)
            self.addCleanup(con.close)
            con.execute("CREATE TABLE t AS WITH n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 1000) SELECT n FROM n")
            began = threading.Event()
            result = densite.query(con, "SELECT a.n + b.n FROM t a, t b, t c")
            with self.ctrl_c(began, after=0.2):
                began.set()
                result.to_numpy()
            with self.assertRaisesRegex(sqlite3.ProgrammingError, "already read"):
                result.fetchall()
            # No statement reads the table any more.
            con.execute("DROP TABLE t")

    def test_batches_of_long_values_have_few_rows(self):
        pa = self.library("pyarrow")
        con = self.filled(100)
        with densite.query(con, "SELECT a, zeroblob(1 << 20) AS long FROM t") as result:
            batches = [batch.nbytes for batch in pa.RecordBatchReader.from_stream(result)]
        self.assertGreater(sum(batches), 100 << 20)
        self.assertLess(max(batches), 40 << 20)

    def test_a_stream_needs_bounded_memory(self):
        pa, resource = self.library("pyarrow"), self.library("resource")
        con = self.memory()
        sql = "WITH n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 3000000) SELECT n, n * 0.5 AS x, printf('%040d', n) AS s FROM n"
        reader = pa.RecordBatchReader.from_stream(densite.query(con, sql))
        reader.read_next_batch()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rows = sum(batch.num_rows for batch in reader)
        self.assertEqual(rows, 3_000_000 - 65_536)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 60_000, "KiB more for a result of 170 MB")

    def test_an_error_lists_the_columns_of_keys(self):
        con = self.memory("CREATE TABLE t(a, b)")
        with self.assertRaisesRegex(sqlite3.OperationalError, "no such column: k.b; keys has the columns a, x"):
            densite.query(con, "SELECT k.b FROM keys k JOIN t ON t.a = k.a", keys={"a": [1], "x": [2]})
        with self.assertRaisesRegex(sqlite3.DataError, f"column a, row 1: {2**63} does not fit"):
            densite.query(con, "SELECT k.a FROM keys k", keys={"a": [1, 2**63]})

    def test_every_kind_of_statement_returns_sqlite_s_rows(self):
        self.library("numpy")
        # SQLite collects the rows of most of these into batches by a join. Rows of statements with
        # an order are read one by one, and so are all rows once a view has an order: these views
        # come last. Rows and their order must be the same.
        views = ("CREATE VIEW v AS SELECT b, a FROM t ORDER BY b DESC, a", "CREATE VIEW w AS SELECT * FROM v")
        con = self.memory(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b, c)",
            "CREATE TABLE u(a INTEGER, d REAL)",
            "CREATE INDEX ub ON u(a)",
            "CREATE VIEW both AS SELECT a FROM t UNION ALL SELECT a FROM u",
        )
        con.executemany("INSERT INTO t VALUES (?, ?, ?)", [(n, n * 7919 % 500, f"c{n % 13}" if n % 5 else None) for n in range(150_000)])
        con.executemany("INSERT INTO u VALUES (?, ?)", [(n * 3 % 200_000, n % 17) for n in range(90_000)])
        for sql in (
            "SELECT * FROM t",
            "SELECT b, c, a FROM t WHERE a % 3 = 1 AND b > 100;  ",
            "SELECT b FROM t WHERE c IS NULL -- the end; of it;",
            "/* first */ SELECT count(*), c FROM t GROUP BY c",
            "SELECT DISTINCT c, b FROM t",
            "SELECT t.a, u.d FROM t LEFT JOIN u ON u.a = t.a",
            "SELECT t.a, u.d FROM t LEFT JOIN u ON u.a = t.a WHERE u.a IS NULL",
            "SELECT t.a FROM t JOIN u USING (a) WHERE u.d = 3",
            "SELECT d FROM u WHERE d = 3",
            "SELECT a, b + 0.0 AS b FROM t UNION ALL SELECT a, d FROM u",
            # SQLite joins each part of the UNION ALL with the table that takes the rows.
            "SELECT a FROM t UNION ALL SELECT a FROM u",
            "SELECT a FROM t WHERE a < 3 UNION ALL SELECT a FROM u WHERE a < 5 UNION ALL SELECT a + 9 FROM t",
            "SELECT a FROM both",
            "SELECT a FROM both WHERE a % 3 = 1 LIMIT 100000",
            "SELECT x.a, t.b FROM (SELECT a FROM u UNION ALL SELECT b FROM t) AS x JOIN t ON t.a = x.a",
            "WITH x AS (SELECT a FROM both UNION ALL SELECT b FROM t) SELECT a FROM x",
            "SELECT x.a, u.d FROM (SELECT a FROM t WHERE a < 9 UNION ALL SELECT a FROM t WHERE a > 149990) AS x, u WHERE u.d = 5",
            "SELECT a FROM t EXCEPT SELECT a FROM u",
            "SELECT t.a, u.d FROM t FULL JOIN u ON u.a = t.a",
            "SELECT a, b FROM t LIMIT 70000 OFFSET 5",
            "SELECT b, a FROM t ORDER BY b, a DESC",
            "SELECT b, a FROM t ORDER BY a DESC LIMIT 66000",
            "WITH x AS (SELECT a FROM u WHERE d > 8) SELECT x.a, (SELECT b FROM t WHERE t.a = x.a) AS b FROM x",
            "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT i FROM n",
            "SELECT a, sum(b) OVER (PARTITION BY c) AS s FROM t WHERE a < 3000",
            "VALUES (1, 'x'), (2, NULL)",
            "SELECT a FROM t WHERE 0",
            "PRAGMA table_info(t)",
            "SELECT " + ", ".join(f"a + {n} AS x{n}" for n in range(15)) + " FROM t",
            "SELECT " + ", ".join(f"a + {n} AS x{n}" for n in range(16)) + " FROM t",
            *views,
            "SELECT * FROM v",
            "SELECT * FROM w LIMIT 66000",
            "SELECT a FROM both",
        ):
            if sql in views:
                con.execute(sql)
                continue
            wanted = con.execute(sql)
            names = [column[0] for column in wanted.description]
            rows = wanted.fetchall()
            found = densite.query(con, sql).to_numpy()
            self.assertEqual(list(found), names, sql)
            columns = []
            for name in names:
                values = found[name].tolist()
                columns.append([None if value != value else value for value in values])
            self.assertEqual(list(zip(*columns)), rows, sql)

    def test_types_of_a_union_all_do_not_depend_on_its_order(self):
        self.library("numpy")
        con = self.memory()
        for values, wanted in (
            (("1", "2", "'t'"), {"1", "2", "t"}),
            (("0.5", "2.0", "'t'"), {"0.5", "2.0", "t"}),
            (("'t'", "x'00'"), {b"t", b"\0"}),
            (("1", "'t'", "x'00'"), None),
            (("0.5", "NULL", "x'00'"), None),
        ):
            for order in itertools.permutations(values):
                sql = " UNION ALL ".join(f"SELECT {value} AS x" for value in order)
                if wanted is None:
                    with self.assertRaisesRegex(sqlite3.DataError, "use CAST", msg=sql):
                        densite.query(con, sql).to_numpy()
                else:
                    self.assertEqual(set(densite.query(con, sql).to_numpy()["x"]), wanted, sql)

    def test_keys_can_be_joined_with_a_union_all(self):
        self.library("numpy")
        con = self.memory("CREATE TABLE t(a INTEGER, val REAL)", "CREATE TABLE u(a INTEGER, val REAL)", "CREATE VIEW tu AS SELECT a, val FROM t UNION ALL SELECT a, val FROM u")
        con.executemany("INSERT INTO t VALUES (?, ?)", [(n, n / 2) for n in range(0, 1000, 2)])
        con.executemany("INSERT INTO u VALUES (?, ?)", [(n, n / 3) for n in range(0, 1000, 3)])
        for sql in (
            "SELECT k.a, r.val FROM keys k JOIN tu r ON r.a = k.a",
            "SELECT k.a, r.val FROM keys k JOIN (SELECT * FROM t UNION ALL SELECT * FROM u) r ON r.a = k.a",
            "SELECT a, 0.5 AS val FROM keys UNION ALL SELECT a, val FROM tu",
        ):
            keys = {"a": [6, 7, 9, None, 4]}
            found = densite.query(con, sql, keys=keys).to_numpy()
            rows = densite.query(con, sql, keys=keys).fetchall()
            self.assertEqual(sorted(zip(found["a"].tolist(), found["val"].tolist()), key=str), sorted(rows, key=str), sql)

    def test_several_results_of_one_connection_can_be_read_in_turn(self):
        pa = self.library("pyarrow")
        con = self.memory("CREATE TABLE t(a INTEGER)")
        con.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(100_000)])
        readers = [pa.RecordBatchReader.from_stream(densite.query(con, f"SELECT a + {n} FROM t UNION ALL SELECT a + {n} FROM t")) for n in (0, 5, 9)]
        parts = [[], [], []]
        for _ in range(4):
            for reader, part in zip(readers, parts):
                part.extend(reader.read_next_batch().column(0).to_pylist())
        wanted = list(range(100_000)) * 2
        self.assertEqual(parts, [[a + n for a in wanted] for n in (0, 5, 9)])

    def test_a_result_can_be_read_within_another(self):
        self.library("numpy")
        con = self.memory("CREATE TABLE t(a INTEGER)", "INSERT INTO t VALUES (1), (2), (3)")
        sql = "SELECT a FROM t WHERE a < 3 UNION ALL SELECT a FROM t"
        con.create_function("nested", 1, lambda a: a + int(densite.query(con, sql).to_numpy()["a"].sum()))
        found = densite.query(con, "SELECT nested(a) AS a FROM t UNION ALL SELECT nested(a) FROM t WHERE a > 1").to_numpy()["a"].tolist()
        self.assertEqual(found, [10, 11, 12, 11, 12])

    def test_parameters_are_bound_if_sqlite_collects_the_batches(self):
        con = self.memory("CREATE TABLE t(a, b)", "INSERT INTO t VALUES (1, 2), (3, 4)")
        numpy = self.library("numpy")
        for sql, values in (("SELECT a FROM t WHERE b = ?", (4,)), ("SELECT a FROM t WHERE b = ?3", (0, 0, 4)), ("SELECT a FROM t WHERE b = :b", {"b": 4})):
            found = densite.query(con, sql, values).to_numpy()["a"]
            self.assertTrue(numpy.array_equal(found, [3]), sql)

    def test_densite_sink_is_refused_to_callers(self):
        con = self.memory("CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
        for sql in ("SELECT * FROM densite_sink(1, 2)", "SELECT * FROM t JOIN densite_sink(9999999, t.a)", "SELECT * FROM densite_sink"):
            with self.assertRaisesRegex(sqlite3.Error, "densite_sink is for the library itself"):
                con.execute(sql).fetchall()

    def test_dropping_a_result_does_not_wait_for_other_threads(self):
        # The statement of the other thread holds the connection and calls a Python function, which
        # needs the interpreter's lock. The thread that drops the result holds that lock, and
        # freeing a statement needs the connection.
        code = """
import sqlite3, threading, time, pyarrow, densite
con = densite.connect(":memory:", check_same_thread=False)
con.execute("CREATE TABLE t(a)")
con.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(100000)])
inside = threading.Event()
def slow(n):
    inside.set()
    time.sleep(0.0005)
    return n
con.create_function("slow", 1, slow)
for how in ("capsule", "reader"):
    result = densite.query(con, "SELECT a FROM t")
    held = result.__arrow_c_stream__() if how == "capsule" else pyarrow.RecordBatchReader.from_stream(result)
    if how == "reader":
        held.read_next_batch()
    inside.clear()
    thread = threading.Thread(target=lambda: con.execute("SELECT slow(a) FROM t LIMIT 1000").fetchall())
    thread.start()
    inside.wait()
    del held, result
    thread.join()
# It is freed some time after the other thread's statement has ended.
for wait in range(200):
    try:
        con.execute("DROP TABLE t")
        print("done")
        break
    except sqlite3.OperationalError:
        time.sleep(0.05)
"""
        self.library("pyarrow")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "done\n", done.stderr)

    def test_random_keys_return_the_same_rows_as_sqlite(self):
        self.library("numpy")
        seed = random.randrange(1 << 30)
        choose = random.Random(seed)
        con = self.filled(5000)
        for _ in range(30):
            low, high = sorted(choose.randrange(50) for _ in range(2))
            keys = {"a": [choose.randrange(60) for _ in range(40)]}
            sql = f"SELECT k.a, b, val FROM keys k JOIN t ON t.a = k.a AND b BETWEEN {low} AND {high} ORDER BY 1, 2, 3"
            got = densite.query(con, sql, keys=keys).to_numpy()
            marks = ", ".join("(?)" for _ in keys["a"])
            wanted = con.execute("WITH keys(a) AS (VALUES " + marks + ") " + sql, keys["a"]).fetchall()
            self.assertEqual(list(zip(got["a"].tolist(), got["b"].tolist(), got["val"].tolist())), wanted, f"seed {seed}")


if __name__ == "__main__":
    unittest.main()

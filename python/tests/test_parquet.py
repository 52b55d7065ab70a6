"""`densite load` and densite.insert store Parquet files in the same way."""

import datetime
import decimal
import json
import os
import pathlib
import sqlite3
import subprocess
import unittest

import densite
from densite._library import library_path
from support import Files


class Parquet(Files):
    def setUp(self):
        super().setUp()
        self.command = pathlib.Path(library_path()).parent / "densite"
        if not self.command.exists():
            if os.environ.get("DENSITE_NO_SKIP"):
                self.fail(f"{self.command} is missing; build densite-cli")
            self.skipTest("the command densite is not built beside the library")

    def load(self, path):
        db = self.dir / "loaded.db"
        db.unlink(missing_ok=True)
        done = subprocess.run([self.command, "load", db, "t", path, "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["created"])
        con = densite.connect(db)
        self.addCleanup(con.close)
        return con

    def types(self, pa):
        """A name and a column for each type of Arrow that Parquet supports."""
        utc, of = datetime.timezone.utc, datetime.datetime
        moments = [of(2024, 2, 29, 12, 30), of(1969, 12, 31, 23, 59, 59, 999_000), None, of(1, 1, 1), of(9999, 12, 31, 23, 59, 59)]
        near = [of(2024, 2, 29, 12, 30), of(1969, 12, 31, 23, 59, 59, 999_000), None, of(1700, 1, 1), of(2200, 12, 31)]
        digits = decimal.Decimal
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
            yield str(kind), pa.array([0, -1, None, 2 ** (kind.bit_width - 1) - 1, -(2 ** (kind.bit_width - 1))], kind)
        for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
            yield str(kind), pa.array([0, 1, None, 2 ** min(kind.bit_width, 63) - 1], kind)
        for kind in (pa.float16(), pa.float32(), pa.float64()):
            yield str(kind), pa.array([0.0, -0.5, None, 65504.0, float("inf"), float("nan")], kind)
        yield "bool", pa.array([True, None, False])
        yield "null", pa.nulls(3)
        for kind in (pa.string(), pa.large_string(), pa.string_view()):
            yield str(kind), pa.array(["", "ä\0b", None, "x" * 50], kind)
        for kind in (pa.binary(), pa.large_binary(), pa.binary(3), pa.binary_view()):
            yield str(kind), pa.array([b"\0\xffa", None, b"abc"], kind)
        yield "dictionary", pa.array(["a", None, "b", "a"]).dictionary_encode()
        yield "date32", pa.array([0, -719_529, None, 2_932_897, 2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32())
        yield "date64", pa.array([datetime.date(2024, 2, 29), None, datetime.date(1, 1, 1)], pa.date64())
        for unit in ("s", "ms"):
            yield f"time32 {unit}", pa.array([datetime.time(12, 30), None, datetime.time(23, 59, 59)], pa.time32(unit))
        yield "time32 with a fraction", pa.array([1, None, 86_399_999], pa.int32()).cast(pa.time32("ms"))
        for unit in ("us", "ns"):
            yield f"time64 {unit}", pa.array([1, None, 86_399_000_000, 0], pa.int64()).cast(pa.time64(unit))
        for unit in ("s", "ms", "us", "ns"):
            for zone in (None, "UTC", "Europe/Berlin"):
                some = near if unit == "ns" else moments
                values = [at and at.replace(tzinfo=utc) if zone else at for at in some]
                if unit == "s":
                    values = [at and at.replace(microsecond=0) for at in values]
                yield f"timestamp {unit} {zone}", pa.array(values, pa.timestamp(unit, zone))
            yield f"duration {unit}", pa.array([1, None, -(2**40)], pa.int64()).cast(pa.duration(unit))
        yield "timestamp of one nanosecond", pa.array([1, -1, None, 2**63 - 1, -(2**63) + 1], pa.int64()).cast(pa.timestamp("ns"))
        for precision, scale in ((5, 2), (18, 0), (18, 18), (38, 10), (38, 0)):
            largest = digits(10**precision - 1).scaleb(-scale, decimal.Context(prec=80))
            yield f"decimal128 {precision} {scale}", pa.array([largest, largest.copy_negate(), None, digits(0)], pa.decimal128(precision, scale))
        wide = digits(10**76 - 1).scaleb(-30, decimal.Context(prec=80))
        yield "decimal256", pa.array([wide, wide.copy_negate(), None], pa.decimal256(76, 30))
        yield "decimal32", pa.array([digits("12.30"), None], pa.decimal32(9, 2))
        yield "decimal64", pa.array([digits("-0.005"), None], pa.decimal64(18, 3))

    def test_load_and_insert_store_every_type_in_the_same_way(self):
        pa = self.library("pyarrow")
        parquet = __import__("pyarrow.parquet").parquet
        path = self.dir / "in.parquet"
        for options in ({}, {"store_schema": False}, {"store_decimal_as_integer": True}, {"version": "1.0"}, {"use_deprecated_int96_timestamps": True}):
            for name, values in self.types(pa):
                table = pa.table({"x": values})
                if "use_deprecated_int96_timestamps" in options and name.startswith(("timestamp s", "timestamp ms", "timestamp us")):
                    # pyarrow reads wrong years beyond 64 bits of nanoseconds.
                    table = table.slice(0, 3)
                try:
                    parquet.write_table(table, path, **options)
                    table = parquet.read_table(path)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                    continue  # Not every version and option supports every type.
                with self.subTest(name, **options):
                    loaded = self.load(path)
                    (declared,) = (kind for _, _, kind, *_ in loaded.execute("PRAGMA table_info(t)"))
                    inserted = self.memory(f"CREATE TABLE t(x {declared})")
                    densite.insert(inserted, "t", table)
                    values_of = "SELECT typeof(x), x FROM t ORDER BY rowid"
                    self.assertEqual(self.rows(loaded, values_of), self.rows(inserted, values_of))
                    # The declared type of the created table changes no value.
                    plain = self.memory("CREATE TABLE t(x)")
                    densite.insert(plain, "t", table)
                    self.assertEqual(self.rows(loaded, values_of), self.rows(plain, values_of))

    def test_integers_of_128_bits_keep_their_digits(self):
        polars = self.library("polars")
        values = [1, -(2**127), None, 2**127 - 1]
        frame = polars.DataFrame({"a": polars.Series(values, dtype=polars.Int128), "b": [1, 2, 3, 4]})
        path = self.dir / "wide.parquet"
        frame.write_parquet(path)
        con = self.load(path)
        self.assertEqual([row[0] and int(row[0]) for row in con.execute("SELECT a FROM t ORDER BY b")], values)
        # Arrow has no such type for other libraries either.
        with self.assertRaisesRegex(sqlite3.DataError, "column a"):
            densite.insert(con, "t", frame)
        within = frame.select(polars.struct("a"))
        within.write_parquet(path)
        done = subprocess.run([self.command, "load", self.dir / "w.db", "t", path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn('"a" has integers of 128 bits within', done.stderr)

    def test_int96_keeps_its_nanoseconds_in_every_row_group(self):
        pa = self.library("pyarrow")
        parquet = __import__("pyarrow.parquet").parquet
        path = self.dir / "in.parquet"
        values = [None if n % 7 == 0 else 1_709_210_096_000_000_001 + n for n in range(5000)]
        deep = pa.array([[n, n] for n in range(5000)])
        table = pa.table({"deep": deep, "at": pa.array(values, pa.int64()).cast(pa.timestamp("ns")), "n": range(5000)})
        parquet.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=1700)
        inserted = self.memory("CREATE TABLE t(at, n)")
        densite.insert(inserted, "t", table.select(["at", "n"]))
        self.assertEqual(self.rows(self.load(path), "SELECT at, n FROM t ORDER BY rowid"), self.rows(inserted))


if __name__ == "__main__":
    unittest.main()

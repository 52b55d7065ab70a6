"""Arrow data of random shapes, compared with the values that it was made from."""

import datetime
import decimal
import random
import sqlite3
import unittest

import densite
from support import Files


class Random(Files):
    def setUp(self):
        super().setUp()
        self.pa = self.library("pyarrow")
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        self.random = random.Random(seed)

    def types(self):
        pa, chance = self.pa, self.random

        def text():
            return "".join(chance.choice("aé日\U0001f600\0 ") for _ in range(chance.choice((0, 1, 5, 12, 13, 40))))

        def number(bits, signed=True):
            return lambda: chance.choice((0, -(1 << (bits - 1)) if signed else 1, (1 << (bits - 1)) - 1, chance.randrange(100)))

        types = [(pa.bool_(), lambda: chance.random() < 0.5, int)]
        for bits in (8, 16, 32, 64):
            types.append((getattr(pa, f"int{bits}")(), number(bits), int))
            types.append((getattr(pa, f"uint{bits}")(), number(bits, False), int))
        types += [(kind, lambda: chance.choice((0.0, -1.5, float("inf"), float("nan"))), float) for kind in (pa.float16(), pa.float32(), pa.float64())]
        types += [(kind, text, str) for kind in (pa.string(), pa.large_string(), pa.string_view())]
        types += [(kind, lambda: text().encode()[:-1], bytes) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())]
        types.append((pa.binary(3), lambda: bytes(chance.randrange(256) for _ in range(3)), bytes))
        for kind in (pa.decimal32(7, 2), pa.decimal64(15, 2), pa.decimal128(30, 2), pa.decimal256(60, 2)):
            types.append((kind, lambda kind=kind: decimal.Decimal(chance.choice((0, -5, 10**kind.precision - 1, -(10**kind.precision) + 1))).scaleb(-2, decimal.Context(80)), lambda d: format(d, "f")))
        days = lambda: datetime.date(1, 1, 1) + datetime.timedelta(chance.randrange(3_652_059))  # noqa: E731
        types += [(kind, days, lambda day: day.isoformat()) for kind in (pa.date32(), pa.date64())]
        types.append((pa.timestamp("s"), lambda: datetime.datetime.combine(days(), datetime.time(1, 2, 3)), lambda at: at.isoformat(" ")))
        types.append((pa.null(), lambda: None, None))
        return types

    def column(self, rows):
        """An array of a random type, and the values that must be stored. The array can have nulls,
        an offset, chunks and a dictionary."""
        pa, chance = self.pa, self.random
        kind, value, stored = chance.choice(self.types())
        before, after = chance.randrange(20), chance.randrange(20)
        nulls = chance.choice((0, 0.1, 1))
        given = [None if chance.random() < nulls else value() for _ in range(before + rows + after)]
        array = pa.array(given, kind)
        views = kind in (pa.string_view(), pa.binary_view())
        if not views and not pa.types.is_decimal(kind) and kind not in (pa.null(), pa.float16()) and chance.random() < 0.3:
            array = array.dictionary_encode(null_encoding=chance.choice(("mask", "encode")))
        array = array.slice(before, rows)
        cuts = sorted(chance.randrange(rows + 1) for _ in range(chance.randrange(3)))
        parts = [array.slice(start, end - start) for start, end in zip([0, *cuts], [*cuts, rows])]
        wanted = [None if one is None or one != one else stored(one) for one in given[before : before + rows]]  # noqa: PLR0124: NaN
        return (pa.chunked_array(parts, array.type) if chance.random() < 0.5 else array), wanted

    def test_every_value_is_stored_and_all_memory_is_released(self):
        pa, chance = self.pa, self.random
        con = self.memory()
        for number in range(150):
            con.execute("DROP TABLE IF EXISTS t")
            rows, count = chance.choice((0, 1, 7, 8, 9, 63, 64, 65, 300)), chance.randrange(1, 20)
            names = [f"c{i}" for i in range(count)]
            con.execute(f"CREATE TABLE t(n, {', '.join(names)})")
            before = pa.total_allocated_bytes()
            columns = [self.column(rows) for _ in names]
            arrays, wanted = [array for array, _ in columns], [values for _, values in columns]
            order = list(range(rows))
            table = pa.table([pa.array(order, pa.int64()), *arrays], ["n", *names])
            skip = chance.randrange(rows + 1)
            how = chance.choice(("table", "slice", "columns", "batches", "refused"))
            if how == "slice":
                table, wanted, order = table.slice(skip), [values[skip:] for values in wanted], order[skip:]
            with self.subTest(number=number, how=how, schema=table.schema):
                if how == "refused":
                    with self.assertRaises(sqlite3.DataError):
                        densite.insert(con, "t", table.append_column("list", pa.array([[1]] * rows, pa.list_(pa.int64()))))
                    wanted, order = [[] for _ in names], []
                elif how == "columns":
                    densite.insert(con, "t", {name: table[name] for name in table.column_names})
                else:
                    densite.insert(con, "t", pa.RecordBatchReader.from_batches(table.schema, table.to_batches(50)) if how == "batches" else table)
                self.assertEqual(self.rows(con, "SELECT * FROM t ORDER BY n"), list(zip(order, *wanted)))
            del columns, arrays, table
            self.assertEqual(pa.total_allocated_bytes(), before, "Arrow memory was not released")


class Guides(Files):
    """The code in the guide to Python prints what the guide says."""

    def test_the_guide_to_python_rows_and_files(self):
        self.library("numpy")
        pyarrow = self.library("pyarrow")
        guide = self.guide("python.md", "Open a database")
        self.addCleanup(guide.con.close)
        self.assertEqual(guide.output, guide.says)
        for heading in ("Many rows in", "Many rows out", "Files"):
            with self.subTest(heading=heading):
                section = self.guide("python.md", heading, con=guide.con, densite=densite, pyarrow=pyarrow)
                self.assertEqual(section.output, section.says)


if __name__ == "__main__":
    unittest.main()

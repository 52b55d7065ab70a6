"""Random tables, rows and statements: densite.insert and densite.query must do the same as sqlite3.

DENSITE_SEED repeats a run. DENSITE_CASES sets the number of cases of each test.
"""

import os
import random
import time
import unittest

import densite
from support import Files

TYPES = ("", "INT", "INTEGER", "TEXT", "REAL", "NUMERIC", "BLOB", "VARCHAR(9)")
STRICT = ("ANY", "INTEGER", "TEXT", "REAL", "BLOB")
DEFAULTS = {"TEXT": "'d'", "BLOB": "x'01'"}
VALUES = (None, 0, 1, 2, 5, -1, 2**63 - 1, -(2**63), 2**53 + 1, 0.5, 1.0, -0.0, 1e300, float("inf"), float("nan"))
VALUES += ("", "a", "A", "a ", "b", "5", "1.0", "é\0\U0001f600", '"\'', b"", b"a", b"\0\xff", True, False)
#: Values of one type each, as in columns of Arrow.
ALIKE = ((None, 0, 1, 2, 5, -1, 2**63 - 1, -(2**63)), (None, 0.5, 1.0, -0.0, 1e300, float("nan")), (None, "", "a", "A", "5", "1.0", "é\0"), (None, b"", b"a", b"\0\xff"), (None, True, False))
BAD = (2**63, "\ud800", [1], object())


def _is_alike(rows):
    """Whether each column has values of one type."""
    return all(len({type(value) for value in column} - {type(None)}) <= 1 for column in zip(*rows))


class Differential(Files):
    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("DENSITE_SEED") or time.time_ns() // 1000 % 2**32)
        self.choose = random.Random(self.seed)

    def cases(self, default):
        return range(int(os.environ.get("DENSITE_CASES") or default))

    def some(self, parts, most):
        return self.choose.sample(parts, self.choose.randint(1, min(most, len(parts))))

    def schema(self):
        """The statements that create a table t, and its columns that accept values."""
        pick, chance = self.choose.choice, self.choose.random
        strict = chance() < 0.2
        names = ["a", "b", "c", "d"][: self.choose.randint(2, 4)]
        lines = []
        for name in names:
            kind = pick(STRICT if strict else TYPES)
            line = f"{name} {kind}"
            if chance() < 0.35:
                line += " NOT NULL" + pick(("", f" DEFAULT {DEFAULTS.get(kind, '5')}"))
            if chance() < 0.25:
                line += f" COLLATE {pick(('NOCASE', 'RTRIM'))}"
            if chance() < 0.15:
                line += f" CHECK ({name} IS NOT {pick(('2', chr(39) + 'a' + chr(39)))})"
            if chance() < 0.12:
                line += f" REFERENCES p(x) {pick(('', 'ON DELETE CASCADE', 'DEFERRABLE INITIALLY DEFERRED'))}"
            lines.append(line)
        if chance() < 0.25:
            lines.append(f"g {pick(STRICT if strict else TYPES)} AS (typeof(a) || typeof(b)) {pick(('STORED', 'VIRTUAL'))}".replace("g  ", "g "))
        without = chance() < 0.3
        if without or chance() < 0.6:
            key = self.some(names, 2)
            if len(key) == 1 and chance() < 0.5:
                index = names.index(key[0])
                lines[index] = f"{key[0]} INTEGER PRIMARY KEY{lines[index].partition(' CHECK')[1] and ' CHECK (1)'}"
            else:
                lines.append(f"PRIMARY KEY ({', '.join(name + pick(('', ' DESC')) for name in key)})")
        options = ["WITHOUT ROWID"] * without + ["STRICT"] * strict
        made = [f"CREATE TABLE t({', '.join(lines)}) {', '.join(options)}", "CREATE TABLE seen(x)", f"CREATE TABLE p(x {pick(TYPES)} UNIQUE)"]
        made += [f"INSERT INTO p VALUES ({value})" for value in self.some(("NULL", "1", "2", "5", "0.5", "'a'", "x'61'"), 5)]
        if chance() < 0.4:
            made.append(f"CREATE UNIQUE INDEX u ON t({', '.join(name + pick(('', ' DESC', ' COLLATE NOCASE')) for name in self.some(names, 2))})")
        if chance() < 0.1:
            # Replacing rows of t deletes or changes these rows.
            key = pick(names)
            made.append(f"CREATE UNIQUE INDEX k ON t({key})")
            made.append(f"CREATE TABLE follower(x REFERENCES t({key}) ON DELETE {pick(('CASCADE', 'SET NULL', 'NO ACTION'))} DEFERRABLE INITIALLY DEFERRED)")
        if chance() < 0.2:
            made.append(f"CREATE TRIGGER r {pick(('BEFORE', 'AFTER'))} INSERT ON t BEGIN INSERT INTO seen VALUES (new.b); END")
        if chance() < 0.1:
            made.append(f"CREATE VIEW w AS SELECT {', '.join(names)} FROM t")
            made.append(f"CREATE TRIGGER i INSTEAD OF INSERT ON w BEGIN INSERT INTO t ({', '.join(names)}) VALUES ({', '.join('new.' + name for name in names)}); END")
        return made, names

    def data(self, count):
        few = self.some(VALUES, 6) if self.choose.random() < 0.7 else VALUES
        alike = self.choose.random() < 0.4
        columns = [self.choose.choice(ALIKE) if alike else few for _ in range(count)]
        rows = [tuple(map(self.choose.choice, columns)) for _ in range(self.choose.randrange(12))]
        if rows and self.choose.random() < 0.05:
            rows[-1] = (self.choose.choice(BAD), *rows[-1][1:])
        if self.choose.random() < 0.3:
            rows.sort(key=repr)
        return rows

    def stored(self, schema, insert):
        """Runs two inserts. Returns whether each was refused, and the rows of all tables."""
        con = self.memory(*schema)
        con.execute("PRAGMA foreign_keys = ON")
        refused = []
        for number in range(2):
            try:
                insert(con, number)
                con.commit()
                refused.append(False)
            except Exception:  # noqa: BLE001: the classes differ if sqlite3 passes on an exception of another module
                con.rollback()
                refused.append(True)
            if "follower" in self.tables(con):
                # Rows that the next insert can delete or change. With one that lacks its parent,
                # SQLite's count of violations depends on the order of rows, and densite.insert
                # sorts them (findings/sqlite-orphan-hides-violation.sh).
                ((key,),) = con.execute("SELECT \"to\" FROM pragma_foreign_key_list('follower')").fetchall()
                con.execute(f"INSERT INTO follower SELECT {key} FROM t")
                con.commit()
        found = [sorted(map(repr, self.rows(con, f"SELECT * FROM {table}"))) for table in self.tables(con)]
        con.close()
        return refused, found

    def tables(self, con):
        return [name for (name,) in con.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1").fetchall()]

    @staticmethod
    def inputs():
        """Functions by name that convert rows and column names to data for densite.insert. They
        return None if a shape cannot hold the rows."""

        def columns(rows, names):
            return {name: [row[i] for row in rows] for i, name in enumerate(names)}

        found = {
            "rows": lambda rows, names: rows,
            "dicts": lambda rows, names: [dict(zip(names, row)) for row in rows],
            "columns": columns,
        }
        try:
            import numpy  # noqa: PLC0415: optional

            def of_one_type(values):
                kinds = set(map(type, values))
                alike = {int: numpy.int64, float: numpy.float64, bool: numpy.bool_}
                if len(kinds) == 1 and kinds <= set(alike) and all(abs(v) < 2**63 for v in values if v == v and type(v) is int):
                    return numpy.array(values, alike[kinds.pop()])
                made = numpy.empty(len(values), object)
                made[:] = values
                return made

            found["numpy"] = lambda rows, names: {name: of_one_type(values) for name, values in columns(rows, names).items()}
        except ImportError:
            pass
        try:
            import pyarrow  # noqa: PLC0415: optional

            def table(rows, names):
                try:
                    return pyarrow.table(columns(rows, names)) if rows else None
                except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, UnicodeEncodeError, OverflowError):
                    return None

            # In a column of several types, pyarrow converts integers to floating point and text to
            # bytes.
            found["pyarrow"] = lambda rows, names: table(rows, names) if _is_alike(rows) else None
        except ImportError:
            pass
        try:
            import polars  # noqa: PLC0415: optional

            def frame(rows, names):
                try:
                    return polars.DataFrame(columns(rows, names), strict=True) if rows else None
                except (TypeError, OverflowError, UnicodeEncodeError, polars.exceptions.PolarsError):
                    return None

            found["polars"] = lambda rows, names: frame(rows, names) if _is_alike(rows) else None
        except ImportError:
            pass
        try:
            import pandas  # noqa: PLC0415: optional

            found["pandas"] = lambda rows, names: pandas.DataFrame(columns(rows, names), dtype=object)
        except ImportError:
            pass
        return found

    def test_insert_stores_the_same_rows_as_sqlite(self):
        for case in self.cases(300):
            schema, names = self.schema()
            target = "w" if "VIEW w" in str(schema) else "t"
            # All columns, or some of them in another order. The others get their defaults.
            given = self.some(names, len(names)) if target == "t" and self.choose.random() < 0.3 else names
            batches = [self.data(len(given)) for _ in range(2)]
            if "INTEGER" in schema[0] and "PRIMARY KEY" in schema[0]:
                # After the largest rowid SQLite chooses a random one.
                batches = [[tuple(7 if value == 2**63 - 1 else value for value in row) for row in rows] for rows in batches]
            how = self.choose.choice(("abort", "ignore", "replace", "fail", "rollback"))
            sql = f"INSERT OR {how} INTO {target} ({', '.join(given)}) VALUES ({', '.join('?' * len(given))})"

            def row_by_row(con, n):
                if how != "replace" or "REFERENCES" not in str(schema):
                    con.executemany(sql, batches[n])
                    return
                # A later row can replace a row without a parent: SQLite checks foreign keys at the
                # end of a statement, and densite.insert is one statement.
                con.execute(f"CREATE TEMP TABLE IF NOT EXISTS source(n INTEGER PRIMARY KEY, {', '.join(given)})")
                con.executemany(f"INSERT INTO source ({', '.join(given)}) VALUES ({', '.join('?' * len(given))})", batches[n])
                con.execute(f"{sql.partition(' VALUES')[0]} SELECT {', '.join(given)} FROM source ORDER BY n")
                con.execute("DELETE FROM source")

            wanted = self.stored(schema, row_by_row)
            for shape, turned in self.inputs().items():
                if shape == "rows" and given != names:
                    continue
                data = [turned(rows, given) for rows in batches]
                if any(part is None for part in data):
                    continue
                found = self.stored(schema, lambda con, n: densite.insert(con, target, data[n], how))
                self.assertEqual(found, wanted, f"DENSITE_SEED={self.seed} case {case} {shape} {how} {target} {given} {schema} {batches}")

    def select(self):
        """A statement with the columns x and y, and its parameters."""
        pick, chance = self.choose.choice, self.choose.random
        sources = ("t", "u", "v", "tu", "(SELECT x, y FROM tu WHERE x > 1)", "(SELECT y AS x, x AS y FROM t UNION ALL SELECT x, y FROM u)")
        source = pick(sources)
        where = pick(("", " WHERE x > 1", " WHERE y IS NOT NULL", " WHERE x IN (SELECT y FROM u)"))
        sql = f"SELECT x, y FROM {source}{where}"
        kind = self.choose.randrange(6)
        if kind == 0:
            sql += f" {pick(('UNION ALL', 'UNION', 'EXCEPT'))} SELECT y, x FROM {pick(sources)}"
        elif kind == 1:
            sql = f"SELECT p.x, q.y FROM {source} p {pick(('JOIN', 'LEFT JOIN'))} {pick(sources)} q ON p.x = q.{pick('xy')}"
        elif kind == 2:
            sql = f"SELECT x, {pick(('count(*)', 'max(y)', 'sum(typeof(y) = typeof(1))'))} AS y FROM {source}{where} GROUP BY x COLLATE BINARY HAVING count(*) = 1"
        elif kind == 3:
            sql = f"WITH w AS ({sql}) SELECT w.x, t.y FROM w JOIN t ON t.x = w.x UNION ALL SELECT x, y FROM w"
        elif kind == 4:
            join = pick(("JOIN", "LEFT JOIN", "CROSS JOIN"))
            sql = pick(
                (
                    f"SELECT k.a AS x, r.y FROM keys k {join} {source} r ON r.x = k.a",
                    f"SELECT r.x, r.y FROM {source} r JOIN keys k ON {pick(('r.x = k.a', 'k.a = r.x', 'k.a IS r.y', 'r.x BETWEEN k.a AND k.a'))}",
                    f"SELECT r.x, r.y FROM keys k JOIN {source} r ON r.x = k.a AND r.y {pick(('=', '<', 'IS NOT'))} k.b",
                    f"SELECT r.x, r.y FROM (SELECT a AS x, b FROM keys) k JOIN {source} r USING (x)",
                    f"SELECT x, y FROM {source}{where or ' WHERE 1'} AND x {pick(('IN', 'NOT IN'))} (SELECT a FROM keys)",
                    f"SELECT x, y FROM {source} r WHERE EXISTS (SELECT 1 FROM keys WHERE a = r.{pick('xy')})",
                    f"SELECT a AS x, b AS y FROM keys {pick(('EXCEPT', 'UNION', 'UNION ALL', 'INTERSECT'))} SELECT x, y FROM {source}",
                    f"SELECT k.a AS x, (SELECT count(*) FROM {source} r WHERE r.x = k.a) AS y FROM keys k",
                    f"WITH w AS (SELECT a FROM keys WHERE a IS NOT NULL) SELECT w.a AS x, max(r.y) AS y FROM w LEFT JOIN {source} r ON r.x = w.a GROUP BY typeof(w.a), w.a",
                )
            )
        if chance() < 0.3:
            sql = f"SELECT x, y FROM ({sql}) ORDER BY typeof(x), x, typeof(y), y LIMIT {pick((3, 50))}"
        parameters = ()
        if chance() < 0.3:
            sql, parameters = f"SELECT x, y FROM ({sql}) WHERE x IS NOT ?", (pick((None, 1, "a", 0.5)),)
        return sql, parameters

    def column(self, con, values):
        """The values of a column as densite.query must return them, or None if it must refuse
        them."""
        kinds = {type(value) for value in values if value is not None}
        if bytes in kinds and kinds & {int, float}:
            return None
        if bytes in kinds:
            return [value.encode() if isinstance(value, str) else value for value in values]
        if str in kinds:
            return [con.execute("SELECT CAST(? AS TEXT)", (value,)).fetchone()[0] for value in values]
        if kinds == {int, float}:
            # An integer that floating point cannot hold is refused.
            if any(type(value) is int and int(float(value)) != value for value in values):
                return None
            return [None if value is None else float(value) for value in values]
        return values

    def outputs(self):
        """The installed libraries' conversions of a result to rows, by name."""
        found = {"to_arrow": None, "to_numpy": None}
        try:
            import numpy  # noqa: F401, PLC0415: a library that the package can do without

            found["to_numpy"] = lambda result: list(zip(*([None if v != v else v for v in values.tolist()] for values in result.to_numpy().values())))
        except ImportError:
            pass
        try:
            import pyarrow  # noqa: PLC0415: optional

            found["to_arrow"] = lambda result: list(zip(*(values.to_pylist() for values in pyarrow.table(result).columns)))
        except ImportError:
            pass
        return {name: turn for name, turn in found.items() if turn}

    def test_query_returns_the_same_rows_as_sqlite(self):
        outputs = self.outputs()
        plain = (lambda result: result.fetchall(), list, lambda result: list(iter(result.fetchone, None)))
        for case in self.cases(300):
            kinds = [self.choose.choice(TYPES) for _ in range(2)]
            con = self.memory(
                f"CREATE TABLE t(x {kinds[0]}, y {kinds[0]})",
                f"CREATE TABLE u(x {kinds[1]} {self.choose.choice(('', 'UNIQUE'))}, y {kinds[1]})",
                "CREATE VIEW v AS SELECT y AS x, x AS y FROM t",
                "CREATE VIEW tu AS SELECT x, y FROM t UNION ALL SELECT x, y FROM u",
            )
            few = self.choose.choice(((None, 0, 1, 2, 5, -(2**63)), (None, 0.5, 1.0, 2), (None, "a", "A", "5", "é\0"), (b"", b"\xff", None), VALUES))
            for table in "tu":
                rows = [(self.choose.choice(few), self.choose.choice(few)) for _ in range(9)]
                con.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", rows)
            sql, parameters = self.select()
            keys = [(self.choose.choice(few), self.choose.choice(few)) for _ in range(self.choose.randrange(6))] if "keys" in sql else None
            given = {} if keys is None else self.choose.choice(
                (
                    {"keys": keys, "columns": ["a", "b"]},
                    {"keys": {"a": [a for a, _ in keys], "b": [b for _, b in keys]}},
                )
            )
            # A table, because columns of VALUES compare differently, although they have no
            # affinity either.
            con.execute("CREATE TEMP TABLE keys(a, b)")
            con.executemany("INSERT INTO keys VALUES (?, ?)", keys or ())
            wanted = con.execute(sql, parameters).fetchall()
            con.execute("DROP TABLE keys")
            what = f"DENSITE_SEED={self.seed} case {case} {sql} {parameters} {keys} {self.rows(con)} {self.rows(con, 'SELECT * FROM u')}"
            in_order = "LIMIT" in sql and not parameters
            same = (lambda rows: list(map(repr, rows))) if in_order else (lambda rows: sorted(map(repr, rows)))
            for turn in plain:
                self.assertEqual(same(turn(densite.query(con, sql, parameters, **given))), same(wanted), what)
            columns = [self.column(con, [row[i] for row in wanted]) for i in range(2)]
            for name, turn in outputs.items():
                try:
                    found = turn(densite.query(con, sql, parameters, **given))
                except Exception as error:  # noqa: BLE001: the class does not matter
                    self.assertIn(None, columns, f"{what} {name} {error}")
                    continue
                self.assertNotIn(None, columns, f"{what} {name}")
                self.assertEqual(same(found), same(zip(*columns)), f"{what} {name}")
            con.close()


if __name__ == "__main__":
    unittest.main()

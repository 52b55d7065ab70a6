"""pandas and polars on Densite: the code of the guide."""

import densite
from support import Files


class Frames(Files):
    def test_the_guide_to_pandas_works(self):
        self.library("pandas")
        guide = self.guide("ecosystem.md", "pandas")
        self.assertEqual(guide.mean.to_dict("list"), {"station": ["a", "b"], "rain": [0.875, 0.0]})
        self.assertEqual(guide.first["day"].tolist(), ["2024-01-01 00:00:00", "2024-01-02 00:00:00"])
        self.assertEqual(guide.first["rain"].isna().tolist(), [False, True])
        self.assertEqual(guide.wet["rain"].tolist(), [0.5, 1.25, 0.5, 1.25])
        # to_sql and densite.insert store a day in the same way.
        self.assertEqual(set(guide.wet["day"]), {"2024-01-01 00:00:00", "2024-01-03 00:00:00"})
        self.assertEqual(len(guide.keyed), 4)
        self.assertEqual(densite.info(self.dir / "frames.db")["form"], "compressed")

    def test_a_frame_of_a_result_has_the_names_of_its_columns(self):
        pandas = self.library("pandas")
        con = self.memory()
        frame = pandas.DataFrame(densite.query(con, "SELECT 1 AS class, 'x' AS \"two words\", count(*) UNION ALL SELECT 2, NULL, 0"))
        self.assertEqual(list(frame.columns), ["class", "two words", "count(*)"])
        self.assertEqual(frame["class"].tolist(), [1, 2])
        # to_numpy has them without rows, too.
        self.assertEqual(list(pandas.DataFrame(densite.query(con, "SELECT 1 AS a WHERE 0").to_numpy()).columns), ["a"])

    def test_the_guide_to_duckdb_works(self):
        self.library("duckdb")
        guide = self.guide("ecosystem.md", "DuckDB")
        self.assertEqual(guide.output, "[('Mon', 2.0), ('Tue', 2.0)]\n")

    def test_the_guide_to_adbc_works(self):
        self.library("adbc_driver_sqlite")
        guide = self.guide("ecosystem.md", "ADBC")
        self.assertEqual(guide.states.to_pydict(), {"state": ["open", "paid"], "n": [1, 2]})
        guide.loader.close()
        self.assertEqual(densite.info(self.dir / "orders.db")["form"], "compressed")

    def test_the_guide_to_polars_works(self):
        self.library("polars")
        guide = self.guide("ecosystem.md", "polars")
        self.assertEqual(guide.back.rows(), [(1, "a", 1.5), (2, None, 2.5), (3, "c", 0.5)])
        self.assertEqual(guide.rows.rows(), [("a", 1.5), (None, 2.5)])
        self.assertEqual(guide.some.rows(), [(2, 2.5), (9, None)])
        self.assertEqual(densite.info(self.dir / "polars.db")["form"], "compressed")

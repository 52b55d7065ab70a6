"""pandas and polars on Densite: the code of the guide."""

import densite
from support import Files


class Frames(Files):
    def test_the_guide_to_pandas_works(self):
        self.library("pandas")
        guide = self.guide("ecosystem.md", "pandas")
        self.assertEqual(guide.mean.to_dict("list"), {"station": ["a", "b"], "rain": [0.875, 0.0]})
        self.assertEqual(guide.wet["rain"].tolist(), [0.5, 1.25, 0.5, 1.25])
        # to_sql and densite.insert store a day in the same way.
        self.assertEqual(set(guide.wet["day"]), {"2024-01-01 00:00:00", "2024-01-03 00:00:00"})
        self.assertEqual(len(guide.keyed), 4)
        self.assertEqual(densite.info(self.dir / "frames.db")["form"], "compressed")

    def test_the_guide_to_polars_works(self):
        self.library("polars")
        guide = self.guide("ecosystem.md", "polars")
        self.assertEqual(guide.back.rows(), [(1, "a", 1.5), (2, None, 2.5), (3, "c", 0.5)])
        self.assertEqual(guide.rows.rows(), [("a", 1.5), (None, 2.5)])
        self.assertEqual(guide.some.rows(), [(2, 2.5), (9, None)])
        self.assertEqual(densite.info(self.dir / "polars.db")["form"], "compressed")

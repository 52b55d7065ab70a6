"""The table of versions in the guide."""

import pathlib
import re
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent


class Versions(unittest.TestCase):
    def test_the_guide_names_the_versions_that_are_tested(self):
        installed = dict(re.findall(r"(?m)^(.+)==(.+)$", (HERE / "requirements.txt").read_text().lower()))
        installed["sqlite-jdbc"] = re.search(r"sqlite-jdbc</artifactId>\s*<version>(.+?)<", (ROOT / "examples/java/pom.xml").read_text())[1]
        guide = (ROOT / "docs/guides/ecosystem.md").read_text()
        table = re.findall(r"(?m)^\| (\[.+?) \| ([\d., ]+) \| `(.+)` \|$", guide)
        self.assertEqual(len(table), 11)
        for names, versions, test in table:
            of = [installed[name] for name in re.findall(r"[a-z-]+", re.sub(r"\(.*?\)", "", names).lower()) if name in installed]
            self.assertEqual(", ".join(of), versions, names)
            self.assertTrue((HERE / test).exists() or (ROOT / test).exists(), test)

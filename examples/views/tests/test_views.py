"""No view is lost, whether the model is switched to the log or not. All else is the same code."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from contextlib import closing
from pathlib import Path

import densite

EXAMPLE = Path(__file__).resolve().parent.parent
SWITCH = '@densite.django.ingest(on_conflict="ignore")\n'
PROCESSES, VIEWS, PAGES = 4, 200, 10


class Views(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.site = Path(directory.name) / "views"
        shutil.copytree(EXAMPLE, self.site, ignore=shutil.ignore_patterns("env*", "data", "site.db*"))

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "PYTHONPATH": os.pathsep.join([str(self.site), os.environ.get("PYTHONPATH", "")]),
        }
        return subprocess.Popen(
            [sys.executable, *arguments], cwd=self.site, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def result(self, process: "subprocess.Popen[str]") -> str:
        """Waits for the process, which must succeed. Returns its output."""
        output, errors = process.communicate(timeout=50)
        self.assertEqual(process.returncode, 0, errors)
        return output

    def count(self) -> int:
        """Counts views in several processes, and checks what is read afterwards. Returns how many
        rows the log got."""
        self.result(self.start("manage.py", "migrate"))
        self.result(self.start("manage.py", "loaddata", "pages"))
        visitors = [self.start("tests/visitor.py", str(VIEWS)) for _ in range(PROCESSES)]
        for visitor in visitors:
            self.result(visitor)
        read = json.loads(self.result(self.start("tests/reader.py")))
        each = PROCESSES * VIEWS // PAGES
        self.assertEqual(read["before"], {"views": PROCESSES * VIEWS, "each": [each] * PAGES})
        self.assertEqual(read["after"], {"views": PROCESSES * VIEWS + 1, "first": ["team", each + 1], "more": 1})
        self.assertEqual(read["found"], ["docs", "download"])
        with closing(densite.connect(self.site / "site.db")) as con:
            con.execute("SELECT densite_wait()")
            self.assertEqual(con.execute("SELECT sum(views) FROM main.pages_page").fetchone(), (PROCESSES * VIEWS + 1,))
            self.assertEqual(con.execute("SELECT count(*) FROM densite_ingest_status() WHERE rejects > 0").fetchone(), (0,))
        return int(read["log"] or 0)

    def test_a_switched_model_loses_no_view(self) -> None:
        self.assertGreaterEqual(self.count(), PROCESSES * VIEWS)

    def test_a_model_that_is_not_switched_loses_no_view(self) -> None:
        models = self.site / "pages/models.py"
        text = models.read_text(encoding="utf-8")
        self.assertEqual(text.count(SWITCH), 1)
        models.write_text(text.replace(SWITCH, ""), encoding="utf-8")
        self.assertEqual(self.count(), 0)


if __name__ == "__main__":
    unittest.main()

"""What the tests share."""

import os
import pathlib
import tempfile
import unittest

import densite


class Files(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)

    def library(self, name):
        """A library that the package can do without; without it the test is skipped, unless skipping is not allowed."""
        try:
            return __import__(name)
        except ImportError:
            if os.environ.get("DENSITE_NO_SKIP"):
                raise
            self.skipTest(f"{name} is not installed")

    def memory(self, *statements):
        con = densite.connect(":memory:")
        self.addCleanup(con.close)
        for statement in statements:
            con.execute(statement)
        con.commit()
        return con

    def rows(self, con, sql="SELECT * FROM t"):
        return con.execute(sql).fetchall()

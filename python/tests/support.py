"""What the tests share."""

import contextlib
import os
import pathlib
import re
import signal
import sys
import tempfile
import threading
import time
import types
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
            self.skip(f"{name} is not installed")

    def skip(self, why):
        """Skips the test; `make test` counts the reasons in DENSITE_SKIPPED at its end."""
        if path := os.environ.get("DENSITE_SKIPPED"):
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{why}\n")
        self.skipTest(why)

    def memory(self, *statements):
        con = densite.connect(":memory:")
        self.addCleanup(con.close)
        for statement in statements:
            con.execute(statement)
        con.commit()
        return con

    def rows(self, con, sql="SELECT * FROM t"):
        return con.execute(sql).fetchall()

    @contextlib.contextmanager
    def ctrl_c(self, began, after=0.0):
        """Somebody presses Ctrl-C so many seconds after the event `began`; the block is to end with KeyboardInterrupt."""

        def press():
            began.wait(30)
            time.sleep(after)
            os.kill(os.getpid(), signal.SIGINT)

        # In the background of a shell it is ignored, and Python leaves that as it is.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        thread = threading.Thread(target=press)
        thread.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                yield
        finally:
            thread.join()
            signal.signal(signal.SIGINT, before)

    def guide(self, name, heading, **names):
        """Runs the Python of a section of a guide in the test's directory, as it stands there, and answers its module."""
        text = (pathlib.Path(__file__).resolve().parent.parent.parent / "docs/guides" / name).read_text(encoding="utf-8")
        _, found, rest = text.partition(f"\n## {heading}\n")
        self.assertTrue(found, f"{name} has no section {heading!r}")
        blocks = re.findall(r"```python\n(.*?)```", rest.partition("\n## ")[0], re.DOTALL)
        self.assertTrue(blocks, f"{heading!r} of {name} has no Python")
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.dir)
        # A module that is known by its name: some libraries look their users up.
        module = types.ModuleType("guide")
        sys.modules["guide"] = module
        self.addCleanup(sys.modules.pop, "guide")
        vars(module).update(names)
        for block in blocks:
            exec(compile(block, f"{name}, {heading}", "exec"), vars(module))
        return module

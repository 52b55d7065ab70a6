"""Shared helpers of the tests."""

import contextlib
import io
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
        """An optional library. If it is missing, the test is skipped; with DENSITE_NO_SKIP it
        fails."""
        try:
            return __import__(name)
        except ImportError:
            if os.environ.get("DENSITE_NO_SKIP"):
                raise
            self.skip(f"{name} is not installed")

    def skip(self, why):
        """Skips the test. `make test` counts the reasons in the file DENSITE_SKIPPED at its
        end."""
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
        """Simulates Ctrl-C, `after` seconds after the event `began`. The block must end with
        KeyboardInterrupt."""

        def press():
            began.wait(30)
            time.sleep(after)
            os.kill(os.getpid(), signal.SIGINT)

        # In a background job of a shell the signal is ignored, and Python keeps that setting.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        thread = threading.Thread(target=press)
        thread.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                yield
        finally:
            thread.join()
            signal.signal(signal.SIGINT, before)

    def section(self, name, heading):
        """The text of a section of a guide."""
        text = (pathlib.Path(__file__).resolve().parent.parent.parent / "docs/guides" / name).read_text(encoding="utf-8")
        _, title, rest = text.partition(f"\n## {heading}\n")
        self.assertTrue(title, f"{name} has no section {heading!r}")
        return rest.partition("\n## ")[0]

    def guide(self, name, heading, replaced=None, **names):
        """Runs the Python code of a section of a guide in the test's directory, unchanged except for
        texts that are `replaced` by others, such as ports. Returns its module. `output` of the
        module is what it printed, `says` the output in the guide."""
        section = self.section(name, heading)
        for text, other in (replaced or {}).items():
            self.assertIn(text, section)
            section = section.replace(text, other)
        blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        self.assertTrue(blocks, f"section {heading!r} of {name} has no Python code")
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.dir)
        # The module is registered by name, because some libraries look up the module of their
        # caller.
        module = types.ModuleType("guide")
        sys.modules["guide"] = module
        self.addCleanup(sys.modules.pop, "guide", None)
        vars(module).update(names)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for block in blocks:
                exec(compile(block, f"{name}, {heading}", "exec"), vars(module))
        module.output = printed.getvalue()
        module.says = "".join(re.findall(r"```text\n(.*?)```", section, re.DOTALL))
        return module

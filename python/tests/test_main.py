"""``python -m densite``."""

import os
import subprocess
import sys

from support import Files


class Command(Files):
    def command(self, text):
        """A command of this name, which is the only one on PATH."""
        path = self.dir / "densite"
        path.write_text(text)
        path.chmod(0o755)

    def run_module(self, *arguments):
        # Without the command of an installed package: the interpreter's own directory has none.
        env = {**os.environ, "PATH": str(self.dir)}
        return subprocess.run([sys.executable, "-m", "densite", *arguments], env=env, capture_output=True, text=True)

    def test_it_is_the_command_with_its_arguments_and_exit_code(self):
        self.command('#!/bin/sh\necho "$# $1 $2"\nexit 5\n')
        ran = self.run_module("check", "a b.db")
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (5, "2 check a b.db\n", ""))

    def test_a_missing_command_is_one_sentence(self):
        ran = self.run_module("check")
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertIn("the command was not found", ran.stderr)
        self.assertEqual(len(ran.stderr.splitlines()), 1)

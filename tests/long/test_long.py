"""`make crash` runs every part to its end. It reports a failed part, and the others continue."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

#: A substitute for a test program built by cargo. It lists and runs one part.
PROGRAM = """#!/bin/sh
case "$*" in *--list*) echo "{name}: test"; echo "not_a_part: test"; exit;; esac
echo "minutes $DENSITE_MINUTES, seed $DENSITE_SEED"
{body}
"""


class Long(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name

    def run_parts(self, bodies):
        messages = []
        for name, body in bodies.items():
            path = os.path.join(self.dir, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(PROGRAM.format(name=name, body=body))
            os.chmod(path, stat.S_IRWXU)
            messages.append({"reason": "compiler-artifact", "executable": path, "profile": {"test": True}, "manifest_path": f"{self.dir}/Cargo.toml"})
        with open(f"{self.dir}/messages", "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(message) + "\n" for message in messages))
        cargo = ["sh", "-c", f"cat {self.dir}/messages", "cargo"]
        command = [sys.executable, "-m", "long", "--minutes", "6", "--seed", "77", "--only", "long_", "--dir", f"{self.dir}/logs", "--command", "densite", "--", *cargo]
        return subprocess.run(command, cwd=os.path.dirname(HERE), stdout=subprocess.PIPE, text=True, check=False)

    def test_every_part_runs_even_if_another_fails(self):
        fine = "echo 'long run: 3 runs, 9 power cuts, continue with SEED=80'"
        ran = self.run_parts(
            {
                "long_a": "echo 'long run: FAILED with SEED=78 after 1 runs, 2 power cuts'; exit 101",
                "long_b": fine,
                "long_killed": "kill -9 $$",
                "long_silent": "exit 0",
                "long_fuzz_x": "exit 1",
                "long_c": fine,
            }
        )
        self.assertEqual(ran.returncode, 1)
        lines = ran.stdout.partition("5 parts in ")[2].splitlines()[1:]
        self.assertEqual(
            [line.split(None, 2) for line in lines],
            [
                ["FAILED", "long_a", "FAILED with SEED=78 after 1 runs, 2 power cuts"],
                ["ok", "long_b", "3 runs, 9 power cuts, continue with SEED=80"],
                ["FAILED", "long_killed", "FAILED without a last line, exit code -9"],
                ["FAILED", "long_silent", "FAILED without a last line, exit code 0"],
                ["ok", "long_c", "3 runs, 9 power cuts, continue with SEED=80"],
            ],
        )

    def test_all_parts_get_an_equal_share_of_the_time(self):
        ran = self.run_parts({f"long_{i}": "echo 'long run: 1 runs, 1 x, continue with SEED=78'" for i in range(4)})
        self.assertEqual(ran.returncode, 0, ran.stdout)
        workers = min(os.cpu_count() or 1, 4)
        for i in range(4):
            with open(f"{self.dir}/logs/long_{i}.log", encoding="utf-8") as log:
                self.assertEqual(log.readline().strip(), f"minutes {6 * workers / 4}, seed 77")


if __name__ == "__main__":
    unittest.main()

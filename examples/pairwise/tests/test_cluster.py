"""Workers on several machines, with files of their own, and a real server of NATS."""

import os
import pathlib
import random
import subprocess
import sys

from .support import SOON, Case

NATS = pathlib.Path(__file__).resolve().parents[3] / "target/nats-server"


class Cluster(Case):
    def run_cluster(self, *arguments):
        command = [sys.executable, "-m", "pairwise", "cluster", str(self.dir / "cluster"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=4 * SOON, check=False)

    def test_the_files_are_equal_after_kills(self):
        server = NATS / "bin/nats-server"
        if not server.is_file():
            # A machine without Go cannot have it; anywhere else it is an error where tests must run.
            why = NATS / "missing"
            reason = why.read_text(encoding="utf-8").strip() if why.is_file() else "there is no nats-server; `make nats-server` builds it"
            if os.environ.get("DENSITE_NO_SKIP") and not why.is_file():
                self.fail(reason)
            if path := os.environ.get("DENSITE_SKIPPED"):
                with open(path, "a", encoding="utf-8") as file:
                    file.write(f"{reason}\n")
            self.skipTest(reason)
        seed = str(random.randrange(1 << 30))
        ran = self.run_cluster("--server", str(server), "--samples", "60", "--batch", "40", "--length", "100", "--kills", "4", "--seed", seed)
        self.assertEqual(ran.returncode, 0, f"--seed {seed}: {ran.stdout}{ran.stderr}")
        self.assertIn("1,770 pairs on each of 3 machines, each there once", ran.stdout)

    def test_a_missing_server_is_one_sentence(self):
        ran = self.run_cluster("--server", "/no/such/server")
        self.assertEqual((ran.returncode, ran.stderr.count("\n")), (1, 1), ran.stderr)
        self.assertIn("/no/such/server does not exist; `make nats-server` builds it", ran.stderr)

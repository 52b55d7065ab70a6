"""`make crash`: runs every long random test for an equal share of the time.

    PYTHONPATH=tests python3 -m long --minutes M [--seed N] [--only WORD] --dir DIR -- COMMAND...

A part is an ignored Rust test named `long_...` (`long_fuzz...` excepted: `make fuzz`), or a Python
package beside this one. COMMAND is the `cargo test` command that builds the Rust tests. As many
parts run at a time as there are cores; together they take M minutes. A part that fails does not
stop the others. Output goes to DIR/PART.log. At the end, one line for each part gives its runs, its
tries and the seed to continue with. The exit code is 1 if a part failed.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

#: The last line of every part. `densite-testing` prints it in Rust.
LAST_LINE = re.compile(r"^long run: (.*)$", re.MULTILINE)
PYTHON_PARTS = ("torture", "powercut")


class Part:
    """A program that runs seeds from DENSITE_SEED on for DENSITE_MINUTES."""

    def __init__(self, name, command, folder):
        self.name, self.command, self.folder = name, command, folder

    def run(self, options, minutes):
        """Returns (succeeded, last line)."""
        environment = dict(os.environ, DENSITE_MINUTES=str(minutes), DENSITE_SEED=options.seed)
        path = os.path.join(options.dir, f"{self.name}.log")
        print(f"{self.name}: {minutes:.1f} minutes, {path}", flush=True)
        with open(path, "wb") as log:
            ran = subprocess.run(self.command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        with open(path, encoding="utf-8", errors="replace") as log:
            last_lines = LAST_LINE.findall(log.read())
        line = last_lines[-1] if last_lines else f"FAILED without a last line, exit code {ran.returncode}"
        print(f"{self.name}: {line}", flush=True)
        return ran.returncode == 0 and bool(last_lines), line


def rust_parts(cargo_test, only):
    """Builds the tests, and lists those that are parts."""
    built = subprocess.run([*cargo_test, "--no-run", "--message-format=json-render-diagnostics"], stdout=subprocess.PIPE, check=True)
    parts = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        program = message.get("executable")
        if message["reason"] != "compiler-artifact" or not program or not message["profile"]["test"]:
            continue
        listed = subprocess.run([program, "--ignored", "--list", "--format=terse"], stdout=subprocess.PIPE, text=True, check=True)
        for test in re.findall(r"^(.*): test$", listed.stdout, re.MULTILINE):
            name = test.rpartition("::")[2]
            if name.startswith("long_") and not name.startswith("long_fuzz") and only in name:
                command = [program, "--ignored", "--nocapture", "--exact", test]
                parts.append(Part(name, command, os.path.dirname(message["manifest_path"])))
    return parts


def python_parts(options):
    parts = []
    for name in PYTHON_PARTS:
        if options.only in name:
            command = [sys.executable, "-m", name, "--command", options.command, "--dir", os.path.join(options.dir, name)]
            parts.append(Part(name, command, os.getcwd()))
    return parts


def main():
    parser = argparse.ArgumentParser(prog="long", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="the time for all parts together (default: 60)")
    parser.add_argument("--seed", default="", help="the first seed of every part (default: new seeds in each run)")
    parser.add_argument("--only", default="", help="run only parts whose names contain this")
    parser.add_argument("--dir", required=True, help="the directory for logs and for the files of failed parts")
    parser.add_argument("--command", required=True, help="the path of the densite command")
    parser.add_argument("cargo_test", nargs="+", help="the cargo command that builds the Rust tests")
    options = parser.parse_args()
    os.makedirs(options.dir, exist_ok=True)
    options.dir = os.path.abspath(options.dir)
    parts = rust_parts(options.cargo_test, options.only) + python_parts(options)
    if not parts:
        sys.exit(f"no part has a name that contains {options.only!r}; give another --only")
    workers = min(os.cpu_count() or 1, len(parts))
    share = options.minutes * workers / len(parts)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(lambda part: part.run(options, share), parts))
    width = max(len(part.name) for part in parts)
    print(f"\n{len(parts)} parts in {(time.monotonic() - began) / 60:.0f} minutes:")
    for part, (succeeded, line) in zip(parts, results):
        print(f"  {'ok    ' if succeeded else 'FAILED'} {part.name:{width}}  {line}")
    if not all(succeeded for succeeded, _ in results):
        sys.exit(1)


if __name__ == "__main__":
    main()

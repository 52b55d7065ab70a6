#!/usr/bin/env python3
"""size.py [TREE]: how large the project is: the figures of docs/decisions/structure.md.

Lines of code are those that are neither blank nor a comment. What stands in a file or folder of tests,
or in `mod tests`, is test code.
"""

import re
import subprocess
import sys
from pathlib import Path

root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)


def tracked(*patterns):
    names = subprocess.run(["git", "ls-files", *patterns], cwd=root, capture_output=True, text=True, check=True)
    return [root / name for name in names.stdout.split("\n") if name and (root / name).is_file()]


def code(text):
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


def split(path):
    """The lines of code of a file, and those of its tests."""
    text = path.read_text()
    if path.name == "tests.rs" or "tests" in path.relative_to(root).parts[:-1]:
        return 0, code(text)
    body, _, tests = text.partition("#[cfg(test)]\nmod tests {")
    return code(body), code(tests)


def words(*patterns):
    return sum(len(path.read_text().split()) for path in tracked(*patterns))


def crates(*options):
    tree = ["cargo", "tree", "--locked", "--offline", "-p", "densite-extension", "-e", "normal,build", "--prefix", "none", *options]
    lines = subprocess.run(tree, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    return len({line.split(" (")[0] for line in lines if line and not line.startswith("[")})


rust = tracked("*.rs")
sources = [path for path in rust if "src" in path.parts and path.relative_to(root).parts[0] not in ("bench", "tests", "fuzz")]
waits = sum(len(re.findall(r"const [A-Z_]+: Duration", path.read_text())) for path in sources)
sleeps = sum(path.read_text().partition("#[cfg(test)]")[0].count("thread::sleep") for path in sources if path.name != "tests.rs")
for what, number in (
    ("lines of code in crates, without tests", sum(split(path)[0] for path in sources)),
    ("lines of code in crates, benchmarks and tests, Rust", sum(sum(split(path)) for path in rust)),
    ("Rust files in crates", len(sources)),
    ("constants that are a duration", waits),
    ("places that sleep, outside of tests", sleeps),
    ("words of documents", words("*.md")),
    ("words of decisions", words("docs/decisions/*.md")),
    ("crates compiled for the extension", crates()),
    ("the same without features", crates("--no-default-features")),
):
    print(f"{number:>8,}  {what}")

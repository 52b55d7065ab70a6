#!/usr/bin/env python3
"""Runs the five-minute start as its page shows it: docs/start.md.

    scripts/start.py --command DENSITE --library LIBDENSITE [--without PROGRAM]...

Each block of the page runs in turn, in an empty directory in which target/release has the command
and the library. In a block `console`, a line that begins with `$ ` is a command. Lines that begin
with the prompt of a shell or of Python are typed into the command before them. Other lines are its
output. A block `sh` is run as a whole and prints nothing. A comment above a block can say that it is
not run.

The output must equal that of the page, with these exceptions:

- `…` stands for any text of its line, or alone for any lines;
- a time in seconds can be any time;
- a size or a share (a number before B, KiB, MiB, bytes or %, or behind _bytes) can differ by a tenth;
- spaces can be more or fewer, and rules of tables longer or shorter.

`python3` is the Python that runs this program. A program that is not installed is skipped, and its
name added to the file DENSITE_SKIPPED. With DENSITE_NO_SKIP it is an error instead. --without skips
a program on purpose.
"""

import argparse
import doctest
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/start.md"
PROMPT = re.compile(r"^(densite> |sqlite> |>>> |\.\.\. | *\.\.\.> )")
NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)?)")
SIZE = re.compile(r" ?(B|KiB|MiB|GiB|bytes|%)(?![A-Za-z])")
TIME = re.compile(r" s(?![A-Za-z])")


class Wrong(Exception):
    """A command failed, or its output is another one."""


def blocks(text):
    """The blocks that are run: (language, lines).

    >>> text = "```sh\\na\\n```\\n<!-- start.py does not run this block: why -->\\n```sh\\nb\\n```\\n"
    >>> blocks(text + "```console\\n$ c\\nd\\n```\\n")
    [('sh', ['a']), ('console', ['$ c', 'd'])]
    """
    found, language, lines, before = [], None, [], ""
    for line in text.splitlines():
        if language is None and line.startswith("```"):
            language, lines = line[3:], []
            is_run = "does not run" not in before
        elif line == "```":
            if language not in ("sh", "console"):
                raise Wrong(f"a block is neither sh nor console: {language!r}")
            if is_run:
                found.append((language, lines))
            language = None
        elif language is not None:
            lines.append(line)
        before = line
    return found


def commands(lines):
    """The commands of a block: (command, what is typed into it, its output).

    >>> commands(["$ a", "b", "$ c", "sqlite> d", "   ...> e", "f"])
    [('a', [], ['b']), ('c', ['d', 'e'], ['f'])]
    """
    found = []
    for line in lines:
        prompt = PROMPT.match(line)
        if line.startswith("$ "):
            found.append((line[2:], [], []))
        elif not found:
            raise Wrong(f"a block begins with output: {line}")
        elif prompt:
            found[-1][1].append(line[prompt.end() :])
        else:
            found[-1][2].append(line)
    return found


def same_figures(shown, printed):
    """Whether two lines without spaces at their ends are equal, apart from figures that vary.

    >>> same_figures("9 pages, 3.90 MiB, 0.2 s", "9 pages, 3.70 MiB, 11 s")
    True
    >>> same_figures("9 pages", "8 pages"), same_figures("9 KiB", "12 KiB"), same_figures("4 rows s", "5 rows s")
    (False, False, False)
    >>> same_figures("stored_bytes|100", "stored_bytes|109"), same_figures("count|100", "count|109")
    (True, False)
    """
    shown, printed = NUMBER.split(shown), NUMBER.split(printed)
    # Text and numbers alternate, and text is first.
    if shown[::2] != printed[::2]:
        return False
    for n in range(1, len(shown), 2):
        wanted, got = (float(line[n].replace(",", "")) for line in (shown, printed))
        before, after = shown[n - 1], shown[n + 1]
        if TIME.match(after):
            continue
        is_size = SIZE.match(after) or before.endswith("_bytes|")
        if abs(wanted - got) > (wanted / 10 if is_size else 0):
            return False
    return True


def same_line(shown, printed):
    """Whether a line of the output is that of the page.

    >>> same_line("a   … c", "a b  c"), same_line("a … c", "a b d"), same_line("┌──┬─┐", "┌────┬─┐")
    (True, False, True)
    """
    shown, printed = (re.sub(r"([─═])+", r"\1", " ".join(line.split())) for line in (shown, printed))
    if "…" in shown:
        return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), printed) is not None
    return same_figures(shown, printed)


def same_output(shown, printed):
    """Whether lines of output are those of the page.

    >>> same_output(["a", "…", "d"], ["a", "b", "c", "d"]), same_output(["a", "…"], ["b"])
    (True, False)
    >>> same_output(["a"], ["a", "b"]), same_output(["a", "b"], ["a"]), same_output([], [])
    (False, False, True)
    """
    if not shown:
        return not printed
    if shown[0].strip() == "…":
        return any(same_output(shown[1:], printed[n:]) for n in range(len(printed) + 1))
    return bool(printed) and same_line(shown[0], printed[0]) and same_output(shown[1:], printed[1:])


class Start:
    def __init__(self, folder, without):
        self.folder, self.without, self.tried = folder, without, []

    def is_wanted(self, command):
        """Whether the program of a command is installed."""
        program = command.split()[0]
        if program in self.without:
            return False
        if shutil.which(program, path=self.environment()["PATH"]) or (self.folder / program).exists():
            return True
        if os.environ.get("DENSITE_NO_SKIP"):
            raise Wrong(f"{command}: {program} is not installed")
        if path := os.environ.get("DENSITE_SKIPPED"):
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{program} is not installed\n")
        self.without.append(program)
        return False

    def environment(self):
        # A virtual environment has its programs beside its Python.
        path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        return {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", "TERM": "dumb"}

    def run(self, command, typed, shown):
        if not self.is_wanted(command):
            return
        program = command
        if command == "python3":
            # It prints the values of expressions only in this mode, and its prompts to stderr.
            program = f"{sys.executable} -i -q 2>/dev/null"
        ran = subprocess.run(
            ["bash", "-c", program],
            cwd=self.folder,
            env=self.environment(),
            input="".join(f"{line}\n" for line in typed),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=600,
        )
        printed = ran.stdout.rstrip("\n").split("\n") if ran.stdout.strip() else []
        if ran.returncode:
            raise Wrong(f"{command}\nended with code {ran.returncode} and printed:\n{ran.stdout}")
        if not same_output(shown, printed):
            shown = "\n".join(shown)
            raise Wrong(f"{command}\nprinted:\n{ran.stdout}\n{PAGE.name} shows:\n{shown}\n")
        self.tried.append(command)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--command", required=True, type=Path)
    options.add_argument("--library", required=True, type=Path)
    options.add_argument("--without", action="append", default=[])
    options = options.parse_args()
    if doctest.testmod().failed:
        sys.exit("the rules above do not work")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        built = folder / "target/release"
        built.mkdir(parents=True)
        (built / "densite").symlink_to(options.command.resolve(strict=True))
        (built / "libdensite.so").symlink_to(options.library.resolve(strict=True))
        start = Start(folder, options.without)
        try:
            for language, lines in blocks(PAGE.read_text(encoding="utf-8")):
                if language == "sh":
                    start.run("\n".join(lines), [], [])
                    continue
                for command in commands(lines):
                    start.run(*command)
        except Wrong as wrong:
            sys.exit(f"{PAGE.name}: {wrong}")
        without = f", without {', '.join(start.without)}" if start.without else ""
        print(f"the five-minute start works: {len(start.tried)} commands{without}")


main()

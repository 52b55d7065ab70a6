"""The table of docs/durability/suites.md."""

import json
import os
import textwrap

BEGIN, END = "<!-- written by make suites -->", "<!-- end -->"
HEADER = ["| suite | version | tests | pass on plain SQLite | of these on Densite, DELETE | on Densite, WAL | Densite files |", "|---|---|---|---|---|---|---|"]


def cell(of_mode):
    """How many passed, and why the others did not."""
    why = [f"{of_mode[kind]} {words}" for kind, words in (("known", "listed below"), ("plain", "not on plain SQLite in WAL mode either")) if of_mode[kind]]
    return f"{of_mode['passed']:,}" + (f" ({'; '.join(why)})" if why else "")


def text(rows, listed):
    out = HEADER[:]
    for row in rows:
        files = f"{row['delete']['files']:,}, {row['wal']['files']:,}"
        out.append(f"| {row['name']} | {row['version']} | {row['tests']:,} | {row['plain']:,} | {cell(row['delete'])} | {cell(row['wal'])} | {files} |")
    by_reason = {}
    for (suite, _), tests in listed.items():
        for test, reason in tests.items():
            by_reason.setdefault((suite, reason), set()).add(test)
    out += ["", "Tests that pass on plain SQLite and not on Densite:", ""] if by_reason else ["", "Every test that passes on plain SQLite passes on Densite."]
    for (suite, reason), tests in by_reason.items():
        names = ", ".join(f"`{test.removeprefix('tests/').replace('::', ' ')}`" for test in sorted(tests))
        out.append(textwrap.fill(f"- {suite}, {names}: {reason}", 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
    return "\n".join(out)


def write(path, saved, listed):
    """`saved` are the files of the rows; a suite that has not run yet has none."""
    rows = []
    for name in filter(os.path.exists, saved):
        with open(name, encoding="utf-8") as file:
            rows.append(json.load(file))
    with open(path, encoding="utf-8") as file:
        page = file.read()
    before, rest = page.split(BEGIN)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n\n{text(rows, listed)}\n\n{END}{rest.split(END)[1]}")

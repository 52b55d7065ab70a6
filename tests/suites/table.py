"""The table of docs/durability/suites.md."""

import json
import os
import textwrap

BEGIN, END = "<!-- written by make suites -->", "<!-- end -->"
HEADER = ["| suite | version | tests | pass on plain SQLite | of these on Densite, DELETE | on Densite, WAL | connections to Densite files |", "|---|---|---|---|---|---|---|"]


def cell(of_mode):
    """How many passed, and why the others did not."""
    why = [f"{of_mode[kind]} {words}" for kind, words in (("known", "listed below"), ("plain", "not on plain SQLite in WAL mode either")) if of_mode[kind]]
    return f"{of_mode['passed']:,}" + (f" ({'; '.join(why)})" if why else "")


def text(rows, listed):
    out = HEADER[:]
    for row in rows:
        files = " and ".join(f"{row[mode]['connections']:,}" for mode in ("delete", "wal"))
        out.append(f"| {row['name']} | {row['version']} | {row['tests']:,} | {row['plain']:,} | {cell(row['delete'])} | {cell(row['wal'])} | {files} |")
    by_reason = {}
    for (suite, mode), tests in listed.items():
        for test, reason in tests.items():
            by_reason.setdefault(reason, {}).setdefault((suite, test), []).append(mode.upper())
    out += ["", "Tests that pass on plain SQLite and not on Densite:", ""]
    for reason, tests in by_reason.items():
        out.append(item("- ", f"{reason}:"))
        for (suite, test), modes in sorted(tests.items()):
            # The house's tests read `tests/…` as a path of this project, and `::` as one of its tests.
            out.append(item("  - ", f"{suite}, {' and '.join(modes)}: `{test.removeprefix('tests/').replace('::', ' ')}`"))
    return "\n".join(out)


def item(start, words):
    return textwrap.fill(start + words, 100, subsequent_indent=" " * len(start), break_long_words=False, break_on_hyphens=False)


def write(path, saved, listed):
    """`saved` are the files of the rows; a suite that has not run yet has none."""
    rows = []
    for name in filter(os.path.exists, saved):
        with open(name, encoding="utf-8") as file:
            rows.append(json.load(file))
    with open(path, encoding="utf-8") as file:
        page = file.read()
    before, rest = page.split(BEGIN)
    page = f"{before}{BEGIN}\n\n{text(rows, listed)}\n\n{END}{rest.split(END)[1]}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)

"""The table of docs/durability/foreign.md: which program said what."""

import textwrap

from . import sql

BEGIN, END = "<!-- written by make foreign -->", "<!-- end -->"
NOTHING = "(nothing, exit code 0)"


def key(result):
    return result["program"], result["version"]


def words_of(results, live):
    """What a program said, the most frequent first."""
    counts = {}
    for result in results:
        if result["state"].startswith("live") == live:
            said = result["said"] or (NOTHING if result["code"] == 0 else f"(nothing, exit code {result['code']})")
            counts[said] = counts.get(said, 0) + 1
    return [said for said, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def rows(results):
    """By program and version: (number of verbs, words on live files, words on killed files)."""
    of_each = {}
    for result in results:
        if result["program"]:
            of_each.setdefault(key(result), []).append(result)
    return {name: (len({r["verb"] for r in own}), words_of(own, True), words_of(own, False)) for name, own in of_each.items()}


def text(results):
    lines = ["| program | version | verbs | on live files it says | on killed files it says |", "|---|---|---|---|---|"]
    for (program, version), (verbs, live, killed) in rows(results).items():
        lines.append(f"| {program} | {version} | {verbs} | {cell(live)} | {cell(killed)} |")
    lines += ["", "The verbs of each; those of SQL, which all drivers run, come first:", ""]
    verbs = {}
    for result in results:
        if result["program"]:
            verbs.setdefault(result["program"], {})[result["verb"]] = None
    core = [*sql.ON_MAIN, *sql.ATTACHED]
    lines.append(item("SQL", core))
    for program, names in verbs.items():
        has_core = all(name in names for name in core)
        rest = [name for name in names if not (has_core and name in core)]
        lines.append(item(program, (["SQL"] if has_core else []) + rest))
    return "\n".join(lines) + "\n"


def item(name, words):
    return textwrap.fill(f"- {name}: {'; '.join(words)}", 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def cell(words):
    return "; ".join(word.replace("|", "\\|") for word in words)


def recorded(page):
    """The rows of the page, by program and version."""
    found = {}
    for line in page.split(BEGIN)[1].split(END)[0].splitlines():
        cells = [part.strip() for part in line.replace("\\|", "\0").strip("|").split("|")]
        if len(cells) == 5 and cells[2].isdigit():
            program, version, _, live, killed = (part.replace("\0", "|") for part in cells)
            found[program, version] = live.split("; "), killed.split("; ")
    return found


def compare(path, results, write):
    """Writes the table, or returns how many programs say something else than their row. A program
    of another version has no row."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    if write:
        before, rest = page.split(BEGIN)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{before}{BEGIN}\n\n{text(results)}\n{END}{rest.split(END)[1]}")
        return 0
    known, different = recorded(page), 0
    for name, (_, live, killed) in rows(results).items():
        if name not in known:
            print(f"{' '.join(name)} has no row in {path}")
            continue
        for said, row, where in zip((live, killed), known[name], ("live", "killed")):
            new = set(said) - set(row)
            if new:
                different += 1
                print(f"FAULT: {' '.join(name)} says on {where} files, and {path} does not: {'; '.join(sorted(new))}")
    return different

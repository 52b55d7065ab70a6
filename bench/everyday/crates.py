"""The source files of the crates that Cargo.lock names, from cargo's registry."""

import hashlib
import os
import pathlib
import re
import tomllib

from database import create, insert

LANGUAGES = {
    ".rs": "Rust",
    ".md": "Markdown",
    ".toml": "TOML",
    ".c": "C",
    ".h": "C",
    ".s": "assembly",
    ".S": "assembly",
    ".asm": "assembly",
    ".txt": "text",
    ".yml": "YAML",
    ".json": "JSON",
    ".sh": "shell",
    ".py": "Python",
}
#: One large crate must not decide what the whole database is like.
PER_CRATE = 750_000
SMALLEST, LARGEST = 2 << 10, 50 << 10
COMMENT = re.compile(r"^\s*//[/!]*(?: (.*))?$", re.MULTILINE)


def folders():
    """The folder of each crate, in the order of names and versions."""
    here = pathlib.Path(__file__).resolve().parents[2]
    with open(here / "Cargo.lock", "rb") as file:
        packages = tomllib.load(file)["package"]
    home = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
    registries = sorted((home / "registry" / "src").iterdir())
    names = sorted(f"{p['name']}-{p['version']}" for p in packages if "source" in p)
    for name in names:
        found = next((r / name for r in registries if (r / name).is_dir()), None)
        if found is None:
            raise FileNotFoundError(f"cargo's registry has no sources of {name}: run cargo fetch")
        yield name, found


def source():
    """SHA-256 of the crates' names and versions."""
    names = "\n".join(name for name, _ in folders())
    return hashlib.sha256(names.encode()).hexdigest()


def files():
    """Crate, path in the crate, language and text of each source file, in a fixed order."""
    for crate, folder in folders():
        paths = (path for path in folder.rglob("*") if path.suffix in LANGUAGES)
        for path in sorted(path for path in paths if path.is_file()):
            try:
                text = path.read_bytes().decode()
            except UnicodeDecodeError:
                continue
            yield crate, path.relative_to(folder).as_posix(), LANGUAGES[path.suffix], text


def documents(part):
    """The files of 2 to 50 KB; with `part`, every twentieth of them."""
    taken, number = {}, 0
    for crate, path, language, text in files():
        size = len(text.encode())
        if SMALLEST <= size <= LARGEST and taken.get(crate, 0) + size <= PER_CRATE:
            taken[crate] = taken.get(crate, 0) + size
            number += 1
            if not part or number % 20 == 0:
                yield crate, path, language, text


def sources(path, part):
    """A table of documents: source files of 2 to 50 KB."""
    with create(path) as con:
        con.execute(
            """CREATE TABLE document (
                 id INTEGER PRIMARY KEY, path TEXT NOT NULL, crate TEXT NOT NULL,
                 language TEXT NOT NULL, text TEXT NOT NULL, UNIQUE (crate, path))"""
        )
        rows = documents(part)
        insert(con, "document", ((None, name, crate, *rest) for crate, name, *rest in rows))


def prose(language, text):
    """What people wrote for people: Markdown, and the comments of Rust."""
    if language == "Markdown":
        return text
    if language != "Rust":
        return ""
    return "\n".join(match[1] or "" for match in COMMENT.finditer(text))


def search(path, part):
    """An FTS5 index with content over the crates' documentation."""
    with create(path) as con:
        con.execute("CREATE VIRTUAL TABLE page USING fts5(title, body)")
        number = 0
        for crate, name, language, text in files():
            body = prose(language, text)
            if len(body) < 200:
                continue
            number += 1
            if not part or number % 20 == 0:
                con.execute("INSERT INTO page VALUES (?, ?)", (f"{crate}/{name}", body))
        con.execute("INSERT INTO page(page) VALUES ('optimize')")

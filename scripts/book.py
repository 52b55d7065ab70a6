#!/usr/bin/env python3
"""The documentation as a book: collects the pages for mdBook, and checks its output.

    scripts/book.py collect TO     copies the pages of docs/SUMMARY.md, and the files they link to
    scripts/book.py check BOOK     each link of the HTML leads to a file and an anchor of the book

mdBook takes pages from one folder only. So the pages keep their places in a copy of the
repository's folders, and their links work in the book as they do in the repository. The few pages
with another place in the book have their links changed, and so have the links to them.
"""

import html.parser
import os
import re
import shutil
import sys
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s#]*)(#[^)\s]*)?\)")
SUMMARY = Path("docs/SUMMARY.md")
# These pages have other places in the book: mdBook makes index.html of a README.md, and the start
# page is in its root.
PLACES = {SUMMARY: Path("SUMMARY.md"), Path("docs/home.md"): Path("index.md"), Path("README.md"): Path("overview.md")}


def place(file):
    """Where a file of the repository is in the book. mdBook makes index.html of a README.md, but
    does not change the links to it, so it is index.md from the start."""
    return PLACES.get(file, file.with_name("index.md") if file.name == "README.md" else file)


def target(page, path):
    """The file that a page links to by this path, or nothing for a link to another site."""
    if not path or "://" in path or path.startswith("mailto:"):
        return None
    return Path(os.path.normpath(page.parent / path))


def links(page):
    """The files that a page links to, from the root of the repository, and whether they exist."""
    for path, _ in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        if file := target(page, path):
            yield file


def copy_page(page, to):
    """Copies a page to its place, with links to the places of other files."""

    def moved(link):
        file = target(page, link[1])
        if file is None:
            return link[0]
        return f"]({os.path.relpath(place(file), place(page).parent)}{link[2] or ''})"

    to = to / place(page)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(LINK.sub(moved, (ROOT / page).read_text(encoding="utf-8")), encoding="utf-8")


def collect(to):
    pages = list(links(SUMMARY))
    shutil.rmtree(to, ignore_errors=True)
    wrong = []
    for page in [SUMMARY, *pages]:
        copy_page(page, to)
        for file in links(page):
            source = ROOT / file
            if source.suffix == ".md" and file not in pages:
                wrong.append(f"{page} links to {file}, which docs/SUMMARY.md does not list")
            elif source.is_file() and file not in pages:
                (to / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, to / file)
    unlisted = {p.relative_to(ROOT) for p in (ROOT / "docs").rglob("*.md")} - {SUMMARY, *pages}
    wrong += [f"docs/SUMMARY.md does not list {page}" for page in sorted(unlisted)]
    return wrong


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def check(book):
    pages = {p: Page(p.read_text(encoding="utf-8")) for p in book.rglob("*.html")}
    wrong = []
    for page, parsed in pages.items():
        if page.name in ("404.html", "print.html"):
            continue
        for link in parsed.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            file = page
            if url.path:
                file = Path(os.path.normpath(page.parent / urllib.parse.unquote(url.path)))
            anchor = urllib.parse.unquote(url.fragment)
            name = page.relative_to(book)
            if not file.exists():
                wrong.append(f"{name}: {link}: no such file")
            elif anchor and file in pages and anchor not in pages[file].ids:
                wrong.append(f"{name}: {link}: no such anchor")
    return wrong


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("collect", "check"):
        sys.exit(__doc__)
    work = collect if sys.argv[1] == "collect" else check
    wrong = work(Path(sys.argv[2]).resolve())
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


main()

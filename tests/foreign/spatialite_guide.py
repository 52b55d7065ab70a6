"""The guide to SpatiaLite works: its code makes a Densite file, which a plain SQLite then reads.

    PYTHONPATH=python DENSITE_LIBRARY=target/release/libdensite.so /usr/bin/python3 tests/foreign/spatialite_guide.py target/release/densite

Needs the module mod_spatialite (libsqlite3-mod-spatialite), and a Python that loads extensions, as
Debian's does.
"""

import contextlib
import io
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

MODULE = "mod_spatialite"


def loaded(name):
    con = sqlite3.connect(name)
    con.enable_load_extension(True)
    con.load_extension(MODULE)
    return con


def main():
    try:
        loaded(":memory:").close()
    except (AttributeError, sqlite3.OperationalError):
        print(f"{MODULE} is missing: its guide is not tried")
        return
    command = os.path.abspath(sys.argv[1])
    guide = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "ecosystem.md"
    section = guide.read_text(encoding="utf-8").split("\n## SpatiaLite\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (script,) = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    library = os.path.abspath(os.environ["DENSITE_LIBRARY"]).removesuffix(".so")
    script = script.replace("target/release/libdensite", library)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "ecosystem.md, SpatiaLite", "exec"), {})
        assert printed.getvalue() == "[('Bern',)]\n", printed.getvalue()
        shell = ["sqlite3", "-batch", ":memory:"]
        shown = subprocess.run(shell, check=True, capture_output=True, text=True, input=script).stdout
        assert "Bern|POINT(7.45 46.95)\n" in shown, shown
        # Nothing of it is lost, in either form.
        for verb in (["check"], ["vacuum", "--yes"], ["decompress"]):
            subprocess.run([command, *verb, "--quiet", "places.db"], check=True)
        con = loaded("places.db")
        (towns,) = con.execute("SELECT group_concat(name || AsText(at), ' ') FROM place").fetchone()
        assert towns == "BernPOINT(7.45 46.95) OsloPOINT(10.75 59.91)", towns
        (found,) = con.execute("SELECT count(*) FROM idx_place_at").fetchone()
        (version,) = con.execute("SELECT spatialite_version()").fetchone()
        con.close()
        assert found == 2, found
    print(f"SpatiaLite {version}: the guide works")


if __name__ == "__main__":
    main()

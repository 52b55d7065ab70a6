"""Debian's packages, as apt knows them on this machine."""

import hashlib
import subprocess

from database import create, insert

#: The fields that are columns, with their types. Other fields of a package are left out.
FIELDS = {
    "Package": "TEXT NOT NULL",
    "Version": "TEXT NOT NULL",
    "Architecture": "TEXT NOT NULL",
    "Source": "TEXT",
    "Installed-Size": "INTEGER",
    "Maintainer": "TEXT",
    "Section": "TEXT",
    "Priority": "TEXT",
    "Multi-Arch": "TEXT",
    "Essential": "TEXT",
    "Provides": "TEXT",
    "Pre-Depends": "TEXT",
    "Depends": "TEXT",
    "Recommends": "TEXT",
    "Suggests": "TEXT",
    "Breaks": "TEXT",
    "Replaces": "TEXT",
    "Conflicts": "TEXT",
    "Description": "TEXT",
    "Description-md5": "TEXT",
    "Homepage": "TEXT",
    "Tag": "TEXT",
    "Filename": "TEXT",
    "Size": "INTEGER",
    "MD5sum": "TEXT",
    "SHA256": "TEXT",
}


def text():
    """apt's list of available packages."""
    found = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=True).stdout
    if len(found) < 10_000_000:
        raise FileNotFoundError("apt-cache dumpavail has no package lists: run apt-get update")
    return found


def source():
    """SHA-256 of the text that the database is built from. Debian changes it almost every day."""
    return hashlib.sha256(text()).hexdigest()


def packages(path, part):
    """A table of packages: texts, numbers and NULLs, with text keys."""
    rows = {}
    for paragraph in text().decode().split("\n\n"):
        fields, name = {}, None
        for line in paragraph.split("\n"):
            if line[:1] in (" ", "\t"):
                fields[name] += "\n" + line
            elif line:
                name, _, fields[name] = line.partition(": ")
        if fields:
            row = tuple(
                int(fields[f]) if t == "INTEGER" and f in fields else fields.get(f)
                for f, t in FIELDS.items()
            )
            rows[row[:3]] = row
    columns = ", ".join(f"{f.lower().replace('-', '_')} {t}" for f, t in FIELDS.items())
    with create(path) as con:
        con.execute(
            f"""CREATE TABLE package ({columns}, PRIMARY KEY (package, version, architecture));
                CREATE INDEX package_source ON package(source);
                CREATE INDEX package_section ON package(section);
                CREATE INDEX package_maintainer ON package(maintainer)"""
        )
        ordered = [rows[key] for key in sorted(rows)]
        insert(con, "package", ordered[:: 20 if part else 1])

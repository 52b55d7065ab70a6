"""Builds the seven everyday databases, and checks them against databases.json.

    bench/everyday/run.sh target/bench-everyday bench/data/everyday [--part] [--only NAME,...]
                          [--record]

A database that exists is not built again. `DIR/built.json` has the size and the SHA-256 of each
database, and whether they are the recorded ones. A database that cannot be built has the reason
there.
"""

import argparse
import json
import os
import pathlib
import sys

import airports
import crates
import database
import embeddings
import packages
import sensors

BUILDERS = {
    "packages": packages.packages,
    "sources": crates.sources,
    "embeddings": embeddings.embeddings,
    "sensors": sensors.sensors,
    "events": airports.events,
    "search": crates.search,
    "flights": airports.flights,
}
#: The sources that change by themselves.
SOURCES = {
    "packages": packages.source,
    "sources": crates.source,
    "embeddings": crates.source,
    "search": crates.source,
}
RECORDED = pathlib.Path(__file__).with_name("databases.json")


def build(name, folder, part):
    """Builds the database if it is missing. Returns what is known about it."""
    path = os.path.join(folder, f"{name}.db")
    try:
        if not os.path.exists(path):
            print(f"building {path}", file=sys.stderr)
            BUILDERS[name](path, part)
    except OSError as failure:
        print(f"{name} cannot be built: {failure}", file=sys.stderr)
        return {"missing": str(failure)}
    found = {"bytes": os.path.getsize(path), "sha256": database.digest(path)}
    if name in SOURCES:
        found["source_sha256"] = SOURCES[name]()
    return found


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--dir", required=True, help="the folder of the databases")
    options.add_argument("--part", action="store_true", help="a twentieth of each")
    options.add_argument("--only", default=",".join(BUILDERS), help="names, divided by commas")
    options.add_argument("--record", action="store_true", help="write databases.json")
    options = options.parse_args()
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    path = pathlib.Path(options.dir, "built.json")
    built = json.loads(path.read_text()) if path.exists() else {}
    for name in options.only.split(","):
        found = built[name] = build(name, options.dir, options.part)
        known = recorded.get(name, {})
        if options.record:
            known = recorded[name] = {**known, **found}
        found["recorded"] = not options.part and found.get("sha256") == known.get("sha256")
        if not options.part and not found["recorded"] and "missing" not in found:
            print(f"{name}.db is not the one of bench/everyday/databases.json", file=sys.stderr)
    if options.record:
        RECORDED.write_text(json.dumps(recorded, indent=2) + "\n")
    path.write_text(json.dumps(built, indent=2) + "\n")


if __name__ == "__main__":
    main()

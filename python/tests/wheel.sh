#!/bin/bash
# wheel.sh WHEELS DIR
#
# Installs the wheel in WHEELS into a new environment in DIR, without an index. Tests the package,
# the library and the command of the wheel. Then does the same with the checkout, as `pip install .`
# does.
set -euo pipefail
[ $# = 2 ] || { sed -n 2,6p "$0" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
wheels=("$1"/densite-*-py3-none-manylinux_*.whl)
wheel=$(realpath "${wheels[0]}")
mkdir -p "$2"; cd "$2"
. "$here/../../scripts/again.sh"
. "$here/../../scripts/environment.sh"

check() { # check ENVIRONMENT
env -u PYTHONPATH -u DENSITE_LIBRARY "$1/bin/python" -I -W error - <<'PROGRAM'
import os, pathlib, subprocess, sys, tempfile
import densite

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "a.db")
    con = densite.connect(path)
    con.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    assert densite.insert(con, "t", [(n, str(n)) for n in range(1000)]) == 1000
    assert densite.query(con, "SELECT b FROM keys JOIN t USING (a)", keys={"a": [7]}).fetchall() == [("7",)]
    con.close()
    assert densite.info(path)["form"] == "compressed"
    command = pathlib.Path(sys.executable).parent / "densite"
    for program in ([command], [sys.executable, "-I", "-m", "densite"]):
        output = subprocess.run([*program, "check", path], check=True, capture_output=True, text=True).stdout
        assert ": ok" in output, output
    con = densite.connect(path)
    log = densite.ingest(con, "t", on_conflict="replace")
    assert log.append([(7, "seven")]) == log.wait() == 1
    assert [change.op for change in densite.subscribe(con, "s", "start").next(0).rows] == ["insert"]
    con.close()

from importlib import metadata, resources
about = metadata.metadata("densite")
assert (about["Name"], about["Version"], about["Requires-Python"]) == ("densite", densite.__version__, ">=3.9"), about.items()
assert "Typing :: Typed" in about.get_all("Classifier") and metadata.requires("densite") is None
assert resources.files("densite").joinpath("py.typed").is_file()
# Datasette, sqlite-utils, SQLAlchemy and Django look for these. The modules cannot be imported
# without them.
points = sorted((point.group, point.name, point.value) for point in metadata.distribution("densite").entry_points)
assert points == [
    ("datasette", "densite", "densite.datasette"),
    ("sqlalchemy.dialects", "sqlite.densite", "densite.sqlalchemy:DensiteDialect"),
    ("sqlite_utils", "densite", "densite.sqlite_utils"),
], points
for name in ("datasette.py", "sqlalchemy.py", "sqlite_utils.py", "django/base.py"):
    assert resources.files("densite").joinpath(name).is_file(), name
assert pathlib.Path(densite.library_path()).is_relative_to(pathlib.Path(densite.__file__).parent)
# Programs are shipped with the library, which the wheel holds stripped.
size = os.path.getsize(densite.library_path())
assert size <= 16_000_000, f"the stripped library has {size} bytes, and at most 16,000,000 are promised"
print(f"densite {densite.__version__} works in {sys.prefix}")
PROGRAM
"$1/bin/pip" uninstall --quiet --yes --disable-pip-version-check densite
[ ! -e "$1/bin/densite" ] || { echo "uninstalling left the command: $1/bin/densite is still there" >&2; exit 1; }
}

rm -rf wheel-env
python3 -m venv wheel-env
wheel-env/bin/pip install --quiet --disable-pip-version-check --no-index "$wheel"
check wheel-env

# With the pinned hatchling, so that this needs no network.
environment checkout-env "$here/../build-requirements.txt" hatchling
checkout-env/bin/pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation "$here/../.."
check checkout-env

#!/bin/bash
# run.sh LIBRARY WHEELS DIR
#
# Runs the tests of the Python package on LIBRARY (a libdensite.so): in environments in DIR with
# other drivers and with builds of SQLite that encrypt, and, unless DENSITE_EFFORT is quick, without
# other packages with every CPython from 3.9 that is found as python3.N or named in DENSITE_PYTHONS. In
# an environment with Django, SQLAlchemy and similar it tests the wheel in WHEELS, because they find the
# package by its metadata, and runs the commands of docs/start.md with the command beside LIBRARY.
# Changes nothing outside DIR.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 3 ] || { sed -n 2,9p "$0" >&2; exit 2; }
library=$(realpath "$1") wheels=("$2"/densite-*-py3-none-manylinux_*.whl)
wheel=$(realpath "${wheels[0]}")
"$here/setup.sh" "$3"; cd "$3"

# A directory of its own, so that a test can leave it out.
rm -rf installed
ecosystem/bin/pip install --quiet --disable-pip-version-check --no-index --no-deps --target installed "$wheel"

tests() { # tests PYTHON FOLDER PACKAGE [env's OPTION...]
  local python=$1 folder=$2 package=$3; shift 3
  echo "$("$python" --version) ($python)"
  env "$@" PYTHONPATH="$package:$here" PYTHONDONTWRITEBYTECODE=1 "$python" -W error -m unittest discover -s "$folder"
}

tests env/bin/python "$here" "$here/.." DENSITE_LIBRARY="$library"
tests encryption/bin/python "$here/encryption" "$here/.." DENSITE_LIBRARY="$library"
tests ecosystem/bin/python "$here/ecosystem" "$PWD/installed" -u DENSITE_LIBRARY
# The five-minute start, with Datasette of that environment.
env -u DENSITE_LIBRARY PYTHONPATH="$PWD/installed" PYTHONDONTWRITEBYTECODE=1 ecosystem/bin/python "$here/../../scripts/start.py" \
  --command "$(dirname "$library")/densite" --library "$library"
# Few changes break one CPython and not another.
[ "${DENSITE_EFFORT:-}" != quick ] || exit 0
for name in ${DENSITE_PYTHONS:-python3.9 python3.10 python3.11 python3.12 python3.13 python3.14}; do
  python=$(command -v "$name" || true)
  # The name alone is not enough: it can be a stub without an interpreter.
  if [ -n "$python" ] && "$python" -c 'import sqlite3, ctypes' 2>/dev/null; then
    # Tests that need other packages run above. Skipping them here is intended.
    tests "$python" "$here" "$here/.." -u DENSITE_NO_SKIP -u DENSITE_SKIPPED DENSITE_LIBRARY="$library"
  fi
done

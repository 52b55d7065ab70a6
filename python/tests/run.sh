#!/bin/bash
# run.sh LIBRARY DIR
#
# Runs the tests of the Python package on LIBRARY (a libdensite.so): in an environment in DIR with
# other drivers, in a second one with Django, SQLAlchemy and similar, and without other packages
# with every CPython from 3.9 that is found as python3.N or named in DENSITE_PYTHONS. Changes
# nothing outside DIR.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 2 ] || { sed -n 2,7p "$0" >&2; exit 2; }
library=$(realpath "$1")
mkdir -p "$2"; cd "$2"

. "$here/../../scripts/again.sh"
. "$here/../../scripts/environment.sh"
environment env "$here/requirements.txt"
environment ecosystem "$here/ecosystem/requirements.txt"

tests() { # tests PYTHON FOLDER [env's OPTION...]
  local python=$1 folder=$2; shift 2
  echo "$("$python" --version) ($python)"
  env "$@" DENSITE_LIBRARY="$library" PYTHONPATH="$here/..:$here" PYTHONDONTWRITEBYTECODE=1 "$python" -W error -m unittest discover -s "$folder"
}

tests env/bin/python "$here"
tests ecosystem/bin/python "$here/ecosystem"
for name in ${DENSITE_PYTHONS:-python3.9 python3.10 python3.11 python3.12 python3.13 python3.14}; do
  python=$(command -v "$name" || true)
  # The name alone is not enough: it can be a stub without an interpreter.
  if [ -n "$python" ] && "$python" -c 'import sqlite3, ctypes' 2>/dev/null; then
    # Tests that need other packages run above. Skipping them here is intended.
    tests "$python" "$here" -u DENSITE_NO_SKIP -u DENSITE_SKIPPED
  fi
done

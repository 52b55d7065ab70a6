#!/bin/bash
# run.sh LIBRARY DIR
#
# Runs the Python package's tests on LIBRARY (a libdensite.so): in an environment in DIR that has other drivers too, those with Django, SQLAlchemy and
# so on in another, and, without any of these, with every CPython from 3.9 on that is found as python3.N (or is named in DENSITE_PYTHONS). Nothing
# outside DIR is touched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 2 ] || { sed -n 2,7p "$0" >&2; exit 2; }
library=$(realpath "$1")
mkdir -p "$2"; cd "$2"

. "$here/../../scripts/again.sh"

# environment NAME LIST: up to date if and only if its stamp, written last, names the same list and the same Python.
environment() {
  local stamp
  stamp="$(python3 -c 'import sys; print(sys.version)') $(cksum <"$2")"
  [ "$(cat "$1.built" 2>/dev/null)" != "$stamp" ] || return 0
  rm -rf "$1" "$1.built"
  python3 -m venv "$1"
  again "$1/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: -r "$2"
  echo "$stamp" >"$1.built"
}
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
  # A name alone is not enough: it may be a stub that finds no interpreter.
  if [ -n "$python" ] && "$python" -c 'import sqlite3, ctypes' 2>/dev/null; then
    # Without other packages by design: what needs them is not missed here.
    tests "$python" "$here" -u DENSITE_NO_SKIP -u DENSITE_SKIPPED
  fi
done

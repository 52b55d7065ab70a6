#!/bin/bash
# run.sh LIBRARY DIR
#
# Runs the Python package's tests on LIBRARY (a libdensite.so): in an environment in DIR that has other drivers too, and, without those drivers, with
# every CPython from 3.9 on that is found as python3.N (or is named in DENSITE_PYTHONS). Nothing outside DIR is touched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 2 ] || { sed -n 2,6p "$0" >&2; exit 2; }
library=$(realpath "$1")
mkdir -p "$2"; cd "$2"

again() { # again COMMAND...: a download may fail for a while
  local n=1
  until "$@"; do
    [ $n -lt 4 ] || { echo "gave up after $n tries: $*" >&2; return 1; }
    echo "try $n of 4 failed: $*" >&2; sleep $((n * 5)); n=$((n + 1))
  done
}

# Up to date if and only if the stamp, written last, names the same list and the same Python.
stamp="$(python3 -c 'import sys; print(sys.version)') $(cksum <"$here/requirements.txt")"
if [ "$(cat built 2>/dev/null)" != "$stamp" ]; then
  rm -rf env built
  python3 -m venv env
  again env/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: -r "$here/requirements.txt"
  echo "$stamp" >built
fi

tests() { # tests PYTHON [NAME=VALUE]
  echo "$("$1" --version) ($1)"
  env ${2:+"$2"} DENSITE_LIBRARY="$library" PYTHONPATH="$here/.." PYTHONDONTWRITEBYTECODE=1 "$1" -W error -m unittest discover -s "$here"
}

tests env/bin/python
for name in ${DENSITE_PYTHONS:-python3.9 python3.10 python3.11 python3.12 python3.13 python3.14}; do
  python=$(command -v "$name" || true)
  # A name alone is not enough: it may be a stub that finds no interpreter.
  if [ -n "$python" ] && "$python" -c 'import sqlite3, ctypes' 2>/dev/null; then
    tests "$python" DENSITE_NO_SKIP=
  fi
done

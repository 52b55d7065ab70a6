#!/bin/bash
# setup.sh DIR
#
# Makes a Python environment in DIR/env with moto, a server with the interface of S3, at fixed versions.
# 60 MB of downloads. Does nothing if it is up to date. Nothing outside DIR is touched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 1 ] || { sed -n 2,5p "$0" >&2; exit 2; }
mkdir -p "$1"; cd "$1"
exec 9>lock; flock 9

. "$here/../../../scripts/again.sh"

# Up to date if and only if the stamp, written last, names the same list and the same Python.
stamp="$(python3 -c 'import sys; print(sys.version)') $(cksum <"$here/requirements.txt")"
[ "$(cat built 2>/dev/null)" != "$stamp" ] || exit 0
rm -rf env built
python3 -m venv env
again env/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: -r "$here/requirements.txt"
env/bin/python -c 'import moto.server'
echo "$stamp" >built

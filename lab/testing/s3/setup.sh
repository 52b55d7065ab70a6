#!/bin/bash
# setup.sh DIR
#
# Makes a Python environment in DIR/env with moto, a server with the interface of S3, at fixed
# versions: 140 MB on the disk. Does nothing if it is up to date. Nothing outside DIR is touched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 1 ] || { sed -n 2,5p "$0" >&2; exit 2; }
mkdir -p "$1"; cd "$1"
exec 9>lock; flock 9

. "$here/../../../scripts/again.sh"
. "$here/../../../scripts/environment.sh"
environment env "$here/requirements.txt" moto.server

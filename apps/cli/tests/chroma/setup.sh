#!/bin/bash
# setup.sh DIR
#
# Makes a Python environment in DIR for each Chroma that the tests use: DIR/0.5.4 (the last but one with positions in the pickle) and DIR/1.5.9
# (the newest). About a minute and 130 MB of downloads for both, 430 MB on the disk; does nothing for one that is up to date. Nothing outside
# DIR is touched. Only what opening a directory needs is installed, at fixed versions, without Chroma's other dependencies.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 1 ] || { sed -n 2,6p "$0" >&2; exit 2; }
mkdir -p "$1"; cd "$1"
exec 9>lock; flock 9

. "$here/../../../../scripts/again.sh"
. "$here/../../../../scripts/environment.sh"

for list in "$here"/requirements-*.txt; do
  version=${list##*/requirements-}
  environment "${version%.txt}" "$list" chromadb
done

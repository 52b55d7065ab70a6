#!/bin/bash
# wheel.sh BUILT DIR
#
# Makes the wheel of the Python package in DIR, with libdensite.so and the command densite from
# BUILT. Its tag is the oldest manylinux whose glibc has all symbols that both files need, as
# auditwheel finds out. Changes nothing outside DIR and target.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 2 ] || { sed -n 2,6p "$0" >&2; exit 2; }
mkdir -p "$2"
built=$(realpath "$1") dir=$(realpath "$2")
cd "$here/.."
. scripts/again.sh
. scripts/environment.sh
tools=target/wheel-tools
environment "$tools" python/build-requirements.txt hatchling

raw=$(mktemp -d "$dir/raw.XXXXXX")
trap 'rm -rf "$raw"' EXIT
rm -f "$dir"/densite-*.whl
PATH="$PWD/$tools/bin:$PATH"
DENSITE_BUILT="$built" hatchling build -t wheel -d "$raw" >&2
auditwheel repair -w "$dir" "$raw"/densite-*.whl
ls -l "$dir"/densite-*.whl

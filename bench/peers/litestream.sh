#!/bin/bash
# litestream.sh DIR
#
# Builds Litestream, which `make bench ONLY=replicate` compares with, at a fixed version:
# DIR/bin/litestream. This takes two minutes of processor time. Does nothing if it is up to date.
# Nothing outside DIR is touched.
set -euo pipefail
version=v0.5.18
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 1 ] || { sed -n 2,6p "$0" >&2; exit 2; }
mkdir -p "$1"; cd "$1"
exec 9>lock; flock 9

[ "$(cat built 2>/dev/null)" != "$version" ] || exit 0
. "$here/../../scripts/again.sh"
# Where the archive of Go's own site is unpacked.
PATH=$PATH:/usr/local/go/bin
command -v go >/dev/null || {
  echo "Go is missing, which builds Litestream: install Go 1.26 or newer" >&2
  exit 1
}
echo "building Litestream $version in $PWD; this takes some minutes" >&2
rm -rf bin built
export GOBIN=$PWD/bin GOPATH=$PWD/go GOCACHE=$PWD/cache GOFLAGS=-modcacherw CGO_ENABLED=0
again go install -ldflags '-s -w' "github.com/benbjohnson/litestream/cmd/litestream@$version"
rm -rf go cache
echo "$version" >built

#!/bin/bash
# go-program.sh DIR PACKAGE VERSION OLDEST_GO MINUTES
#
# Builds a program that is written in Go at a fixed version: DIR/bin/NAME, where NAME is the last
# part of PACKAGE. Does nothing if it is up to date. Nothing outside DIR is touched. MINUTES says how
# long it takes ("a minute"). If it cannot be built, the reason is printed and written to
# DIR/missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 5 ] || { sed -n 2,7p "$0" >&2; exit 2; }
package=$2 version=$3 oldest=$4 time=$5
name=${package##*/}
# The last part of a module's path can be its major version.
case $name in v[0-9]*) name=${package%/*}; name=${name##*/} ;; esac
mkdir -p "$1"; cd "$1"
exec 9>lock; flock 9

[ "$(cat built 2>/dev/null)" != "$version" ] || exit 0
. "$here/again.sh"
# Where the archive of Go's own site is unpacked.
PATH=$PATH:/usr/local/go/bin
fail() {
  echo "$1" | tee missing >&2
  exit 1
}
rm -rf bin built missing
command -v go >/dev/null || fail "Go is missing, which builds $name: install Go $oldest or newer"
echo "building $name $version in $PWD; this takes $time" >&2
export GOBIN=$PWD/bin GOPATH=$PWD/go GOCACHE=$PWD/cache GOFLAGS=-modcacherw CGO_ENABLED=0
again go install -ldflags '-s -w' "$package@$version" ||
  fail "Go could not build $name $version: $(go version)"
rm -rf go cache
echo "$version" >built

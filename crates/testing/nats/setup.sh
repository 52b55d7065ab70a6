#!/bin/bash
# setup.sh DIR
#
# Builds nats-server, a server of NATS with JetStream, at a fixed version: DIR/bin/nats-server,
# 20 MB. This takes a minute. Does nothing if it is up to date. Nothing outside DIR is touched.
# Without Go, it writes the reason to DIR/missing, and fails.
set -euo pipefail
version=v2.12.1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 1 ] || { sed -n 2,6p "$0" >&2; exit 2; }
mkdir -p "$1"; cd "$1"
exec 9>lock; flock 9

[ "$(cat built 2>/dev/null)" != "$version" ] || exit 0
. "$here/../../../scripts/again.sh"
# Where the archive of Go's own site is unpacked.
PATH=$PATH:/usr/local/go/bin
fail() {
  echo "$1" | tee missing >&2
  exit 1
}
rm -rf bin built missing
command -v go >/dev/null || fail "Go is missing, which builds nats-server: install Go 1.24 or newer"
echo "building nats-server $version in $PWD; this takes a minute" >&2
export GOBIN=$PWD/bin GOPATH=$PWD/go GOCACHE=$PWD/cache GOFLAGS=-modcacherw CGO_ENABLED=0
again go install -ldflags '-s -w' "github.com/nats-io/nats-server/v2@$version" ||
  fail "Go could not build nats-server $version: $(go version)"
rm -rf go cache
echo "$version" >built

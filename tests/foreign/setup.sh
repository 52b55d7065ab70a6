#!/bin/bash
# setup.sh DIR
#
# Installs in DIR, at fixed versions, the programs that speak only SQLite's format: the newest shell
# and tools of SQLite, and drivers, in two Python environments; drivers of Node; Litestream. 600 MB
# on the disk; takes about 5 minutes on two cores, does nothing if DIR is up to date. Without Node
# or Go, their programs are left out. Nothing outside DIR is touched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 1 ] || { sed -n 2,7p "$0" >&2; exit 2; }
mkdir -p "$1"; cd "$1"
exec 9>lock; flock 9

. "$here/../../scripts/again.sh"
. "$here/../../scripts/environment.sh"
environment env "$here/requirements.txt" apsw
# pysqlite3 is apart, because sqlite-utils and Datasette use it in place of Python's own module.
environment other "$here/requirements-other.txt" duckdb

# better-sqlite3 is compiled with the headers of the installed Node.
node_drivers() {
  local prefix stamp
  command -v npm >/dev/null || { echo "npm is missing: no program of Node is tried" >&2; return 0; }
  prefix=$(node -p 'require("path").resolve(process.execPath, "../..")')
  stamp="$(node --version) $(cksum <"$here/package-lock.json")"
  [ "$(cat node.built 2>/dev/null)" != "$stamp" ] || return 0
  rm -rf node node.built; mkdir node
  cp "$here/package.json" "$here/package-lock.json" node
  [ ! -f "$prefix/include/node/node.h" ] || export npm_config_nodedir="$prefix"
  JOBS=max again npm ci --silent --prefix node --cache "$PWD/cache"
  rm -rf cache
  echo "$stamp" >node.built
}
node_drivers

"$here/../../bench/peers/litestream.sh" litestream ||
  echo "Litestream is missing, for the reason above: it is not tried" >&2

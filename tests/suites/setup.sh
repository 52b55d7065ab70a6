#!/bin/bash
# setup.sh DIR
#
# Installs in DIR, at fixed versions, the libraries whose test suites are run, and the sources that
# have their tests: source archives of PyPI, and two repositories of GitHub, because the packages of
# Peewee and better-sqlite3 have no tests. What cannot be had is left out, with a message. 250 MB on
# the disk; does nothing if DIR is up to date. Nothing outside DIR is touched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 1 ] || { sed -n 2,7p "$0" >&2; exit 2; }
mkdir -p "$1/sources"; cd "$1"
exec 9>lock; flock 9

. "$here/../../scripts/again.sh"
. "$here/../../scripts/environment.sh"
environment env "$here/requirements.txt" sqlalchemy

cc -O2 -Wall -Wextra -shared -fPIC -o opened.so "$here/preload/opened.c"

# archive NAME: the tests of a package of requirements.txt, in its source archive.
archive() {
  local package folder
  package=$(grep "^$1==" "$here/requirements.txt")
  folder=${package/==/-}; folder=${folder,,}; folder=${folder/sqlite-/sqlite_}
  [ ! -d "sources/$folder" ] || return 0
  rm -rf archive "sources/${folder%%-[0-9]*}"-*; mkdir archive
  again env/bin/pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-binary "$1" --dest archive "$package" || return 0
  tar -xzf archive/*.tar.gz -C sources
  rm -rf archive
}
# repository NAME VERSION TAG COMMIT URL
repository() {
  local to=sources/$1-$2
  [ ! -d "$to" ] || return 0
  rm -rf clone "sources/$1"-*
  if ! git -c advice.detachedHead=false clone --quiet --depth 1 --branch "$3" "$5" clone; then
    echo "the tests of $1 are only in its repository, $5, which cannot be reached: they are not run" >&2
    return 0
  fi
  [ "$(git -C clone rev-parse HEAD)" = "$4" ] || { echo "$5: the tag $3 is not commit $4" >&2; return 1; }
  mv clone "$to"
}
archive Django
archive SQLAlchemy
archive sqlite-utils
archive diskcache
repository peewee 4.3.0 4.3.0 d8d6f3189f121a74f110c90ec15aba23ee4ea834 https://github.com/coleifer/peewee

# better-sqlite3 is compiled with the headers of the installed Node. Its tests expect it beside them.
node_drivers() {
  local prefix stamp
  command -v npm >/dev/null || { echo "npm is missing: the tests of better-sqlite3 are not run" >&2; return 0; }
  repository better-sqlite3 12.11.1 v12.11.1 4cbc39ca582fecb6b51dd920dfdd338ba4b72230 https://github.com/WiseLibs/better-sqlite3
  [ -d sources/better-sqlite3-12.11.1 ] || return 0
  ln -sfn "$PWD/node/node_modules/better-sqlite3/build" sources/better-sqlite3-12.11.1/build
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

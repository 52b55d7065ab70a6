#!/bin/bash
# run.sh LIBRARY DIR [EXAMPLE...]
#
# Runs the examples (c, rust, go, java, node, views, events; or the named ones) on LIBRARY, a
# libdensite.so with the command densite in the same directory. Drivers are installed and programs
# are built in DIR. The program of a language makes its database in DIR/LANGUAGE/data. Then the
# command, which is another process with another SQLite, checks that file. Of views and events, in
# Python, the tests are run. An example whose language is not installed is skipped; with
# DENSITE_NO_SKIP=1 this is a failure. The reason is added to the file DENSITE_SKIPPED, if that is
# set. With - as LIBRARY, drivers are installed and nothing is run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 2 ] || { sed -n 2,10p "$0" >&2; exit 2; }
mkdir -p "$2"
library=$1; dir=$(realpath "$2"); shift 2
if [ "$library" = - ]; then
  # The others are built with the library.
  [ $# -gt 0 ] || set -- go java node views events
else
  library=$(realpath "$library")
  [ $# -gt 0 ] || set -- c rust go java node views events
fi
limit="timeout 120" # ends a program that hangs, after so many seconds
command=$(dirname "$library")/densite

. "$here/../scripts/again.sh"
. "$here/../scripts/environment.sh"

# Each example has three functions: X_lacks prints a missing requirement, X_prepare builds, X_run
# runs. The last two run in DIR/EXAMPLE, which has a copy of the example.
lacks() { # lacks NAME...: prints the first missing command
  local name
  for name; do command -v "$name" >/dev/null || { echo "no $name"; return; }; done
}

c_lacks() { lacks cc; echo '#include <sqlite3.h>' | cc -E - >/dev/null 2>&1 || echo "no sqlite3.h"; }
c_prepare() {
  cc -std=c11 -Wall -Wextra -Werror -O1 -I "$here/../include" weather.c -L "$(dirname "$library")" -ldensite -lsqlite3 -Wl,-rpath,"$(dirname "$library")" -o weather
}
c_run() { $limit ./weather "$1"; }

rust_lacks() { lacks cargo cc; }
# It depends on the crates of the repository by relative paths, so it is built in place, and with
# the libraries that the repository's tests have built.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-build}
rust_prepare() { again cargo build --quiet --locked --manifest-path "$here/rust/Cargo.toml"; }
rust_run() { $limit "$CARGO_TARGET_DIR/debug/weather" "$1"; }

go_lacks() { lacks go cc; }
go_prepare() {
  GOMODCACHE=$PWD/modules GOFLAGS=-modcacherw again go mod download
  GOMODCACHE=$PWD/modules GOCACHE=$PWD/cache GOFLAGS=-modcacherw CGO_ENABLED=1 go build -tags fts5 -o weather .
}
go_run() { $limit ./weather "$library" "$1"; }

java_lacks() { lacks javac java mvn; }
java_prepare() {
  if ! sha256sum --check --status SHA256SUMS 2>/dev/null; then
    rm -rf lib
    again mvn --batch-mode --quiet -Dstyle.color=never -Dmaven.repo.local="$PWD/repository" dependency:copy-dependencies
    sha256sum --check --quiet SHA256SUMS
  fi
}
java_run() { $limit java -cp 'lib/*' Weather.java "$library" "$1"; }

node_lacks() { lacks node npm make c++; }
# The driver is compiled with the headers of the installed Node, so that only packages are
# downloaded. The build is up to date if its stamp, which is written last, names the same packages
# and the same Node.
node_prepare() {
  local prefix stamp
  prefix=$(node -p 'require("path").resolve(process.execPath, "../..")')
  stamp="$(node --version) $(cksum <package-lock.json)"
  [ "$(cat built 2>/dev/null)" != "$stamp" ] || return 0
  rm -rf node_modules built
  [ ! -f "$prefix/include/node/node.h" ] || export npm_config_nodedir="$prefix"
  JOBS=max npm_config_build_from_source=true again npm ci --silent --cache "$PWD/cache"
  echo "$stamp" >built
}
node_run() { $limit node weather.mjs "$library" "$1"; }

python_lacks() { lacks python3; python3 -c 'import ensurepip, venv' 2>/dev/null || echo "no module venv for python3"; }
# Runs the tests in FOLDER, whose modules are named from TOP. They run in place and make their files
# in data.
python_tests() { # python_tests FOLDER TOP
  local python=$PWD/env/bin/python
  export DENSITE_LIBRARY="$library" PYTHONPATH="$here/../python:$2" PYTHONDONTWRITEBYTECODE=1 TMPDIR="$PWD/data"
  cd "$2"
  $limit "$python" -W error -m unittest discover -s "$1/tests" -t "$2"
}

views_lacks() { python_lacks; }
views_prepare() { environment env requirements.txt django; }
views_run() ( python_tests "$here/views" "$here/views" )

events_lacks() {
  python_lacks
  # densite_changes needs it.
  python3 -c 'import sqlite3; assert ("ENABLE_PREUPDATE_HOOK",) in sqlite3.connect(":memory:").execute("PRAGMA compile_options").fetchall()' 2>/dev/null || echo "the SQLite of python3 has no preupdate hook"
}
events_prepare() { environment env requirements.txt flask; }
events_run() ( python_tests "$here/events" "$here" )

# Checks the file of a language in another process.
check() { # check DATABASE
  local counts
  "$command" check --quiet "$1" || return
  counts=$("$command" sql --format csv "$1" "SELECT (SELECT count(*) FROM reading), (SELECT count(*) FROM station)" | tail -n 1)
  [ "$counts" = 51000,21 ] || { echo "another process reads $counts readings and stations, expected 51000,21" >&2; return 1; }
}

example() ( # example NAME
  set -e
  cd "$dir/$1"
  cp -R "$here/$1/." .
  "$1_prepare" </dev/null
  [ "$library" != - ] || { echo "installed"; return; }
  rm -rf data; mkdir data
  "$1_run" data </dev/null
  case $1 in views | events) ;; *) check data/weather.db ;; esac
  rm -rf data
)

passed=0; failed=0; skipped=0
for name; do
  [ "$(type -t "${name}_run")" = function ] || { echo "there is no example $name; use c, rust, go, java, node, views or events" >&2; exit 2; }
  reason=$("${name}_lacks" | head -n 1)
  if [ -n "$reason" ]; then
    echo "$name: skipped: $reason"; skipped=$((skipped + 1))
    [ -z "${DENSITE_SKIPPED:-}" ] || echo "the example $name: $reason" >>"$DENSITE_SKIPPED"
    continue
  fi
  mkdir -p "$dir/$name"
  # Within a condition (`if example`), set -e would have no effect.
  set +e; example "$name" >"$dir/$name/log" 2>&1; code=$?; set -e
  if [ $code = 0 ]; then
    echo "$name: passed: $(tail -n 1 "$dir/$name/log")"; passed=$((passed + 1))
  else
    sed 's/^/    /' "$dir/$name/log"
    echo "$name: failed with code $code"; failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && { [ $skipped = 0 ] || [ "${DENSITE_NO_SKIP:-}" != 1 ]; }

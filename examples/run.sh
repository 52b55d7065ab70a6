#!/bin/bash
# run.sh LIBRARY DIR [LANGUAGE...]
#
# Runs the examples (c, rust, go, java, node; or those named) on LIBRARY, a libdensite.so with the command densite beside it. Drivers are installed and
# programs built in DIR, and each program makes its database in DIR/LANGUAGE/data; the command, another process with another SQLite, then checks that file.
# A language that is not installed is skipped, which is a failure with DENSITE_NO_SKIP=1; the reason is added to the file DENSITE_SKIPPED, if that is set.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 2 ] || { sed -n 2,6p "$0" >&2; exit 2; }
mkdir -p "$2"
library=$(realpath "$1"); dir=$(realpath "$2"); shift 2
[ $# -gt 0 ] || set -- c rust go java node
limit="timeout 120" # seconds, for a program that hangs
command=$(dirname "$library")/densite

. "$here/../scripts/again.sh"

# For each language: what it needs, how to prepare it, how to run it. All but the first in DIR/LANGUAGE, which has a copy of the example.
lacks() { # lacks NAME...: tells the first command that is not there
  local name
  for name; do command -v "$name" >/dev/null || { echo "no $name"; return; }; done
}

c_lacks() { lacks cc; echo '#include <sqlite3.h>' | cc -E - >/dev/null 2>&1 || echo "no sqlite3.h"; }
c_prepare() {
  cc -std=c11 -Wall -Wextra -Werror -O1 -I "$here/../include" weather.c -L "$(dirname "$library")" -ldensite -lsqlite3 -Wl,-rpath,"$(dirname "$library")" -o weather
}
c_run() { $limit ./weather "$1"; }

rust_lacks() { lacks cargo cc; }
# It depends on the crates of this folder, so it is built where it lies.
rust_prepare() { CARGO_TARGET_DIR=build again cargo build --quiet --locked --manifest-path "$here/rust/Cargo.toml"; }
rust_run() { $limit build/debug/weather "$1"; }

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
# The driver is compiled with the headers that came with this node: nothing is fetched beside the packages. Up to date if and only if the stamp, written
# last, names the same packages and the same node.
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

# What another process finds in the file.
check() { # check DATABASE
  local found
  "$command" check --quiet "$1" || return
  found=$("$command" sql --format csv "$1" "SELECT (SELECT count(*) FROM reading), (SELECT count(*) FROM station)" | tail -n 1)
  [ "$found" = 51000,21 ] || { echo "another process finds $found readings and stations, expected 51000,21" >&2; return 1; }
}

example() ( # example LANGUAGE
  set -e
  cd "$dir/$1"
  cp -R "$here/$1/." .
  "$1_prepare" </dev/null
  rm -rf data; mkdir data
  "$1_run" data </dev/null
  check data/weather.db
  rm -rf data
)

passed=0; failed=0; skipped=0
for language; do
  [ "$(type -t "${language}_run")" = function ] || { echo "there is no example in $language" >&2; exit 2; }
  reason=$("${language}_lacks" | head -n 1)
  if [ -n "$reason" ]; then
    echo "$language: skipped: $reason"; skipped=$((skipped + 1))
    [ -z "${DENSITE_SKIPPED:-}" ] || echo "the example in $language: $reason" >>"$DENSITE_SKIPPED"
    continue
  fi
  mkdir -p "$dir/$language"
  # Not `if example`: within a condition, set -e would be off in it.
  set +e; example "$language" >"$dir/$language/log" 2>&1; code=$?; set -e
  if [ $code = 0 ]; then
    echo "$language: passed: $(tail -n 1 "$dir/$language/log")"; passed=$((passed + 1))
  else
    sed 's/^/    /' "$dir/$language/log"
    echo "$language: failed with code $code"; failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && { [ $skipped = 0 ] || [ "${DENSITE_NO_SKIP:-}" != 1 ]; }

#!/bin/bash
# run.sh SO DIR
#
# Runs the 100 TCL test files and mptester with the VFS of SO as the default. DIR is the directory
# of setup.sh. The exit status is 0 if all pass.
set -uo pipefail
[ $# = 2 ] || { sed -n 2,5p "$0" >&2; exit 2; }
V=${SQLITE:-3.46.1}; export VERSION=$V
so=$(readlink -f "$1"); dir=$(cd "$2" && pwd) || exit 2
[ -f "$so" ] || { echo "$1 is missing: build it with make ext" >&2; exit 2; }
export TIMEOUT=${TIMEOUT:-600} JOBS=${JOBS:-$(nproc)}

# As root the test files run as the user nobody (see run-sqlite-tests.sh), who needs access to them.
# Some test files do not work in a path with a space.
is_accessible() {
  case $dir in *[[:space:]]*) return 1 ;; esac
  [ "$(id -u)" != 0 ] || setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups -- test -r "$so" -a -x "$dir/bin-$V/testfixture"
}
suite=$dir; stage=
if ! is_accessible; then
  stage=$(mktemp -d); trap 'rm -rf "$stage"' EXIT
  chmod 755 "$stage"; suite=$stage/suite
  mkdir -p "$suite/src/s-$V"
  cp -r "$dir/bin-$V" "$dir/stub" "$dir"/*.sh "$dir"/*.tcl "$dir"/*.txt "$suite"/
  cp -r "$dir/src/s-$V/test" "$dir/src/s-$V/ext" "$suite/src/s-$V/"
  cp "$so" "$suite/libdensite.so"; so=$suite/libdensite.so
  chmod -R a+rX "$stage"
fi

export OUT=$suite/out; rm -rf "$OUT"
"$suite/run-sqlite-tests.sh" "$so" densite; tcl=$?
if [ -n "$stage" ]; then rm -rf "$dir/out"; cp -r "$OUT" "$dir/out"; fi
[ $tcl = 0 ] || echo "logs of the TCL files: $dir/out/log"
awk -F'\t' '{if ($1 == "ok" || $1 == "NOTEST") p++; else f++} END {printf "SQLite TCL test files: %d passed, %d failed\n", p, f}' "$dir/out/results.tsv"
unset TIMEOUT OUT
"$dir/run-mptest.sh" "$so" densite "$dir"; mp=$?
[ $tcl = 0 ] && [ $mp = 0 ]

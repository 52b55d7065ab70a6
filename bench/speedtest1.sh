#!/bin/bash
# speedtest1.sh DIR
#
# Builds SQLite's speedtest1 in DIR from Debian's source package, which the scripts of
# tests/sqlite-suite fetch. It takes its default VFS from the environment as their test programs do.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd); suite=$here/../tests/sqlite-suite; V=3.46.1
[ $# = 1 ] || { sed -n 2,5p "$0" >&2; exit 2; }
mkdir -p "$1"; dir=$(cd "$1" && pwd)
[ "$dir/speedtest1" -nt "$0" ] && [ "$dir/speedtest1" -nt "$suite/stub/sqltest_init.c" ] && exit 0

# SQLite's makefile does not work in a path with a space.
work=$dir
case $dir in *[[:space:]]*) work=$(mktemp -d); trap 'rm -rf "$work"' EXIT ;; esac
"$suite/sources.sh" "$work" $V
gcc -O2 -w -DNDEBUG -DSQLITE_EXTRA_INIT=sqltest_extra_init -DSQLITE_ENABLE_RTREE -I"$work/b-$V" -o "$dir/speedtest1" \
  "$work/src/s-$V/test/speedtest1.c" "$work/b-$V/sqlite3.c" "$suite/stub/sqltest_init.c" -ldl -lpthread -lm

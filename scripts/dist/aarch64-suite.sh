#!/bin/bash
# aarch64-suite.sh LIBRARY [FILE...]
#
# To be called by aarch64.sh in its system. Builds SQLite's testfixture for aarch64, and runs FILE...
# (default: tests/sqlite-suite/aarch64.txt) with the VFS of LIBRARY as the default, under qemu. It is
# slower than a machine of that kind, so each file has 20 minutes.
set -euo pipefail
[ $# -ge 1 ] || { sed -n 2,6p "$0" >&2; exit 2; }
library=$1; shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export SQLTESTS=/build/suite TIMEOUT=${TIMEOUT:-1200} OUT=/build/suite/out
version=$(sed -n 's/.*; V=\([0-9.]*\)$/\1/p' tests/sqlite-suite/setup.sh)
mkdir -p "$SQLTESTS"; cp -r tests/sqlite-suite/. "$SQLTESTS"
tests/sqlite-suite/sources.sh "$SQLTESTS" "$version" >&2
tests/sqlite-suite/build-testfixture.sh "$version" aarch64
aarch64-linux-gnu-gcc -O2 -w -shared -fPIC -I/usr/include/tcl8.6 -I"$SQLTESTS/b-$version" "$SQLTESTS/stub/adapt.c" -o "$SQLTESTS/stub/adapt.so"

# Tests start testfixture by its name. The kernel cannot run a program of another kind of machine, but
# it can run this script. When a test makes a process abort, qemu says so on stderr, which no machine
# of that kind would do, and which the test would take for the process's own words.
export SQLTEST_PROGRAM=$SQLTESTS/bin-$version/testfixture
cat >"$SQLTEST_PROGRAM" <<'END'
#!/bin/bash
exec qemu-aarch64 "$0-aarch64" "$@" 2> >(exec grep --line-buffered -v '^qemu: uncaught target signal' >&2)
END
chmod 755 "$SQLTEST_PROGRAM" "$SQLTEST_PROGRAM-aarch64"
rm -rf "$OUT"
[ $# -gt 0 ] || set -- @tests/sqlite-suite/aarch64.txt
"$SQLTESTS/run-sqlite-tests.sh" "$library" densite "$@"

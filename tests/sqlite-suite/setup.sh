#!/bin/bash
# setup.sh DIR
#
# Builds SQLite's test programs, testfixture and mptester, in DIR from Debian's source package
# (3.46.1 of trixie, or SQLITE of sid), and copies the scripts to DIR. Takes about 4 minutes on two cores; does nothing
# if DIR is up to date. The repository contains no file of SQLite. Changes nothing outside DIR:
# apt-get gets its own source list, lists and cache there.
#   SQLITE=3.53.4       another version, which is the one that sid has now
#   DEBIAN_MIRROR=URL   the address of Debian's archive, if the system's source lists have none
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd); V=${SQLITE:-3.46.1}
[ $# = 1 ] || { sed -n 2,9p "$0" >&2; exit 2; }
mkdir -p "$1"; SQLTESTS=$(cd "$1" && pwd); export SQLTESTS

# DIR is up to date if its stamp, which is written last, has the checksum of these scripts and
# stubs.
stamp=$(cd "$here" && cat ./*.sh stub/*.c | cksum)
cp -r "$here"/. "$SQLTESTS"/
cd "$SQLTESTS"
if [ "$(cat built-$V 2>/dev/null)" = "$stamp" ] && [ -x bin-$V/testfixture ] && [ -x bin-$V/mptester ] && [ -f stub/adapt.so ]; then
  echo "SQLite $V test programs: up to date"; exit 0
fi
rm -f built-$V

# SQLite's makefile does not work in a path with a space. Then the build runs in another directory,
# and the results are copied back.
final=
case $SQLTESTS in *[[:space:]]*)
  final=$SQLTESTS; SQLTESTS=$(mktemp -d); trap 'rm -rf "$SQLTESTS"' EXIT
  cp -r "$here"/. "$SQLTESTS"/; cd "$SQLTESTS" ;;
esac

"$here/sources.sh" "$SQLTESTS" $V
bash build-testfixture.sh $V
gcc -O2 -w -shared -fPIC -I/usr/include/tcl8.6 -Ib-$V stub/adapt.c -o stub/adapt.so
gcc -O2 -w -DHAVE_USLEEP=1 -DSQLITE_EXTRA_INIT=sqltest_extra_init -Ib-$V -o bin-$V/mptester \
  src/s-$V/mptest/mptest.c b-$V/sqlite3.c stub/sqltest_init.c -ldl -lpthread -lm
if [ -n "$final" ]; then
  mkdir -p "$final/src/s-$V" "$final/b-$V"
  cp -r bin-$V stub "$final"/; cp b-$V/sqlite3.c b-$V/sqlite3.h "$final/b-$V"/
  cp -r src/s-$V/test src/s-$V/ext src/s-$V/mptest "$final/src/s-$V"/
  cd "$final"
fi
chmod -R a+rX .
echo "$stamp" > built-$V
echo "SQLite $V test programs: built"

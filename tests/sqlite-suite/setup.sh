#!/bin/bash
# setup.sh DIR
#
# Builds SQLite's test programs, testfixture and mptester, in DIR from Debian's source package
# (trixie, 3.46.1), and copies the scripts to DIR. Takes about 4 minutes on two cores; does nothing
# if DIR is up to date. The repository contains no file of SQLite. Changes nothing outside DIR:
# apt-get gets its own source list, lists and cache there.
#   DEBIAN_MIRROR=URL   the address of Debian's archive, if the system's source lists have none
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd); V=3.46.1
[ $# = 1 ] || { sed -n 2,8p "$0" >&2; exit 2; }
mkdir -p "$1"; SQLTESTS=$(cd "$1" && pwd); export SQLTESTS

# DIR is up to date if its stamp, which is written last, has the checksum of these scripts and
# stubs.
stamp=$(cd "$here" && cat ./*.sh stub/*.c | cksum)
cp -r "$here"/. "$SQLTESTS"/
cd "$SQLTESTS"
if [ "$(cat built 2>/dev/null)" = "$stamp" ] && [ -x bin-$V/testfixture ] && [ -x bin-$V/mptester ] && [ -f stub/adapt.so ]; then
  echo "SQLite $V test programs: up to date"; exit 0
fi
rm -f built

# SQLite's makefile does not work in a path with a space. Then the build runs in another directory,
# and the results are copied back.
final=
case $SQLTESTS in *[[:space:]]*)
  final=$SQLTESTS; SQLTESTS=$(mktemp -d); trap 'rm -rf "$SQLTESTS"' EXIT
  cp -r "$here"/. "$SQLTESTS"/; cd "$SQLTESTS" ;;
esac

. "$here/../../scripts/again.sh"

if [ ! -d src/s-$V ]; then
  mkdir -p apt/lists/partial apt/cache/archives/partial apt/state src
  uri=${DEBIAN_MIRROR:-$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d/ 2>/dev/null |
    grep -v snapshot | head -1 | tr -d ' ' || true)}
  [ -n "$uri" ] || { echo "the system's apt sources have no Debian archive: set DEBIAN_MIRROR to the address of one" >&2; exit 1; }
  key=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -f $key ] || { echo "$key is missing. Install: sudo apt-get install -y debian-archive-keyring" >&2; exit 1; }
  echo "deb-src [signed-by=$key] $uri trixie main" > apt/sources.list
  # A configuration file, because -o options do not support paths with spaces.
  cat > apt/apt.conf <<CONF
Dir::Etc::sourcelist "$PWD/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$PWD/apt/lists";
Dir::Cache "$PWD/apt/cache";
APT::Sandbox::User "root";
Acquire::Retries "3";
Acquire::http::Timeout "60";
CONF
  export APT_CONFIG=$PWD/apt/apt.conf
  again apt-get update -q
  cd src
  again apt-get source -q --download-only sqlite3
  tar=sqlite3_$V.orig.tar.xz
  [ -f $tar ] || { echo "Debian's archive no longer has SQLite $V in trixie, but $(ls ./*.dsc 2>/dev/null): change V in tests/sqlite-suite" >&2; exit 1; }
  rm -rf unpack; mkdir unpack; tar xf $tar -C unpack --strip-components=1; mv unpack s-$V
  cd ..
  unset APT_CONFIG
fi
mkdir -p b-$V; cd b-$V
if [ ! -f Makefile ]; then
  conf=$(find /usr/lib -name tclConfig.sh 2>/dev/null | grep tcl8 | head -1)
  [ -n "$conf" ] || { echo "Tcl 8's tclConfig.sh is missing. Install: sudo apt-get install -y tcl-dev" >&2; exit 1; }
  ../src/s-$V/configure --with-tcl="$(dirname "$conf")" --enable-threadsafe --disable-readline > configure.log 2>&1 ||
    { rm -f Makefile; tail -20 configure.log >&2; exit 1; }
fi
make -s sqlite3.c fts5.c > mk.log 2>&1 || { tail -20 mk.log >&2; exit 1; }
cd ..
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
echo "$stamp" > built
echo "SQLite $V test programs: built"

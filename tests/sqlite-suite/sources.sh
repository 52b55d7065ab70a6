#!/bin/bash
# sources.sh DIR VERSION
#
# Fetches Debian's source package of SQLite (of trixie, or the one of sid) into DIR, which has no
# space in its path, and makes there what test programs are compiled from: b-VERSION with sqlite3.c,
# fts5.c and the lists tf.src, tf.flags and tf.libs, which are the words of the command that makes
# testfixture. setup.sh calls it, and says which variables it reads.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 2 ] || { sed -n 2,7p "$0" >&2; exit 2; }
V=$2; cd "$1"
. "$here/../../scripts/again.sh"

if [ ! -d src/s-$V ]; then
  mkdir -p apt/lists/partial apt/cache/archives/partial apt/state src
  uri=${DEBIAN_MIRROR:-$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d/ 2>/dev/null |
    grep -v snapshot | head -1 | tr -d ' ' || true)}
  [ -n "$uri" ] || { echo "the system's apt sources have no Debian archive: set DEBIAN_MIRROR to the address of one" >&2; exit 1; }
  key=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -f $key ] || { echo "$key is missing. Install: sudo apt-get install -y debian-archive-keyring" >&2; exit 1; }
  release=sid; [ $V != 3.46.1 ] || release=trixie
  echo "deb-src [signed-by=$key] $uri $release main" > apt/sources.list
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
  [ -f $tar ] || { echo "Debian's archive no longer has SQLite $V in $release, but $(ls ./*.dsc 2>/dev/null): change the version" >&2; exit 1; }
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
make -n testfixture 2>/dev/null | python3 -c "
import os, sys, shlex
text = sys.stdin.read().replace('\\\\\n', ' ')
line = [l for l in text.split('\n') if '-o testfixture ' in l and 'test1.c' in l][-1]
# Relative, because another system sees the directory in another place.
words = shlex.split(line.replace(os.getcwd() + '/', ''))
def write(name, words): open(name, 'w').write(''.join(w + '\n' for w in words))
write('tf.src', [w for w in words if w.endswith('.c') and not w.startswith('-')])
write('tf.flags', [w for w in words if w.startswith(('-I', '-D')) and w != '-DNDEBUG'])
write('tf.libs', [w for w in words if w.startswith(('-l', '-L'))])
"

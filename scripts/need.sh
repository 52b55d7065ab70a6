#!/bin/sh
# need.sh build|python|crash|wheel|test|examples
#
# Says what this machine lacks for the given work and the one command that installs it. Prints nothing and succeeds when all is there.
set -u
rust_min=1.95
packages=; missing=; rust=

want() { # want PACKAGE NAME COMMAND...: the command succeeds if NAME is there
  package=$1; name=$2; shift 2
  "$@" >/dev/null 2>&1 && return
  missing="$missing, $name"
  case " $packages " in *" $package "*) ;; *) packages="$packages $package" ;; esac
}
has() { command -v "$1"; }

want build-essential make has make
want build-essential "a C compiler (cc)" has cc
want git git has git
if [ "${1:-}" = python ]; then
  want python3 python3 has python3
fi
if [ "${1:-}" = crash ]; then
  want python3 python3 has python3
  want strace strace has strace
fi
if [ "${1:-}" = wheel ]; then
  want python3 python3 has python3
  want binutils "readelf and strip" has readelf
fi
if [ "${1:-}" = test ]; then
  want build-essential "gcc" has gcc
  want sqlite3 "the sqlite3 shell" has sqlite3
  want tcl tclsh has tclsh
  want tcl-dev "Tcl's C headers" test -f /usr/include/tcl8.6/tcl.h
  want dpkg-dev dpkg-source has dpkg-source
  want python3 python3 has python3
  want python3-venv "Python's venv" python3 -c 'import ensurepip, venv'
  want util-linux setpriv has setpriv
  # The shell has a kill of its own.
  want procps kill env kill -0 $$
  want file file has file
  want chromium chromium has chromium
fi
# The languages of examples/: nothing else needs them, and its run.sh skips those that are not there.
if [ "${1:-}" = examples ]; then
  want libsqlite3-dev "SQLite's C header" test -f /usr/include/sqlite3.h
  want golang-go go has go
  want default-jdk-headless "a JDK" has javac
  want maven mvn has mvn
  want nodejs node has node
  want npm npm has npm
fi

# Rust: rustup's, for Debian's own is older than what the code needs.
if ! has cargo >/dev/null 2>&1; then
  missing="$missing, Rust $rust_min or newer"
  packages="$packages curl ca-certificates"
  rust="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y && . \"\$HOME/.cargo/env\""
else
  have=$(rustc --version 2>/dev/null | cut -d' ' -f2 | cut -d- -f1)
  oldest=$(printf '%s\n%s\n' "${have:-0}" "$rust_min" | sort -V | head -n 1)
  if [ "$oldest" != "$rust_min" ]; then
    missing="$missing, Rust $rust_min or newer (found ${have:-none})"
    if has rustup >/dev/null 2>&1; then rust="rustup update stable && rustup default stable"
    else rust="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y && . \"\$HOME/.cargo/env\""; fi
  fi
fi

[ -z "$missing" ] && exit 0
command=$rust
if [ -n "$packages" ]; then
  sudo="sudo "; [ "$(id -u)" = 0 ] && sudo=
  command="${sudo}apt-get install -y$packages${rust:+ && $rust}"
fi
echo "missing: ${missing#, }. Install: $command" >&2
exit 1

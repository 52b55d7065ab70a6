#!/bin/sh
# need.sh build|python|foreign|suites|bench|crash|wheel|dist|remote-demo|pictures|test
#
# Checks that the system has the programs for the given work. Installs missing Debian packages if
# this needs no password (root, or sudo without password), and says which and why. Otherwise it
# prints the command that installs them, and fails. A missing package that only some tests need (a
# browser, other languages) is reported, but not a failure: these tests are skipped. Rust is never
# installed, because it is not a Debian package. Prints nothing if nothing is missing.
set -u
rust_min=1.89
has() { command -v "$1" >/dev/null 2>&1; }

find_missing() { # find_missing WORK: sets needed, wished (packages) and why_needed, why_wished
  needed=; why_needed=; wished=; why_wished=
  need build-essential make has make
  need build-essential "a C compiler" has cc
  need git git has git
  case $1 in
  python) need python3 python3 has python3 ;;
  foreign)
    need python3 python3 has python3
    need python3-venv "Python's venv" python3 -c 'import ensurepip, venv'
    need sqlite3 "the sqlite3 shell" has sqlite3
    need util-linux setpriv has setpriv
    wish gdal-bin GDAL has ogrinfo
    wish libsqlite3-mod-spatialite SpatiaLite sh -c 'ls /usr/lib/*/mod_spatialite.so'
    wish sqlitebrowser "DB Browser" has sqlitebrowser
    wish nodejs Node has node
    wish npm npm has npm
    wish golang-go "Go, for Litestream" has go ;;
  suites)
    need python3 python3 has python3
    need python3-venv "Python's venv" python3 -c 'import ensurepip, venv'
    need libsqlite3-dev "SQLite's C header" test -f /usr/include/sqlite3ext.h
    wish "libpython$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)-testsuite" "the tests of Python's standard library" python3 -c 'import test.test_sqlite3'
    wish nodejs "Node, for better-sqlite3" has node
    wish npm "npm, for better-sqlite3" has npm ;;
  bench)
    need python3 python3 has python3
    need python3-venv "Python's venv" python3 -c 'import ensurepip, venv' ;;
  crash)
    need python3 python3 has python3
    need strace strace has strace ;;
  wheel)
    need python3 python3 has python3
    need python3-venv "Python's venv" python3 -c 'import ensurepip, venv'
    need binutils strip has strip ;;
  dist)
    need python3 python3 has python3
    need python3-venv "Python's venv" python3 -c 'import ensurepip, venv'
    need debootstrap debootstrap test -x /usr/sbin/debootstrap
    need sqlite3 "the sqlite3 shell" has sqlite3
    need binutils-aarch64-linux-gnu "strip for aarch64" has aarch64-linux-gnu-strip ;;
  pictures)
    need python3 python3 has python3
    need chromium Chromium has chromium ;;
  remote-demo)
    need nginx-light nginx test -x /usr/sbin/nginx
    need openssl openssl has openssl
    need ca-certificates "the certificates of package registries" test -e /etc/ssl/certs/ca-certificates.crt
    need python3 python3 has python3
    wish python3-venv "Python's venv, for other programs to compare with" python3 -c 'import ensurepip, venv'
    wish libcurl4 "libcurl, for one of them" sh -c 'ls /usr/lib/*/libcurl.so.4' ;;
  test)
    need build-essential gcc has gcc
    need sqlite3 "the sqlite3 shell" has sqlite3
    need tcl tclsh has tclsh
    need tcl-dev "Tcl's C headers" test -f /usr/include/tcl8.6/tcl.h
    need dpkg-dev dpkg-source has dpkg-source
    need ca-certificates "the certificates of package registries" test -e /etc/ssl/certs/ca-certificates.crt
    need debian-archive-keyring "the keys of Debian's archive" test -e /usr/share/keyrings/debian-archive-keyring.gpg
    need python3 python3 has python3
    need python3-venv "Python's venv" python3 -c 'import ensurepip, venv'
    need util-linux setpriv has setpriv
    # env, because kill is also a built-in of the shell.
    need procps kill env kill -0 $$
    need file file has file
    wish zsh "zsh, for tests of completions" has zsh
    wish fish "fish, for tests of completions" has fish
    wish chromium "Chromium, for tests of pages" has chromium
    wish nginx-light "nginx, for tests of remote databases" test -x /usr/sbin/nginx
    wish openssl "openssl, for tests of remote databases" has openssl
    wish libsqlite3-dev "SQLite's C header, for the example in C" test -f /usr/include/sqlite3.h
    wish golang-go "Go, for its example" has go
    wish default-jdk-headless "a JDK, for the example in Java" has javac
    wish maven "Maven, for the example in Java" has mvn
    wish nodejs "Node, for its example" has node
    wish npm "npm, for the example in Node" has npm ;;
  esac
}
need() { # need PACKAGE NAME COMMAND...: the command succeeds if NAME is installed
  package=$1; name=$2; shift 2
  "$@" >/dev/null 2>&1 && return
  why_needed="$why_needed${why_needed:+, }$name"
  case " $needed " in *" $package "*) ;; *) needed="$needed $package" ;; esac
}
wish() { # wish PACKAGE NAME COMMAND...
  package=$1; name=$2; shift 2
  "$@" >/dev/null 2>&1 && return
  why_wished="$why_wished${why_wished:+; }$name"
  wished="$wished $package"
}

as_root=
[ "$(id -u)" = 0 ] || as_root="sudo "
may_install() { has apt-get && { [ "$(id -u)" = 0 ] || sudo -n true >/dev/null 2>&1; }; }
install() { # install PACKAGE...
  sudo=; [ "$(id -u)" = 0 ] || sudo="sudo -n"
  for try in 1 2 3; do
    $sudo apt-get update -q && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@" && return
    [ $try = 3 ] || { echo "apt-get failed; trying again" >&2; sleep $((try * 5)); }
  done
  return 1
}

work=${1:-build}
find_missing "$work"
if [ -n "$needed$wished" ] && may_install; then
  echo "installing$needed$wished, because make $work needs: $why_needed${why_needed:+${why_wished:+; }}$why_wished" >&2
  # Separately, so that one unavailable package does not prevent the others.
  [ -z "$needed" ] || install $needed >&2
  for package in $wished; do install "$package" >&2; done
  find_missing "$work"
fi
[ -z "$why_wished" ] || echo "missing: $why_wished. What needs it is skipped. Install: ${as_root}apt-get install$wished" >&2

rust=; missing=$why_needed
rustup="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y && . \"\$HOME/.cargo/env\""
if ! has cargo; then
  rust=$rustup
  missing="$missing${missing:+, }Rust $rust_min or newer"
  has curl || needed="$needed curl ca-certificates"
else
  have=$(rustc --version 2>/dev/null | cut -d' ' -f2 | cut -d- -f1)
  oldest=$(printf '%s\n%s\n' "${have:-0}" "$rust_min" | sort -V | head -n 1)
  if [ "$oldest" != "$rust_min" ]; then
    missing="$missing${missing:+, }Rust $rust_min or newer (found ${have:-none})"
    if has rustup; then rust="rustup update stable && rustup default stable"; else rust=$rustup; fi
  fi
fi
[ -z "$missing" ] && exit 0
command=$rust
[ -z "$needed" ] || command="${as_root}apt-get install -y$needed${rust:+ && $rust}"
echo "missing: $missing. Install: $command" >&2
exit 1

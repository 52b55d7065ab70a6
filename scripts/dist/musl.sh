#!/bin/bash
# musl.sh DIR
#
# Makes a wheel and a tarball for Linux with musl (Alpine) on x86-64 in DIR. The standard library is
# compiled from Debian's rust-web-src, because no compiled one is in a registry: cargo's -Zbuild-std.
# Then tries the command, and the extension in a program that is linked with SQLite and musl. Needs
# root, and crates.io for the crates of the standard library.
set -euo pipefail
[ $# = 1 ] || { sed -n 2,7p "$0" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$1"; out=$(realpath "$1")
. scripts/again.sh
. scripts/environment.sh
. scripts/dist/tools.sh
. scripts/dist/chroot.sh
target=x86_64-unknown-linux-musl
cross_system

# A library needs the libc of the program that loads it.
zigbuild_env=(RUSTC_BOOTSTRAP=1 RUSTFLAGS='-C target-feature=-crt-static')
zigbuild "$target" -Zbuild-std=std,panic_unwind
scripts/dist/packages.sh "$target" "target/chroots/cross/build/$target/release" "$out"
scripts/dist/sums.sh "$out"

sqlite=$(echo "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/libsqlite3-sys-*/sqlite3)
"$zig" cc -target x86_64-linux-musl -dynamic -O1 -I"${sqlite##* }" scripts/dist/host.c "${sqlite##* }/sqlite3.c" -o target/chroots/cross/build/host
# The command is static, and runs here. The library would need a program with musl.
built=target/chroots/cross/build/$target/release
python3 scripts/start.py --command "$built/densite" --library "$built/libdensite.so" --without sqlite3 --without python3 --without datasette
inside cross sh -ec '
  cp tests/fixtures/v1-typed.densite /build/a.db
  /build/host "/build/$1/release/libdensite.so" "file:/build/a.db?vfs=densite" "CREATE TABLE u AS SELECT * FROM t; SELECT densite_version(), count(*), sum(price) FROM u; PRAGMA integrity_check"' sh "$target"

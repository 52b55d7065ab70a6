#!/bin/bash
# aarch64.sh DIR
#
# Makes the packages for aarch64 in DIR, by Debian's cross compilers in a system of its own in
# target/chroots. Then tests them there under qemu: unit tests of the store, its codecs and the log,
# files that go from one kind of machine to the other and back, the extension in the sqlite3 shell,
# the wheel, and some of SQLite's own tests. Needs root.
set -euo pipefail
[ $# = 1 ] || { sed -n 2,7p "$0" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$1"; out=$(realpath "$1")
. scripts/again.sh
. scripts/environment.sh
. scripts/dist/tools.sh
. scripts/dist/chroot.sh
target=aarch64-unknown-linux-gnu
cross_system

# The cross compiler's own glibc is newer. zig links for the old one.
zigbuild "$target.$glibc"
built=target/chroots/cross/build/$target/release
scripts/dist/packages.sh "$target" "$built" "$out"
scripts/dist/sums.sh "$out"

# Without those that work for minutes under qemu.
echo "unit tests:"
inside cross sh -ec '
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
  cargo test --quiet --locked --offline --target "$1" -p densite-typed -p densite-log -p densite-store --lib -- \
    --skip large:: --skip learn::' sh "$target"

echo "files:"
# The program for x86-64 is the one of make dist.
inside cross sh -ec '
  native=/src/target/x86_64-unknown-linux-gnu/release/densite
  arm="qemu-aarch64 /build/$1/release/densite"
  scripts/dist/exchange.sh "$native" "$arm"
  cp tests/fixtures/v1-typed.densite /build/a.db; cd /build
  qemu-aarch64 /usr/bin/sqlite3 :memory: -cmd ".load /build/$1/release/libdensite" -cmd ".open file:a.db?vfs=densite" \
    "SELECT densite_version(), count(*), sum(price) FROM t; PRAGMA integrity_check"' sh "$target"

echo "the wheel:"
inside cross sh -ec '
  python=$(apt-cache depends python3:arm64 | sed -n "s/.*Depends: \(python3\.[0-9]*\).*/\1/p" | head -n 1)
  if [ ! -e "/arm/usr/bin/$python" ]; then
    mkdir -p /arm/debs; cd /arm/debs
    apt-get update -q >/dev/null
    apt-get download -q "$python:arm64" "$python-minimal:arm64" "lib$python-stdlib:arm64" "lib$python-minimal:arm64" \
      libexpat1:arm64 libffi8:arm64 libsqlite3-0:arm64 zlib1g:arm64 libbz2-1.0:arm64 liblzma5:arm64 >/dev/null 2>&1
    for package in *.deb; do dpkg-deb -x "$package" /arm; done
  fi
  cd /build; rm -rf wheel; mkdir wheel
  run() { qemu-aarch64 -E LD_LIBRARY_PATH=/arm/usr/lib/aarch64-linux-gnu -E PYTHONPATH=/build/wheel:/src/python/tests -E PYTHONDONTWRITEBYTECODE=1 "/arm/usr/bin/$python" "$@"; }
  run -m zipfile -e /src/target/dist/densite-*_aarch64.whl wheel
  cd /src/python/tests
  # These start no other programs, which qemu cannot follow here.
  run -W error -m unittest test_insert test_query' sh

echo "SQLite's own tests:"
inside cross scripts/dist/aarch64-suite.sh "/build/$target/release/libdensite.so"

#!/bin/bash
# packages.sh TARGET BUILT DIR
#
# Makes the packages that hold compiled files: the wheel, the tarball and the .deb, for TARGET (as
# x86_64-unknown-linux-gnu), with libdensite.so and densite from BUILT, and the manual pages and
# completions of `make share`. To be called by build.sh, aarch64.sh and musl.sh.
set -euo pipefail
[ $# = 3 ] || { sed -n 2,6p "$0" >&2; exit 2; }
target=$1 built=$(realpath "$2") out=$(realpath "$3")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
machine=${target%%-*}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
export STRIP=strip
[ "$machine" = "$(uname -m)" ] || export STRIP=$machine-linux-gnu-strip _PYTHON_HOST_PLATFORM=linux-$machine

wheels=$(mktemp -d "$out/wheels.XXXXXX")
trap 'rm -rf "$wheels"' EXIT
case $target in
*-musl)
  # auditwheel knows musl only on a machine that has it. The library needs nothing but musl itself.
  libc=-musl platform=musllinux_1_2
  [ "$(readelf -d "$built/libdensite.so" | grep -o 'NEEDED.*')" = 'NEEDED)             Shared library: [libc.so]' ]
  DENSITE_BUILT=$built _PYTHON_HOST_PLATFORM=${platform}_$machine target/wheel-tools/bin/hatchling build -t wheel -d "$wheels" >&2 ;;
*)
  libc='' platform=manylinux_2_28
  python/wheel.sh "$built" "$wheels" ;;
esac
# A library that needs a newer glibc would have another name.
mv "$wheels"/densite-*-"$platform"_"$machine".whl "$out"

# The tree of the tarball, which the .deb moves to /usr.
stage=target/stage name=densite-$version-$machine-linux$libc
rm -rf "$stage"
mkdir -p "$stage/bin" "$stage/lib"
$STRIP --strip-unneeded -o "$stage/bin/densite" "$built/densite"
$STRIP --strip-unneeded -o "$stage/lib/libdensite.so" "$built/libdensite.so"
install -D -m 644 include/densite.h "$stage/include/densite.h"
install -D -m 644 -t "$stage/share/doc/densite" README.md CHANGELOG.md LICENSE LICENSE-APACHE LICENSE-MIT
cp -r target/share/. "$stage/share"
find "$stage/share" -type f -exec chmod 644 {} +
stamp=$(git log -1 --format=@%ct 2>/dev/null || echo @0)
tar --create --sort=name --owner=0 --group=0 --mtime="$stamp" --transform "s,^\.,$name," -C "$stage" . | gzip -9n >"$out/$name.tar.gz"

# Debian has glibc.
[ -n "$libc" ] || cargo deb --quiet -p densite-cli --no-build --no-strip --target "$target" --output "$out"

#!/bin/bash
# build.sh DIR
#
# Makes all packages of a release for this machine in DIR, and SHA256SUMS: wheel, sdist, crates, .deb,
# tarball, release notes. Needs the registries of Python and Rust for tools that are missing.
set -euo pipefail
[ $# = 1 ] || { sed -n 2,5p "$0" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rm -rf "$1"; mkdir -p "$1"
out=$(realpath "$1")
. scripts/again.sh
. scripts/environment.sh
. scripts/dist/tools.sh
target=$(uname -m)-unknown-linux-gnu

cargo zigbuild --release --locked --target "$target.$glibc" -p densite-extension -p densite-cli
scripts/dist/packages.sh "$target" "target/$target/release" "$out"
target/wheel-tools/bin/hatchling build -t sdist -d "$out" >&2
scripts/crates.sh target/crates
mkdir "$out/crates"; cp target/package/*.crate "$out/crates"
scripts/dist/notes.sh >"$out/RELEASE_NOTES.md"
scripts/dist/sums.sh "$out"

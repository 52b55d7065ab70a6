#!/bin/bash
# try.sh DIR
#
# Installs each package of DIR in an empty system of its kind, and runs the five-minute start there:
# the wheel with every Python that is found, the sdist, the crates by path, and, as root, the .deb and
# the tarball in Debian 12 and 13 (target/chroots).
set -euo pipefail
[ $# = 1 ] || { sed -n 2,6p "$0" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$(realpath "$1")
. scripts/again.sh
. scripts/dist/chroot.sh
machine=$(uname -m)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
(cd "$out" && sha256sum --check --quiet SHA256SUMS)

work=$(mktemp -d target/try.XXXXXX)
trap 'rm -rf "$work"' EXIT
with_python() { # with_python PYTHON PACKAGE [pip's OPTION...]
  rm -rf "$work/env"
  "$1" -m venv "$work/env"
  again "$work/env/bin/pip" install --quiet --disable-pip-version-check "${@:3}" "$2"
  env -u PYTHONPATH -u DENSITE_LIBRARY PATH=/usr/bin:/bin "$work/env/bin/python" scripts/start.py --command "$work/env/bin/densite" \
    --library "$("$work/env/bin/python" -c 'import densite; print(densite.library_path())')" --without datasette
}
for name in ${DENSITE_PYTHONS:-python3.9 python3.10 python3.11 python3.12 python3.13 python3.14}; do
  python=$(command -v "$name" || true)
  if [ -n "$python" ] && "$python" -c 'import sqlite3, ctypes' 2>/dev/null; then
    with_python "$python" "$out"/densite-*-manylinux_*_"$machine".whl --no-index
  fi
done
echo "the sdist:"
CARGO_TARGET_DIR="$PWD/target" with_python python3 "$out/densite-$version.tar.gz"

echo "the crates:"
scripts/crates.sh target/crates run
echo "the .deb and the tarball:"
for suite in bookworm trixie; do
  system "$suite" "$suite" sqlite3 python3
  inside "$suite" sh -ec '
    . /etc/os-release; echo "$PRETTY_NAME"
    dpkg --install /src/target/dist/densite_*_"$(dpkg --print-architecture)".deb >/dev/null
    sqlite3 :memory: ".load libdensite" "SELECT densite_version()"
    try="python3 /src/scripts/start.py --without python3 --without datasette"
    $try --command /usr/bin/densite --library /usr/lib/libdensite.so
    test -f /usr/include/densite.h -a -f /usr/share/doc/densite/copyright
    dpkg --purge densite >/dev/null; test ! -e /usr/bin/densite
    tree=$(mktemp -d); tar -xzf /src/target/dist/densite-*-"$(uname -m)"-linux.tar.gz -C "$tree" --strip-components 1
    $try --command "$tree/bin/densite" --library "$tree/lib/libdensite.so"
    rm -rf "$tree"'
done

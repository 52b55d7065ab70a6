#!/bin/bash
# oldest-rust.sh
#
# Builds and tries the crates with the Rust that Debian 13 installs by apt (cargo-web), in a system of
# its own in target/chroots. Needs root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. scripts/again.sh
. scripts/dist/chroot.sh
system trixie-rust trixie cargo-web gcc libc6-dev sqlite3 python3
scripts/crates.sh target/crates >/dev/null
inside trixie-rust sh -ec '
  . /etc/os-release; echo "$PRETTY_NAME, $(cargo --version)"
  cargo build --release --locked --offline -p densite-extension -p densite-cli
  python3 scripts/start.py --command /build/release/densite --library /build/release/libdensite.so --without python3 --without datasette
  cd target/crates; cargo run --quiet --offline -p user -- /build/user.db
  rm -rf /build'

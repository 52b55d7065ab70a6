#!/bin/bash
# setup.sh DIR
#
# Installs the programs that `make remote-demo` compares with, at fixed versions: the packages of
# requirements.txt in DIR/env, and turbolite in DIR/bin, which takes 13 minutes of processor time.
# Does nothing for those that are up to date. Nothing outside DIR is touched, except for cargo's
# downloads.
#
# A program that cannot be installed is no failure: DIR/NAME.why has the reason in one line.
set -euo pipefail
turbolite=0.5.0
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 1 ] || { sed -n 2,9p "$0" >&2; exit 2; }
mkdir -p "$1"; cd "$1"
exec 9>lock; flock 9
. "$here/../../scripts/again.sh"

install() { # install NAME VERSION COMMAND...: COMMAND's output goes to NAME.log
  local name=$1 version=$2; shift 2
  [ "$(cat "$name.built" 2>/dev/null)" != "$version" ] || return 0
  rm -f "$name.built" "$name.why"
  echo "installing $name $version in $PWD" >&2
  if "$@" >"$name.log" 2>&1; then
    echo "$version" >"$name.built"
  else
    echo "see $PWD/$name.log: $(grep -i error "$name.log" | head -n 1)" >"$name.why"
  fi
}
# One package has no wheel, so pip builds one from the libraries in its source archive.
package() { # package NAME VERSION
  [ -x env/bin/pip ] || python3 -m venv env || return
  again env/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps "$1==$2"
}
# Without link-time optimization, which takes much longer to build and sends the same requests.
crate() { # crate NAME VERSION FEATURE
  CARGO_TARGET_DIR=$PWD/build CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
    cargo install "$1" --quiet --force --locked --version "=$2" --features "$3" --bin "$1" \
    --root . && rm -rf build
}

while IFS== read -r name _ version; do
  install "$name" "$version" package "$name" "$version"
done <"$here/requirements.txt"
install turbolite "$turbolite" crate turbolite "$turbolite" cli-s3

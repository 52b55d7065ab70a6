#!/bin/bash
# run.sh ENVIRONMENT DIR [build.py's arguments]
#
# Builds the everyday databases in DIR, with the packages of requirements.txt in ENVIRONMENT. Cargo
# fetches the crates of Cargo.lock, whose sources are the data of three databases.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../scripts/again.sh"
. "$here/../../scripts/environment.sh"
[ $# -ge 2 ] || { sed -n 2,5p "$0" >&2; exit 2; }
mkdir -p "$1" "$2"; env=$(realpath "$1")/env; dir=$(realpath "$2"); shift 2
environment "$env" "$here/requirements.txt"
again cargo fetch --quiet --locked --manifest-path "$here/../../Cargo.toml"
PYTHONDONTWRITEBYTECODE=1 exec "$env/bin/python" "$here/build.py" --dir "$dir" "$@"

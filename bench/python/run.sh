#!/bin/bash
# run.sh LIBRARY DIR SCRIPT [its arguments]
#
# Runs a script of this folder with LIBRARY (a libdensite.so) in an environment in DIR.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../scripts/again.sh"
. "$here/../../scripts/environment.sh"
[ $# -ge 3 ] || { sed -n 2,4p "$0" >&2; exit 2; }
library=$(realpath "$1"); mkdir -p "$2"; dir=$(realpath "$2"); script=$3; shift 3
environment "$dir/env" "$here/requirements.txt"
DENSITE_LIBRARY="$library" PYTHONPATH="$here/../../python" PYTHONDONTWRITEBYTECODE=1 exec "$dir/env/bin/python" "$here/$script" "$@"

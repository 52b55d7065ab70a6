#!/bin/bash
# setup.sh DIR
#
# Makes the Python environments in DIR that the tests of the Python package need. Does nothing if
# they are up to date. Changes nothing outside DIR.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 1 ] || { sed -n 2,5p "$0" >&2; exit 2; }
. "$here/../../scripts/again.sh"
. "$here/../../scripts/environment.sh"
mkdir -p "$1"; cd "$1"
environment env "$here/requirements.txt"
environment ecosystem "$here/ecosystem/requirements.txt"
environment encryption "$here/encryption/requirements.txt"

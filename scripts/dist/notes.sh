#!/bin/bash
# notes.sh
#
# Prints the notes of this release: the section of its version in CHANGELOG.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
notes=$(awk -v start="## $version" 'index($0, "## ") == 1 { here = $0 == start || index($0, start " ") == 1; next } here' CHANGELOG.md)
[ -n "$notes" ] || { echo "CHANGELOG.md has no section '## $version'; add one" >&2; exit 1; }
printf '%s\n' "$notes" | sed '/./,$!d'

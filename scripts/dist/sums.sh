#!/bin/bash
# sums.sh DIR
#
# Writes SHA256SUMS of all files below DIR, and prints their sizes.
set -euo pipefail
cd "$1"
find . -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum >SHA256SUMS
sha256sum --check --quiet SHA256SUMS
find . -type f -printf '%s %P\n' | sort -k2 | awk '{ printf "%12d  %s\n", $1, $2 }'

#!/bin/bash
# litestream.sh DIR
#
# Builds Litestream, which `make bench ONLY=replicate` compares with: DIR/bin/litestream.
[ $# = 1 ] || { sed -n 2,4p "$0" >&2; exit 2; }
exec "$(dirname "${BASH_SOURCE[0]}")/../../scripts/go-program.sh" "$1" \
  github.com/benbjohnson/litestream/cmd/litestream v0.5.18 1.26 'two minutes'

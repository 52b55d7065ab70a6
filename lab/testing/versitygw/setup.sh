#!/bin/bash
# setup.sh DIR
#
# Builds versitygw, a server with the interface of S3: DIR/bin/versitygw, 45 MB.
[ $# = 1 ] || { sed -n 2,4p "$0" >&2; exit 2; }
exec "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/go-program.sh" "$1" \
  github.com/versity/versitygw/cmd/versitygw v1.8.0 1.21 'three minutes'

#!/bin/bash
# setup.sh DIR
#
# Builds nats-server, a server of NATS with JetStream: DIR/bin/nats-server, 20 MB.
[ $# = 1 ] || { sed -n 2,4p "$0" >&2; exit 2; }
exec "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/go-program.sh" "$1" \
  github.com/nats-io/nats-server/v2 v2.12.1 1.24 'a minute'

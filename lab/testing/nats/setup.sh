#!/bin/bash
# setup.sh DIR [VERSION]
#
# Builds nats-server, a server of NATS with JetStream: DIR/bin/nats-server, 20 MB. v2.12.1 is the
# oldest VERSION that Densite supports.
[ $# = 1 ] || [ $# = 2 ] || { sed -n 2,5p "$0" >&2; exit 2; }
exec "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/go-program.sh" "$1" \
  github.com/nats-io/nats-server/v2 "${2:-v2.15.2}" 1.26 'a minute'

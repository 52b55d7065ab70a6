# To be sourced. again COMMAND... runs a command up to four times, because a download can fail for
# some time.
again() {
  local n=1 tries=4
  until "$@"; do
    [ $n -lt $tries ] || { echo "failed $tries times: $*; check the network and try again" >&2; return 1; }
    echo "attempt $n of $tries failed, trying again: $*" >&2; sleep $((n * 5)); n=$((n + 1))
  done
}

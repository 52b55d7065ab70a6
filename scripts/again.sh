# To be sourced: again COMMAND... tries it up to four times, for a download may fail for a while.
again() {
  local n=1 tries=4
  until "$@"; do
    [ $n -lt $tries ] || { echo "gave up after $tries tries: $*" >&2; return 1; }
    echo "try $n of $tries failed: $*" >&2; sleep $((n * 5)); n=$((n + 1))
  done
}

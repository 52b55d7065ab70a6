#!/bin/bash
# run-mptest.sh SO VFS DIR
#
# Runs SQLite's multi-process test. mptester starts up to five clients on one database. They write,
# change page sizes, crash and check, and mptester compares their results. SO and VFS are "-" for
# stock SQLite; DIR is the directory of setup.sh. The exit status is 0 if no run had an error.
# Environment: TIMEOUT=300 seconds per run, REPEAT=3
set -uo pipefail
V=${SQLITE:-3.46.1}; TIMEOUT=${TIMEOUT:-300}
[ $# = 3 ] || { sed -n 2,7p "$0" >&2; exit 2; }
dir=$(cd "$3" && pwd) || exit 2
unset SQLTEST_EXT SQLTEST_VFS
if [ "$2" != - ]; then
  export SQLTEST_VFS=$2
  [ "$1" = - ] || { SQLTEST_EXT=$(readlink -f "$1") && export SQLTEST_EXT; }
fi
work=$dir/mptest; rm -rf "$work"; mkdir -p "$work"; cd "$work" || exit 2
# mptester starts its clients by its own path, unquoted. Run in the work directory, that path has no
# space.
cp "$dir/bin-$V/mptester" "$dir/src/s-$V/mptest/"*test .
# config01 skips itself unless the VFS is called unix. This line removes that condition.
sed -i '/^--if vfsname/d' config01.test

passed=0; failed=0
one() { # one SCRIPT MODE REPEAT
  local log=$work/$1-$2.log start summary
  start=$(date +%s)
  timeout -k 5 "$TIMEOUT" ./mptester "$1-$2.db" "$1.test" --journalmode "$2" --timeout 10000 --repeat "$3" > "$log" 2>&1 < /dev/null
  local rc=$?
  summary=$(grep -a '^Summary: ' "$log" | tail -1)
  if [ $rc = 0 ] && [[ $summary == "Summary: 0 errors out of "* ]] && [ "$summary" != "Summary: 0 errors out of 0 tests" ]; then
    passed=$((passed + 1)); printf 'ok   mptest %s %s: %s (%ss)\n' "$1" "$2" "${summary#Summary: }" $(($(date +%s) - start))
  else
    failed=$((failed + 1)); printf 'FAIL mptest %s %s: exit status %s, %s; log: %s\n' "$1" "$2" $rc "${summary:-no summary}" "$log"
    grep -a -i 'error\|expected\|crash' "$log" | head -20
  fi
}
# The two configuration scripts set journal modes and page sizes, which is not possible in WAL mode.
one config01 delete 1
one config02 delete 1
for mode in delete wal; do
  one crash01 $mode "${REPEAT:-3}"
  one multiwrite01 $mode "${REPEAT:-3}"
done
echo "mptest: $passed passed, $failed failed"
[ $failed = 0 ]

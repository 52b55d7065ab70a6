#!/bin/bash
# run-sqlite-tests.sh EXT.so VFSNAME [test files...]
#
# Runs SQLite TCL test files, each in its own process and directory, with
# VFSNAME (registered by the loadable extension EXT.so) as the default VFS.
#   EXT.so   "-" for none (stock VFS)        VFSNAME  "-" for the stock VFS
#   files    names such as select1.test or ext/fts5/test/fts5aa.test;
#            "@list.txt" reads names from a file (# starts a comment);
#            none: tests.txt next to this script
# env: VERSION=3.46.1  FLAVOUR=rel|dbg  TIMEOUT=180 (s per file)  JOBS=2
#      OUT=dir for logs and results.tsv (default: a fresh mktemp -d)
#      (wrap.tcl sets the "isquick" switch, as "testrunner veryquick" does)
#      SQLTEST_ENTRY=entry point   KEEP=1 keep the work directories
#      RUNAS=nobody run the tests as that user (default when root; RUNAS= for
#             no change): as root about ten files fail, because they test
#             read-only permissions
#      KNOWN=file  lines "FILE CASE" or "FILE PATTERN MOST": failing cases that
#             do not count, at most MOST for a pattern (default:
#             known-cases.txt here, unless stock); docs/decisions has the reasons
#      SQLTEST_RAW=1  without the logical-bytes adapter (see wrap.tcl)
#      STATS=1 collect SHIM_STATS (stand-in shims only)
#      TESTFIXTURE=path, SQLSRC=path  to override binary and source tree
#      EXPECT=expected.tsv  a baseline results.tsv; compare with it; the exit
#             status is 0 if this run is not worse (FILE status/errors)
# Output: one line per file  STATUS errors/tests seconds file [failing cases]
# and a summary. The exit status is 0 if no file FAILs, CRASHes or TIMEOUTs.
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ "$1" = --one ]; then            # internal: runs one file
  f=$2; id=$(printf %s "$f" | tr '/' '_'); log=$OUT/log/$id.log; d=$WORK/$id
  mkdir -p "$d"; cd "$d" || exit 1
  if [ -f "$SQLSRC/test/$f" ]; then p=$SQLSRC/test/$f; else p=$SQLSRC/$f; fi
  [ -n "$STATS" ] && export SHIM_STATS=$OUT/stats/$id
  if [ ! -f "$p" ]; then printf 'MISSING\t0\t0\t0\t%s\t\n' "$f"; exit 0; fi
  t0=$(date +%s.%N)
  as=; [ -n "$RUNAS" ] && { chmod 777 "$d"; as="setpriv --reuid=$RUNAS --regid=$(id -g "$RUNAS") --clear-groups --"; }
  $as timeout -k 5 "$TIMEOUT" "$TESTFIXTURE" "$HERE/wrap.tcl" "$p" >"$log" 2>&1 </dev/null; rc=$?
  t1=$(date +%s.%N)
  s=$(LC_ALL=C grep -a -E '^[0-9]+ errors out of [0-9]+ tests' "$log" | tail -1)
  e=$(echo "$s" | cut -d' ' -f1); n=$(echo "$s" | cut -d' ' -f5)
  bad=$(LC_ALL=C grep -a -E '^!?Failures on these tests:' "$log" | tail -1 | cut -d: -f2-)
  if [ -n "$bad" ] && [ -f "$KNOWN" ]; then   # removes the known cases
    declare -A used=()
    left=; k=0
    for c in $bad; do
      hit=
      while read -r kf kc most; do
        # shellcheck disable=SC2053  # the right side is a pattern
        if [ "$kf" = "$f" ] && [[ $c == $kc ]] && { [ -z "$most" ] || [ "${used[$kc]:-0}" -lt "$most" ]; }; then
          used[$kc]=$((${used[$kc]:-0} + 1)); hit=1; break
        fi
      done < "$KNOWN"
      if [ -n "$hit" ]; then k=$((k+1)); else left="$left $c"; fi
    done
    bad=$left; e=$((e-k)); [ -n "$left" ] || { e=0; [ $rc = 1 ] && rc=0; }
  fi
  bad=$(printf %s "$bad" | cut -c1-400)
  if [ $rc = 124 ] || [ $rc = 137 ]; then st=TIMEOUT
  elif [ $rc -ge 128 ]; then st=CRASH; bad="signal $((rc-128)) $bad"
  elif [ -z "$s" ]; then
     if [ $rc = 0 ]; then st=NOTEST; else st=ABORT; bad="rc $rc: $(tail -c 200 "$log" | tr '\n\t' '  ')"; fi
  elif [ "$e" != 0 ]; then st=FAIL
  elif [ $rc != 0 ]; then st=FAIL; bad="rc $rc $bad"
  else st=ok; fi
  # Without a summary, the numbers so far are counted.
  [ -n "$n" ] || n=$(LC_ALL=C grep -a -c -E '\.\.\. Ok$' "$log")
  [ -n "$e" ] || e=$(LC_ALL=C grep -a -c -E '^! [^ ]+ (expected|got):' "$log" | awk '{print int($1/2)}')
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' $st "$e" "$n" "$(awk "BEGIN{printf \"%.1f\",$t1-$t0}")" "$f" "$bad"
  [ "$KEEP" = 1 ] || { cd /; rm -rf "$d"; }
  exit 0
fi
[ $# -ge 2 ] || { sed -n 2,32p "$0"; exit 2; }
EXT=$1; VFS=$2; shift 2
export VERSION=${VERSION:-3.46.1} FLAVOUR=${FLAVOUR:-rel} TIMEOUT=${TIMEOUT:-180} STATS KEEP
JOBS=${JOBS:-2}
x=; [ $FLAVOUR = dbg ] && x=-dbg
export TESTFIXTURE=${TESTFIXTURE:-$HERE/bin-$VERSION/testfixture$x} SQLSRC=${SQLSRC:-$HERE/src/s-$VERSION}
[ "$VFS" = - ] || export KNOWN=${KNOWN-$HERE/known-cases.txt}
if [ "$(id -u)" = 0 ]; then export RUNAS=${RUNAS-nobody}; else RUNAS=; fi
export OUT=${OUT:-$(mktemp -d -t sqltests.XXXXXX)}
mkdir -p "$OUT/log" "$OUT/stats" || exit 2
OUT=$(cd "$OUT" && pwd); export WORK=$OUT/work; mkdir -p "$WORK"; chmod 755 "$OUT" "$WORK"; chmod 777 "$OUT/stats"
unset SQLTEST_EXT SQLTEST_VFS
if [ "$VFS" != - ]; then export SQLTEST_VFS=$VFS; [ "$EXT" = - ] || export SQLTEST_EXT=$(readlink -f "$EXT"); fi
# Checks that the extension loads and that its VFS is the default.
mkdir -p "$WORK/.p"; printf 'sqlite3 db probe.db\ndb eval {create table t(a);insert into t values(1)}\nputs "VFS [file_control_vfsname db]"\ndb close\n' > "$WORK/.p/probe.tcl"
as=; [ -n "$RUNAS" ] && { chmod 777 "$WORK/.p"; as="setpriv --reuid=$RUNAS --regid=$(id -g "$RUNAS") --clear-groups --"; }
(cd "$WORK/.p" && $as "$TESTFIXTURE" probe.tcl) > "$OUT/probe.txt" 2>&1 || { echo "testfixture cannot start with the VFS $VFS; its output:"; cat "$OUT/probe.txt"; exit 2; }
echo "# testfixture $TESTFIXTURE ($VERSION $FLAVOUR) vfs=$VFS probe: $(tail -1 "$OUT/probe.txt")  logs: $OUT/log"
for a in "$@"; do case $a in @*) sed 's/#.*//' "${a#@}" | awk 'NF{print $1}';; *) echo "$a";; esac; done > "$OUT/list"
[ $# -gt 0 ] || sed 's/#.*//' "$HERE/tests.txt" | awk 'NF{print $1}' > "$OUT/list"
: > "$OUT/results.tsv"; T0=$(date +%s)
xargs -a "$OUT/list" -P "$JOBS" -n 1 "$0" --one | tee "$OUT/results.tsv" | \
  while IFS= read -r l; do
    IFS=$'\x1f' read -r st e n s f bad <<<"${l//$'\t'/$'\x1f'}"
    printf '%-8s %4s/%-6s %6ss %s%s\n' "$st" "$e" "$n" "$s" "$f" "${bad:+   [$bad]}"
  done
T1=$(date +%s)
awk -F'\t' -v t=$((T1-T0)) '{c[$1]++; e+=$2; n+=$3; s+=$4} END{
 printf "SUMMARY files=%d ok=%d FAIL=%d CRASH=%d TIMEOUT=%d ABORT=%d NOTEST=%d MISSING=%d | errors=%d tests=%d | cpu-ish %.0fs wall %ds\n",NR,c["ok"],c["FAIL"],c["CRASH"],c["TIMEOUT"],c["ABORT"],c["NOTEST"],c["MISSING"],e,n,s,t}' "$OUT/results.tsv" | tee "$OUT/summary.txt"
[ "$KEEP" = 1 ] || rm -rf "$WORK"
if [ -n "$EXPECT" ]; then
  awk -F'\t' 'NR==FNR{s[$5]=$1;e[$5]=$2;n[$5]=$3;next}
   { if(($1!="ok" && $1!="NOTEST") && !($5 in s && s[$5]==$1 && $2<=e[$5])) {print "WORSE " $5 ": " $1 " " $2 "/" $3 " (baseline " s[$5] " " e[$5] "/" n[$5] ")"; w++}
     else if($5 in n && $3<n[$5]*0.98) {print "FEWER " $5 ": " $3 " tests (baseline " n[$5] ")"} }
   END{print "WORSE-THAN-BASELINE files: " w+0; exit (w>0)}' "$EXPECT" "$OUT/results.tsv" | tee "$OUT/compare.txt"
  exit ${PIPESTATUS[0]}
fi
! grep -q -E '^(FAIL|CRASH|TIMEOUT|ABORT|MISSING)' "$OUT/results.tsv"

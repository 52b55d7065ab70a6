#!/bin/bash
# build-testfixture.sh VERSION [rel|dbg]
#
# Builds bin-VERSION/testfixture[-dbg] in $SQLTESTS. setup.sh calls it. It needs src/s-VERSION, and
# b-VERSION configured and with sqlite3.c made. SQLite's makefile compiles about eighty files in one
# command; this script compiles them separately, JOBS at a time (default: all cores).
set -euo pipefail
V=$1; F=${2:-rel}
R=${SQLTESTS:?set by setup.sh}; B=$R/b-$V; O=obj-$F
mkdir -p "$B/$O" "$R/bin-$V"
cd "$B"
make -n testfixture 2>/dev/null | python3 -c "
import sys, shlex
text = sys.stdin.read().replace('\\\\\n', ' ')
line = [l for l in text.split('\n') if '-o testfixture ' in l and 'test1.c' in l][-1]
words = shlex.split(line)
def write(name, words): open(name, 'w').write(''.join(w + '\n' for w in words))
write('tf.src', [w for w in words if w.endswith('.c') and not w.startswith('-')])
write('tf.flags', [w for w in words if w.startswith(('-I', '-D')) and w != '-DNDEBUG'])
write('tf.libs', [w for w in words if w.startswith(('-l', '-L'))])
"
mapfile -t flags < tf.flags; mapfile -t libs < tf.libs; mapfile -t srcs < tf.src
srcs+=("$R/stub/sqltest_init.c")
flags+=(-DSQLITE_EXTRA_INIT=sqltest_extra_init -DSQLITE_ENABLE_FTS3 -DSQLITE_ENABLE_FTS4 -DSQLITE_ENABLE_FTS3_PARENTHESIS -DSQLITE_ENABLE_FTS5
  -DSQLITE_ENABLE_RTREE -DSQLITE_ENABLE_GEOPOLY -DSQLITE_ENABLE_SESSION -DSQLITE_ENABLE_PREUPDATE_HOOK -DSQLITE_ENABLE_DBSTAT_VTAB
  -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_UNLOCK_NOTIFY -DSQLITE_ENABLE_STAT4 -DSQLITE_ENABLE_SNAPSHOT -DSQLITE_ENABLE_MEMSYS5
  -DSQLITE_ENABLE_RBU -DSQLITE_ENABLE_DESERIALIZE -w -fPIC)
name=testfixture
case $F in
  rel) flags=(-O2 -g0 -DNDEBUG "${flags[@]}") ;;
  dbg) flags=(-O1 -g -DSQLITE_DEBUG "${flags[@]}"); name=testfixture-dbg ;;
  *) echo "unknown flavour $F: use rel or dbg" >&2; exit 2 ;;
esac

# sqlite3.c is compiled first, because it takes as long as all other files together.
{ printf '%s\0' "${srcs[@]}" | grep -z '\(^\|/\)sqlite3\.c$'; printf '%s\0' "${srcs[@]}" | grep -zv '\(^\|/\)sqlite3\.c$'; } |
  xargs -0 -P "${JOBS:-$(nproc)}" -n 1 bash -c '
    o=$0/$(basename "${@: -1}" .c).o; [ "$o" -nt "${@: -1}" ] || gcc "${@:1:$#-1}" -c "${@: -1}" -o "$o" || exit 255' "$O" "${flags[@]}"
gcc -rdynamic -o "$R/bin-$V/$name" "$O"/*.o "${libs[@]}" -ldl -lpthread -lm

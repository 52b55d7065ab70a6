#!/bin/bash
# build-testfixture.sh VERSION [rel|dbg|aarch64]
#
# Builds bin-VERSION/testfixture[-dbg|-aarch64] in $SQLTESTS, from what sources.sh makes there. SQLite's
# makefile compiles about eighty files in one command; this script compiles them separately, JOBS at a
# time (default: all cores). For aarch64 it needs Debian's cross compiler, and Tcl's library for it.
set -euo pipefail
V=$1; F=${2:-rel}
R=${SQLTESTS:?set by setup.sh}; B=$R/b-$V; O=obj-$F compiler=gcc
mkdir -p "$B/$O" "$R/bin-$V"
cd "$B"
mapfile -t flags < tf.flags; mapfile -t libs < tf.libs; mapfile -t srcs < tf.src
srcs+=("$R/stub/sqltest_init.c")
flags+=(-DSQLITE_EXTRA_INIT=sqltest_extra_init -DSQLITE_ENABLE_FTS3 -DSQLITE_ENABLE_FTS4 -DSQLITE_ENABLE_FTS3_PARENTHESIS -DSQLITE_ENABLE_FTS5
  -DSQLITE_ENABLE_RTREE -DSQLITE_ENABLE_GEOPOLY -DSQLITE_ENABLE_SESSION -DSQLITE_ENABLE_PREUPDATE_HOOK -DSQLITE_ENABLE_DBSTAT_VTAB
  -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_UNLOCK_NOTIFY -DSQLITE_ENABLE_STAT4 -DSQLITE_ENABLE_SNAPSHOT -DSQLITE_ENABLE_MEMSYS5
  -DSQLITE_ENABLE_RBU -DSQLITE_ENABLE_DESERIALIZE -w -fPIC)
name=testfixture
# From 3.48 on, the command that makes testfixture reads these from Tcl's configuration.
if [ "$F" != aarch64 ]; then
  # shellcheck disable=SC1090  # its place depends on the system
  . "$(find /usr/lib -name tclConfig.sh 2>/dev/null | grep tcl8 | head -1)"
  # shellcheck disable=SC2206  # several words each
  flags+=($TCL_INCLUDE_SPEC) libs+=($TCL_LIB_SPEC)
fi
case $F in
  rel) flags=(-O2 -g0 -DNDEBUG "${flags[@]}") ;;
  dbg) flags=(-O1 -g -DSQLITE_DEBUG "${flags[@]}"); name=testfixture-dbg ;;
  aarch64)
    flags=(-O2 -g0 -DNDEBUG "${flags[@]}"); name=testfixture-aarch64; compiler=aarch64-linux-gnu-gcc
    # Its own linker knows where its libraries are.
    for i in "${!libs[@]}"; do [[ ${libs[$i]} != -L* ]] || unset "libs[$i]"; done
    # Debian configures SQLite for the machine that compiles, which has no zlib.
    libs+=(-lz) ;;
  *) echo "unknown flavour $F: use rel, dbg or aarch64" >&2; exit 2 ;;
esac

# sqlite3.c is compiled first, because it takes as long as all other files together.
{ printf '%s\0' "${srcs[@]}" | grep -z '\(^\|/\)sqlite3\.c$'; printf '%s\0' "${srcs[@]}" | grep -zv '\(^\|/\)sqlite3\.c$'; } |
  xargs -0 -P "${JOBS:-$(nproc)}" -n 1 bash -c '
    o=$0/$(basename "${@: -1}" .c).o; [ "$o" -nt "${@: -1}" ] || "${@:1:$#-1}" -c "${@: -1}" -o "$o" || exit 255' "$O" $compiler "${flags[@]}"
$compiler -rdynamic -o "$R/bin-$V/$name" "$O"/*.o "${libs[@]}" -ldl -lpthread -lm

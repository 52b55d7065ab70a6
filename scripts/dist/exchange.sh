#!/bin/sh
# exchange.sh FIRST SECOND
#
# Two commands densite, of two kinds of machines: each reads, checks and changes the files of the
# other, and the golden files of the format (tests/fixtures). FIRST and SECOND are words of the shell,
# such as 'qemu-aarch64 /build/densite'. Fails at the first difference.
set -eu
[ $# = 2 ] || { sed -n 2,6p "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

rows='SELECT count(*), sum(id), total(price), sum(length(name)), group_concat(day) FROM (SELECT * FROM t ORDER BY day, id)'
same() { # same FILE: both commands check it and read the same rows
  $first check "$1" >/dev/null; $second check "$1" >/dev/null
  $first sql "$1" "$rows" --format csv >first.out; $second sql "$1" "$rows" --format csv >second.out
  cmp first.out second.out
  [ -s first.out ]
}
change() { # change FILE: another command than the one that made it
  $second sql "$1" "UPDATE t SET name = upper(name), price = price + 0.1 WHERE id % 3 = 0;
    DELETE FROM t WHERE id BETWEEN 1000 AND 1100;
    INSERT INTO t(id, name, price, day) SELECT id + 100000, 'new ' || name, price * 1.5, day FROM t WHERE id % 2 = 1;" >/dev/null
}
for turn in 1 2; do
  first=$1 second=$2
  [ $turn = 1 ] || { first=$2 second=$1; }
  for golden in "$here"/tests/fixtures/*.densite; do
    cp "$golden" golden.db; same golden.db; change golden.db; same golden.db
  done
  $first sql 'file:plain.db?densite=off' --create "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, price NUMERIC, day TEXT, data BLOB);
    CREATE INDEX t_day ON t(day); CREATE VIRTUAL TABLE words USING fts5(text);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
    INSERT INTO t SELECT i, 'name of row ' || i, (i * 7919 % 10007) / 100.0, date('2020-01-01', (i % 900) || ' days'), zeroblob(i % 50) FROM n;
    INSERT INTO words SELECT name || ' ' || day FROM t;" >/dev/null
  for options in "" "--archive"; do
    rm -f made.db
    $first compress $options plain.db made.db >/dev/null
    same made.db; change made.db; same made.db
    $second vacuum --yes made.db >/dev/null; same made.db
    # A WAL that the other leaves behind, and rows of its log.
    $first sql made.db "PRAGMA journal_mode=WAL; SELECT densite_config('ingest', 't', 'on_conflict=replace');" >/dev/null
    $second sql made.db "INSERT INTO t(id, name, price, day) SELECT id + 500000, name, price, day FROM t WHERE id < 500" >/dev/null
    same made.db
    rm -f back.db; $second decompress made.db back.db >/dev/null; same back.db
    rm -rf made.db*
  done
  rm -rf plain.db golden.db* back.db
done
echo "files are exchanged both ways: $1, $2"

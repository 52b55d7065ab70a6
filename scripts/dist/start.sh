#!/bin/sh
# start.sh [PYTHON]
#
# The five minutes of docs/start.md, in a new directory: with the command densite on the PATH, the
# sqlite3 shell if it is installed, and PYTHON if it is given. Fails at the first wrong result.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
is() { # is WANTED COMMAND...
  wanted=$1; shift
  got=$("$@")
  case $got in *"$wanted"*) ;; *) printf '%s\nprinted:\n%s\ninstead of: %s\n' "$*" "$got" "$wanted" >&2; exit 1 ;; esac
}
rows='WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)'
densite sql 'file:app.db?densite=off' --create "CREATE TABLE page(id INTEGER PRIMARY KEY, url TEXT, hits INTEGER);
  $rows INSERT INTO page SELECT i, 'https://example.org/item/' || i, i % 7 FROM n;" >sql.out
is 'small.db: 999 pages' densite compress app.db small.db
is 'compressed (Densite)' densite info small.db
is 14286 densite sql small.db 'SELECT hits, count(*) FROM page GROUP BY hits LIMIT 3'
densite sql small.db 'UPDATE page SET hits = hits + 1 WHERE id = 42' >sql.out
tried='the command'
if command -v sqlite3 >/dev/null && [ -n "${DENSITE_LIBRARY:-}" ]; then
  is 'kind|densite' sqlite3 :memory: -cmd ".load $DENSITE_LIBRARY" -cmd '.open file:small.db?vfs=densite' \
    "SELECT name, value FROM densite_info('main') WHERE name = 'kind'"
  tried="$tried, the sqlite3 shell"
fi
if [ $# = 1 ]; then
  is '(100000,)' "$1" -c 'import densite; print(densite.connect("small.db").execute("SELECT count(*) FROM page").fetchone())'
  tried="$tried, $("$1" --version)"
fi
is 'small.db: ok' densite check small.db
is 'back.db: 999 pages' densite decompress small.db back.db
[ "$(head -c 15 back.db)" = 'SQLite format 3' ]
echo "the five-minute start works: $(densite --version), $tried"

#!/bin/sh
# report-pictures.sh DENSITE DIR DOCS
#
# Takes the pictures of the page of `densite report` in docs/: makes the database of a small shop in
# DIR, plain and compressed, changes it, writes the reports, and shows them in Chromium. In DIR are
# pictures of both pages at 390, 640 and 1200 pixels, light and dark; DOCS gets three of them. Fails
# if a page does not fit a screen.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
densite=$(realpath "$1"); docs=$(realpath "$3")
mkdir -p "$2"; cd "$2"
rm -f shop.db* plain.db* ./*.html ./*.png

cat > shop.sql <<'SQL'
PRAGMA page_size=4096; PRAGMA auto_vacuum=NONE;
CREATE TABLE customers(id INTEGER PRIMARY KEY, name TEXT, city TEXT, since TEXT);
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, day TEXT, total REAL, state TEXT);
CREATE TABLE lines("order" INTEGER, line INTEGER, part INTEGER, quantity INTEGER, price REAL,
  PRIMARY KEY("order", line)) WITHOUT ROWID;
CREATE TABLE "photos & files"(id INTEGER PRIMARY KEY, name TEXT, data BLOB);
CREATE TABLE visits(at INTEGER PRIMARY KEY, page TEXT, customer INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20000)
  INSERT INTO customers SELECT i, 'Customer ' || (i*7919 % 20011), 'City ' || (i*31 % 400),
    date('2015-01-01', (i*17 % 3000) || ' days') FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<80000)
  INSERT INTO orders SELECT i, i*7919 % 20000 + 1, date('2020-01-01', (i/60) || ' days'),
    (i*104729 % 90000)/100.0, CASE i % 17 WHEN 0 THEN 'open' WHEN 3 THEN 'returned' ELSE 'paid' END
  FROM n;
INSERT INTO lines SELECT o.id, l.value, (o.id*31 + l.value*7919) % 5000, (o.id + l.value) % 7 + 1,
    (o.id*l.value % 9000)/100.0 FROM orders o, (SELECT 1 value UNION ALL SELECT 2 UNION ALL SELECT 3) l;
CREATE INDEX lines_by_part ON lines(part);
CREATE INDEX orders_by_customer ON orders(customer, day);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<250)
  INSERT INTO "photos & files" SELECT i, 'photo ' || i || '.jpg', randomblob(9000 + i*37) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<90000)
  INSERT INTO visits SELECT 1700000000 + i*7, '/part/' || (i*i % 4999), i*7 % 20000 FROM n;
SQL
# A report, and with a later one the time of all earlier ones, a week before.
report() {
  "$densite" report "$1.db" -o "$1.html" --quiet
  python3 - "$1.html" <<'PY'
import re, sys
page = open(sys.argv[1]).read()
earlier = re.sub(r'"time":(\d+)', lambda time: f'"time":{int(time[1]) - 604800}', page)
open(sys.argv[1], "w").write(earlier)
PY
}
last() { "$densite" report "$1.db" -o "$1.html" --quiet; }

python3 - <<'PY'
import sqlite3
db = sqlite3.connect("shop.db")
db.executescript(open("shop.sql").read())
db.close()
PY
cp shop.db plain.db
report shop
"$densite" compress shop.db --yes --quiet
for week in 1 2 3 4 5; do
  report shop
  "$densite" sql shop.db "INSERT INTO visits SELECT at + 700000*$week, page, customer FROM visits WHERE at < 1700000000 + 300000;
    UPDATE orders SET state = 'paid' WHERE state = 'open' AND id % 5 = $week - 1;" >/dev/null
done
report shop
"$densite" sql shop.db "DELETE FROM visits WHERE at % 3 = 0; UPDATE customers SET city = 'City ' || (id % 40) WHERE id % 9 = 0;" >/dev/null
last shop
python3 - <<'PY'
import sqlite3
db = sqlite3.connect("plain.db")
db.executescript("DELETE FROM orders WHERE day < '2021-06-01'; DELETE FROM lines WHERE \"order\" NOT IN (SELECT id FROM orders); CREATE TABLE carts AS SELECT * FROM visits WHERE at % 4 = 0;")
db.close()
PY
last plain

for page in shop plain; do
  "$here/page.py" check $page.html
  for width in 390 640 1200; do
    for scheme in light dark; do
      "$here/page.py" picture $page.html $width $scheme $page-$width-$scheme.png
    done
  done
done
cp shop-1200-light.png "$docs/report.png"
"$here/page.py" picture shop.html 390 light "$docs/report-narrow.png" 1500
"$here/page.py" picture plain.html 640 dark "$docs/report-dark.png" 1900
ls -l "$docs"/report*.png

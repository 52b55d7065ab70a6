-- Tables of text for text_sizes.rs, each behind its name. `r` is made before each of them: its numbers
-- a and b look random.

--- r
CREATE TEMP TABLE r(i INTEGER PRIMARY KEY, a INTEGER, b INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000),
m(i, x) AS (SELECT i, i * 2654435761 & 4294967295 FROM n),
s(i, y) AS (SELECT i, ((x | (x >> 15)) - (x & (x >> 15))) * 2146121005 & 4294967295 FROM m),
r(i, a, b) AS (SELECT i, ((y | (y >> 13)) - (y & (y >> 13))) * 1181783497 >> 12 & 1048575,
    ((y | (y >> 14)) - (y & (y >> 14))) * 668265263 >> 12 & 1048575 FROM s)
INSERT INTO temp.r SELECT i, a, b FROM r;

--- urls: the table of the five-minute start
CREATE TABLE page(id INTEGER PRIMARY KEY, url TEXT, hits INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
INSERT INTO page SELECT i, 'https://example.org/item/' || i, i % 7 FROM n;

--- sites: URLs of some sites, with paths and queries
CREATE TABLE t(id INTEGER PRIMARY KEY, url TEXT, seen INTEGER);
INSERT INTO t SELECT i, printf('https://%s%d.com%s',
    substr('www.  shop. news. m.    static', 1 + a % 5 * 6, 5), a % 40, CASE b % 3
    WHEN 0 THEN printf('/articles/%d/%d/%d', 2000 + a % 25, b % 12, i)
    WHEN 1 THEN printf('/search?q=%c%c&page=%d&session=%X', char(97 + a % 26), char(97 + b % 26), a % 9, a * b)
    ELSE printf('/images/%d.png', b) END), a % 100 FROM r WHERE i <= 40000;

--- populations: sentences in the first half of a table, keys with paths in the other
CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT);
INSERT INTO t SELECT i, CASE WHEN i <= 12000 THEN (SELECT group_concat(substr('the packagelibrary contains runtime support for development of shared headers and static files ',
        1 + (a / (w + 1) + b * w) % 80, 4 + (a + w) % 7), ' ') FROM (SELECT value AS w FROM json_each('[0,1,2,3,4,5,6,7,8,9,10,11]')))
    ELSE printf('%X%X:/srv/objects/%02x/%d/part-%d', a, b, b % 256, a % 1000, i) END FROM r WHERE i <= 24000;

--- turns: the same by turns of 300 rows
CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT);
INSERT INTO t SELECT i, CASE WHEN i / 300 % 2 THEN (SELECT group_concat(substr('the packagelibrary contains runtime support for development of shared headers and static files ',
        1 + (a / (w + 1) + b * w) % 80, 4 + (a + w) % 7), ' ') FROM (SELECT value AS w FROM json_each('[0,1,2,3,4,5,6,7,8,9,10,11]')))
    ELSE printf('%X%X:/srv/objects/%02x/%d/part-%d', a, b, b % 256, a % 1000, i) END FROM r WHERE i <= 24000;

--- twins: two tables of one shape, of comments and of mail addresses
CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER);
CREATE TABLE u(id INTEGER PRIMARY KEY, a TEXT, b INTEGER);
INSERT INTO t SELECT i, (SELECT group_concat(substr('quick deposits sleep furiously about the final accounts; carefully ironic requests nag among ',
        1 + (a / (w + 1) + b * w) % 80, 4 + (a + w) % 7), ' ') FROM (SELECT value AS w FROM json_each('[0,1,2,3,4,5,6,7,8,9,10,11]'))), a % 50 FROM r WHERE i <= 20000;
INSERT INTO u SELECT i, printf('%s.%c%c%c%d@%s', substr('annapeterjohnmariaivanchenolga', 1 + a % 6 * 5, 4 + b % 2),
    char(97 + b % 26), char(97 + a % 26), char(97 + (a + b) % 26), a % 100,
    substr('example.orgmail.test   post.invalid ', 1 + b % 3 * 12, 11)), b % 50 FROM r WHERE i <= 40000;

--- pairs: keys and values of many kinds
CREATE TABLE t(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
INSERT OR IGNORE INTO t SELECT CASE a % 4
    WHEN 0 THEN printf('user:%d:name', b) WHEN 1 THEN printf('session:%x', a * b)
    WHEN 2 THEN printf('cache/page/%d', i) ELSE printf('counter.%c.%d', char(97 + a % 26), b % 5000) END,
    CASE a % 4
    WHEN 0 THEN printf('%s %c.', substr('AnnaPeterJohnMariaIvanChenOlga', 1 + b % 6 * 5, 5), char(65 + a % 26))
    WHEN 1 THEN printf('{"user":%d,"since":%d,"flags":["a%d"]}', b, 1700000000 + i * 7, a % 9)
    WHEN 2 THEN printf('https://example.org/item/%d', i) ELSE a % 100000 END FROM r WHERE i <= 30000;

--- codes: short codes of articles
CREATE TABLE t(id INTEGER PRIMARY KEY, code TEXT, other TEXT);
INSERT INTO t SELECT i,
    printf(CASE a % 3 WHEN 0 THEN '%c%c-%d' ELSE '%c%c-%d/%d' END, char(65 + a % 26), char(65 + b % 7), b % 10000, a % 7),
    CASE WHEN b % 5 THEN printf('K%d%c', a % 977, char(88 + b % 3)) END FROM r WHERE i <= 100000;

--- log: lines of a log
CREATE TABLE t(line TEXT);
INSERT INTO t SELECT printf('%s %s [%s%d] %s', strftime('%Y-%m-%dT%H:%M:%S', 1700000000 + i / 3, 'unixepoch'),
    CASE a % 9 WHEN 0 THEN 'WARN' WHEN 1 THEN 'ERROR' ELSE 'INFO' END,
    substr('worker-main-http-store-', 1 + b % 4 * 6, 5), a % 16, CASE b % 3
    WHEN 0 THEN printf('GET /api/v1/items/%d 200 %dus from 10.%d.%d.%d', a % 5000, b % 900, a % 4, b % 256, a % 256)
    WHEN 1 THEN printf('connection %d closed after %d ms', i, b % 60000)
    ELSE printf('retrying request %x because of timeout (attempt %d)', a, b % 4) END) FROM r WHERE i <= 40000;

--- mails: names and mail addresses
CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, mail TEXT UNIQUE);
WITH w(i, a, b, first, last) AS (SELECT i, a, b, substr('AnnaPetraJohnMariaIvanChenOlgaKimRajaSven', 1 + a % 10 * 4, 4),
    substr('MuellerSmithGarciaTanakaIvanovSilvaJonesRossiKumarNovak', 1 + b % 50, 4 + a % 4)
    || substr('soneringmanskyova', 1 + a % 13, 3) FROM r WHERE i <= 40000)
INSERT OR IGNORE INTO t SELECT i, first || ' ' || last, printf('%s.%s%d@%s', lower(first), lower(last), i % 9973, CASE b % 4
    WHEN 0 THEN 'example.org' WHEN 1 THEN printf('mail%d.test', a % 9) ELSE printf('company%d.com', a % 300) END) FROM w;

--- paths: files of a tree, in order of their names
CREATE TABLE t(path TEXT PRIMARY KEY, size INTEGER, sum TEXT);
INSERT INTO t SELECT printf('/usr/%s/package-%d/%s/%c%c%c%d.%s', CASE i / 10000 WHEN 0 THEN 'share' WHEN 1 THEN 'lib' ELSE 'src' END,
    i / 40, CASE i / 8 % 5 WHEN 0 THEN 'doc' WHEN 1 THEN 'tests' WHEN 2 THEN 'mod' WHEN 3 THEN 'image' ELSE 'local' END,
    char(97 + a % 26), char(97 + b % 26), char(97 + a % 5), i % 8,
    CASE i / 10000 WHEN 0 THEN 'rs' WHEN 1 THEN 'html' ELSE 'so' END), a % 100000, printf('%08x%08x', a, b) FROM r WHERE i <= 30000;

--- growing: numbered texts whose numbers become longer
CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, at INTEGER);
INSERT INTO t SELECT i, printf('invoice no. %d of customer %d', i, i * 13 / 7), i * 60 FROM r WHERE i <= 80000;

--- numbered: files of a tree whose names differ in numbers, and an index of them
CREATE TABLE t(path TEXT PRIMARY KEY, size INTEGER, sum TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
INSERT INTO t SELECT printf('/usr/%s/package-%d/%s/aaa%d.%s', CASE i / 10000 WHEN 0 THEN 'share' WHEN 1 THEN 'lib' ELSE 'src' END,
    i / 40, CASE i / 8 % 5 WHEN 0 THEN 'doc' WHEN 1 THEN 'tests' WHEN 2 THEN 'mod' WHEN 3 THEN 'image' ELSE 'local' END,
    i % 8, CASE i / 10000 WHEN 0 THEN 'rs' WHEN 1 THEN 'html' ELSE 'so' END), 0, '0000000000000000' FROM n;

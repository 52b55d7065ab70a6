// Densite from Node with better-sqlite3: node weather.mjs LIBRARY FOLDER
//
// Makes FOLDER/weather.db, a Densite file. Every step checks its result. The first wrong one ends
// the program with a sentence and code 1.
import Database from 'better-sqlite3';
import { statSync } from 'node:fs';
import { join, resolve } from 'node:path';

const STATIONS = 20;
const READINGS = 2500; // of each station, one every ten minutes

function same(what, got, expected) {
  if (got !== expected) throw new Error(`${what}: ${got}, expected ${expected}`);
}

const two = (n) => String(n).padStart(2, '0');
const at = (i) => `2026-01-${two(Math.floor(i / 144) + 1)} ${two(Math.floor(i / 6) % 24)}:${two((i % 6) * 10)}`;
const celsius = (station, i) => ((station * 37 + i * 17) % 400) / 10 - 5;

// better-sqlite3 does not support URIs, so ?vfs=densite is not possible. This entry point makes
// Densite the default VFS for all files that are opened later.
function load(library) {
  const loader = new Database(':memory:');
  loader.loadExtension(resolve(library), 'sqlite3_densite_default_init');
  console.log(`Densite ${loader.prepare('SELECT densite_version()').pluck().get()} in SQLite ${loader.prepare('SELECT sqlite_version()').pluck().get()}`);
  loader.close(); // the library stays
}

function write(db) {
  db.pragma('journal_mode = wal');
  db.exec(`
    CREATE TABLE station(id INTEGER PRIMARY KEY, name TEXT NOT NULL, about TEXT NOT NULL);
    CREATE TABLE reading(station INTEGER NOT NULL REFERENCES station, at TEXT NOT NULL, celsius REAL, PRIMARY KEY (station, at));
    CREATE VIRTUAL TABLE report USING fts5(text);`);
  const station = db.prepare('INSERT INTO station VALUES (?, ?, ?)');
  const reading = db.prepare('INSERT INTO reading VALUES (?, ?, ?)');
  const report = db.prepare('INSERT INTO report VALUES (?)');
  db.transaction(() => {
    for (let id = 1; id <= STATIONS; id++) {
      station.run(id, `station ${id}`, JSON.stringify({ height: id * 150 }));
      for (let i = 0; i < READINGS; i++) reading.run(id, at(i), celsius(id, i));
    }
    for (const text of ['storm from the north', 'clear, no wind', 'the storm is over']) report.run(text);
  })();
}

function query(db) {
  const high = db.prepare(`
    SELECT count(*) AS rows, count(DISTINCT s.name) AS stations FROM reading r JOIN station s ON s.id = r.station
    WHERE json_extract(s.about, '$.height') > 1000`).get();
  same('readings above 1000 m', high.rows, 14 * READINGS);
  same('stations above 1000 m', high.stations, 14);
  same('reports of a storm', db.prepare(`SELECT count(*) FROM report WHERE report MATCH 'storm'`).pluck().get(), 2);
  console.log(`${high.rows} readings of ${high.stations} stations above 1000 m`);
}

// WAL: another connection reads while this one writes, and sees only committed rows.
function twoConnections(db, other) {
  const stations = other.prepare('SELECT count(*) FROM station').pluck();
  db.transaction(() => {
    db.prepare('INSERT INTO station VALUES (?, ?, ?)').run(21, 'station 21', '{"height": 5}');
    same('stations seen before the commit', stations.get(), STATIONS);
  })();
  same('stations seen after the commit', stations.get(), STATIONS + 1);
}

// Ingest: a commit costs one sync of a log. The ingest table shows the rows at once, and the table
// itself soon after.
function ingest(db, other) {
  db.exec('CREATE VIRTUAL TABLE temp.reading_in USING densite_ingest(reading, on_conflict=replace)');
  const reading = db.prepare('INSERT INTO temp.reading_in VALUES (21, ?, ?)');
  db.transaction(() => { for (let i = 0; i < 1000; i++) reading.run(at(i), celsius(21, i)); })();
  same('readings seen at once', db.prepare('SELECT count(*) FROM temp.reading_in WHERE station = 21').pluck().get(), 1000);
  db.prepare('SELECT densite_wait()').get();
  same('readings in the table', other.prepare('SELECT count(*) FROM reading WHERE station = 21').pluck().get(), 1000);
}

function size(db, path) {
  const info = new Map(db.prepare(`SELECT name, value FROM densite_info('main')`).raw().all());
  same('kind of file', info.get('kind'), 'densite');
  const [stored, logical] = [statSync(path).size, info.get('logical_bytes')];
  if (stored * 2 > logical) throw new Error(`${path} has ${stored} bytes for ${logical}: more than half`);
  same('integrity_check', db.pragma('integrity_check', { simple: true }), 'ok');
  console.log(`${logical} bytes stored in ${stored}: ${Math.round((100 * stored) / logical)} %`);
}

try {
  const [library, folder] = process.argv.slice(2);
  if (!folder) throw new Error('usage: node weather.mjs LIBRARY FOLDER');
  load(library);
  const path = join(folder, 'weather.db');
  const db = new Database(path);
  write(db);
  query(db);
  const other = new Database(path);
  twoConnections(db, other);
  ingest(db, other);
  other.close();
  db.close();
  // The last close has copied the WAL into the file.
  const again = new Database(path);
  size(again, path);
  again.close();
} catch (error) {
  console.error(`weather: ${error.message}`);
  process.exitCode = 1;
}

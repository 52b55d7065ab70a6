/* Densite from C: weather FOLDER
**
** Makes FOLDER/weather.db, a Densite file, and FOLDER/plain.db, a plain file with the same content.
** Every step checks its result. The first wrong one ends the program with a sentence and code 1.
** The library is linked (-ldensite) for its C API; SQLite is the system's.
*/
#include "densite.h"
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STATIONS = 20, READINGS = 2500, ROWS = STATIONS * READINGS, AT = 16 /* the length of 2026-01-01 00:00 */ };

static void fail(const char *what, const char *why) {
  fprintf(stderr, "weather: %s: %s\n", what, why);
  exit(1);
}

static void same(const char *what, sqlite3_int64 got, sqlite3_int64 expected) {
  char why[64];
  snprintf(why, sizeof why, "%lld, expected %lld", (long long)got, (long long)expected);
  if (got != expected) fail(what, why);
}

static sqlite3 *open_uri(const char *uri) {
  sqlite3 *db;
  if (sqlite3_open_v2(uri, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, NULL) != SQLITE_OK) fail(uri, sqlite3_errmsg(db));
  sqlite3_busy_timeout(db, 5000);
  return db;
}

static void run(sqlite3 *db, const char *sql) {
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail(sql, sqlite3_errmsg(db));
}

/* Runs a statement with one parameter. Returns the number in the first column of its first row, or
** 0 without a row. */
static sqlite3_int64 number(sqlite3 *db, const char *sql, sqlite3_int64 parameter) {
  sqlite3_stmt *statement;
  sqlite3_int64 n = 0;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) fail(sql, sqlite3_errmsg(db));
  sqlite3_bind_int64(statement, 1, parameter);
  if (sqlite3_step(statement) == SQLITE_ROW) n = sqlite3_column_int64(statement, 0);
  if (sqlite3_finalize(statement) != SQLITE_OK) fail(sql, sqlite3_errmsg(db));
  return n;
}

static void densite(const char *what, int code) {
  if (code != DENSITE_OK) fail(what, densite_errmsg());
}

/* Loads the library, which then serves all later connections of this SQLite. */
static void load(void) {
  void (*entry)(void) = (void (*)(void))sqlite3_densite_init;
  sqlite3_auto_extension(entry);
  sqlite3 *first = open_uri(":memory:");
  sqlite3_cancel_auto_extension(entry);
  sqlite3_close(first);
  printf("Densite %s in SQLite %s\n", densite_version(), sqlite3_libversion());
}

/* The fastest way to insert: columns in memory, sorted by the table's key, in one INSERT ...
** SELECT. */
static void insert_columns(sqlite3 *db) {
  int32_t *station = malloc(ROWS * sizeof *station);
  double *celsius = malloc(ROWS * sizeof *celsius);
  char *at = malloc(ROWS * AT + 1);
  int64_t *ends = malloc((ROWS + 1) * sizeof *ends);
  if (!station || !celsius || !at || !ends) fail("columns", "out of memory");
  ends[0] = 0;
  for (int row = 0; row < ROWS; row++) {
    int i = row / STATIONS; /* ordered by time, not by the table's key */
    station[row] = row % STATIONS + 1;
    celsius[row] = (station[row] * 37 + i * 17) % 400 / 10.0 - 5;
    snprintf(at + row * AT, AT + 1, "2026-01-%02u %02u:%02u", i / 144u % 100 + 1, i / 6u % 24, i % 6u * 10);
    ends[row + 1] = (row + 1) * AT;
  }
  densite_column columns[3] = {
    { .size = sizeof *columns, .type = DENSITE_INT32, .rows = ROWS, .values = station },
    { .size = sizeof *columns, .type = DENSITE_TEXT, .rows = ROWS, .values = at, .offsets = ends, .values_bytes = ROWS * AT },
    { .size = sizeof *columns, .type = DENSITE_FLOAT64, .rows = ROWS, .values = celsius },
  };
  const char *names[3] = { "station", "at", "celsius" };
  int64_t set = densite_columns_new();
  for (int i = 0; i < 3; i++) densite("columns", densite_columns_add(set, names[i], &columns[i]));
  densite_sort_key key[2] = { { .column = 0 }, { .column = 1 } };
  densite("sort", densite_columns_sort(set, key, 2, NULL));
  number(db, "INSERT INTO reading SELECT c0, c1, c2 FROM densite_columns(?)", set);
  densite("release", densite_columns_release(set)); /* from now on the buffers can be freed */
  free(station), free(celsius), free(at), free(ends);
}

static void write_all(sqlite3 *db) {
  run(db, "PRAGMA journal_mode = wal;"
          "CREATE TABLE station(id INTEGER PRIMARY KEY, name TEXT NOT NULL, about TEXT NOT NULL);"
          "CREATE TABLE reading(station INTEGER NOT NULL REFERENCES station, at TEXT NOT NULL, celsius REAL, PRIMARY KEY (station, at));"
          "CREATE VIRTUAL TABLE report USING fts5(text);"
          "BEGIN");
  for (int id = 1; id <= STATIONS; id++) number(db, "INSERT INTO station SELECT ?1, 'station ' || ?1, json_object('height', ?1 * 150)", id);
  insert_columns(db);
  run(db, "INSERT INTO report VALUES ('storm from the north'), ('clear, no wind'), ('the storm is over'); COMMIT");
}

static void query(sqlite3 *db) {
  const char *high = "SELECT count(*) FROM reading r JOIN station s ON s.id = r.station WHERE json_extract(s.about, '$.height') > ?";
  same("readings above 1000 m", number(db, high, 1000), 14 * READINGS);
  same("reports of a storm", number(db, "SELECT count(*) FROM report WHERE report MATCH 'storm'", 0), 2);
  printf("%d readings of 14 stations above 1000 m\n", 14 * READINGS);
}

/* WAL: another connection reads while this one writes, and sees only committed rows. */
static void two_connections(sqlite3 *db, sqlite3 *other) {
  run(db, "BEGIN; INSERT INTO station VALUES (21, 'station 21', '{\"height\": 5}')");
  same("stations seen before the commit", number(other, "SELECT count(*) FROM station", 0), STATIONS);
  run(db, "COMMIT");
  same("stations seen after the commit", number(other, "SELECT count(*) FROM station", 0), STATIONS + 1);
}

/* Ingest: a commit costs one sync of a log. The ingest table shows the rows at once, and the table
** itself soon after. */
static void ingest(sqlite3 *db, sqlite3 *other) {
  run(db, "CREATE VIRTUAL TABLE temp.reading_in USING densite_ingest(reading, on_conflict=replace); BEGIN");
  for (int i = 0; i < 1000; i++) number(db, "INSERT INTO temp.reading_in VALUES (21, datetime('2026-01-01', ?1 || ' minutes'), ?1 % 40)", i);
  run(db, "COMMIT");
  same("readings seen at once", number(db, "SELECT count(*) FROM temp.reading_in WHERE station = ?", 21), 1000);
  number(db, "SELECT densite_wait()", 0);
  same("readings in the table", number(other, "SELECT count(*) FROM reading WHERE station = ?", 21), 1000);
}

static sqlite3_int64 file_bytes(const char *path) {
  struct stat file;
  if (stat(path, &file) != 0) fail(path, "the file does not exist");
  return file.st_size;
}

/* Functions that SQL does not have: a check of the whole file, figures, and a plain copy. Each
** returns the JSON that the command prints with --json. */
static void files(const char *path, const char *plain) {
  char *json;
  densite("check", densite_check(0, path, NULL, NULL, &json));
  if (!strstr(json, "\"ok\":true")) fail("check", json);
  densite_free(json);
  densite("info", densite_info(0, path, &json));
  if (!strstr(json, "\"form\":\"compressed\"")) fail("info", json);
  densite_free(json);
  densite("decompress", densite_decompress(0, path, plain, NULL, NULL, NULL, NULL));
  sqlite3_int64 logical = file_bytes(plain), stored = file_bytes(path);
  if (stored * 2 > logical) fail(path, "the file is more than half as large as the plain file");
  printf("%lld bytes stored in %lld: %lld %%\n", logical, stored, 100 * stored / logical);
}

int main(int argc, char **argv) {
  if (argc != 2) fail("usage", "weather FOLDER");
  char *path = sqlite3_mprintf("%s/weather.db", argv[1]), *plain = sqlite3_mprintf("%s/plain.db", argv[1]);
  /* In a URI, the characters ?, # and % of a path must be written as %XX. */
  char *uri = sqlite3_mprintf("file:%s?vfs=densite", path);
  load();
  sqlite3 *db = open_uri(uri);
  write_all(db);
  query(db);
  sqlite3 *other = open_uri(uri);
  two_connections(db, other);
  ingest(db, other);
  same("rows of densite_info with the kind densite", number(db, "SELECT count(*) FROM densite_info('main') WHERE name = 'kind' AND value = 'densite'", 0), 1);
  sqlite3_close(other);
  sqlite3_close(db); /* the last close checkpoints */
  files(path, plain);
  sqlite3_free(path), sqlite3_free(plain), sqlite3_free(uri);
  return 0;
}

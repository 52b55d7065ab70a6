/* Uses everything of densite.h on a SQLite that it did not choose: libsqlite3.so.0 of the machine. Says nothing when all is well. */
#define _DEFAULT_SOURCE /* usleep */
#include "densite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is used of SQLite: its own header need not be installed. */
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
int sqlite3_open_v2(const char *, sqlite3 **, int, const char *);
int sqlite3_close(sqlite3 *);
int sqlite3_auto_extension(void (*)(void));
int sqlite3_cancel_auto_extension(void (*)(void));
int sqlite3_exec(sqlite3 *, const char *, void *, void *, char **);
int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int sqlite3_step(sqlite3_stmt *);
int sqlite3_finalize(sqlite3_stmt *);
int sqlite3_bind_int64(sqlite3_stmt *, int, long long);
long long sqlite3_column_int64(sqlite3_stmt *, int);
const unsigned char *sqlite3_column_text(sqlite3_stmt *, int);
const char *sqlite3_errmsg(sqlite3 *);
int sqlite3_get_autocommit(sqlite3 *);

/* The Arrow C stream interface. */
struct ArrowSchema {
  const char *format, *name, *metadata; int64_t flags, n_children; struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema *); void *private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children; const void **buffers; struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *); void *private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *); int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
  const char *(*get_last_error)(struct ArrowArrayStream *); void (*release)(struct ArrowArrayStream *); void *private_data;
};

static int line;
#define CHECK(what) (line = __LINE__, check((what) != 0, #what))
static void check(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "line %d: %s; densite says: %s\n", line, what, densite_errmsg());
  exit(1);
}

static sqlite3 *db;

static void run(const char *sql) {
  char *error = NULL;
  int rc = sqlite3_exec(db, sql, NULL, NULL, &error);
  if (rc != 0) { fprintf(stderr, "%s: %s\n", sql, error); exit(1); }
}

static long long number(const char *sql, long long parameter) {
  sqlite3_stmt *stmt;
  CHECK(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == 0);
  sqlite3_bind_int64(stmt, 1, parameter);
  int rc = sqlite3_step(stmt);
  if (rc != 100) { fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db)); exit(1); }
  long long n = sqlite3_column_int64(stmt, 0);
  sqlite3_finalize(stmt);
  return n;
}

static int phases;
static int count(void *context, const char *phase, uint64_t done, uint64_t total, const char *message) {
  (void)done; (void)total; (void)message;
  phases += phase[0] != 0;
  return *(int *)context;
}

static int rows_seen;
static int see(void *context, uint64_t rows) { rows_seen = (int)rows; return *(int *)context; }

static void files(const char *plain, const char *small) {
  char *json = NULL;
  int go_on = 0, stop = 1;
  densite_options options;
  densite_options_init(&options);
  options.level = 5;
  options.threads = 0;
  CHECK(densite_compress(0, plain, small, &options, count, &go_on, &json) == DENSITE_OK);
  CHECK(strstr(json, "\"verb\":\"compress\"") && phases > 0);
  densite_free(json);
  CHECK(densite_compress(0, plain, small, NULL, NULL, NULL, &json) == DENSITE_ERROR);
  CHECK(strstr(json, "\"kind\":\"exists\"") && strcmp(densite_errkind(), "exists") == 0 && strstr(densite_errmsg(), small));
  densite_free(json);
  CHECK(densite_info(number("SELECT densite_host()", 0), small, &json) == DENSITE_OK);
  CHECK(strstr(json, "\"form\":\"compressed\""));
  densite_free(json);
  CHECK(densite_check(0, small, count, &go_on, &json) == DENSITE_OK);
  CHECK(strstr(json, "\"ok\":true"));
  densite_free(json);
  CHECK(densite_vacuum(0, small, NULL, count, &stop, NULL) == DENSITE_INTERRUPTED);
  CHECK(densite_vacuum(0, small, &options, count, &go_on, &json) == DENSITE_OK);
  CHECK(strstr(json, "\"verb\":\"vacuum\""));
  densite_free(json);
  CHECK(densite_decompress(0, small, NULL, NULL, NULL, NULL, NULL) == DENSITE_OK);
  /* What the header does not allow. */
  CHECK(densite_info(7, small, NULL) == DENSITE_MISUSE && strstr(densite_errmsg(), "SQLite number 7"));
  CHECK(densite_info(0, NULL, NULL) == DENSITE_MISUSE);
  CHECK(densite_info(0, "/nowhere/a.db", NULL) == DENSITE_ERROR && strcmp(densite_errkind(), "not_found") == 0);
  options.size = 1;
  CHECK(densite_compress(0, plain, NULL, &options, NULL, NULL, NULL) == DENSITE_MISUSE);
}

static void add(int64_t set, const char *name, int type, int64_t rows, const void *values, const int64_t *offsets, const uint8_t *validity, int64_t bytes) {
  densite_column column = { sizeof column, type, rows, values, 0, offsets, validity, bytes };
  CHECK(densite_columns_add(set, name, &column) == DENSITE_OK);
}

static void columns(void) {
  int64_t a[4] = { 3, 1, 2, 1 };
  double val[4] = { 0.5, 1.5, 2.5, 3.5 };
  const char text[] = "onetwofour";
  int64_t offsets[5] = { 0, 3, 6, 6, 10 };
  uint8_t there = 0xb; /* the third is NULL */
  uint8_t tags[4] = { 0, 1, 2, 3 };
  double two = 2.25;
  int64_t any[4] = { 0, 7, 0, 3 };
  memcpy(&any[2], &two, 8);
  int64_t set = densite_columns_new();
  CHECK(set > 0);
  add(set, "a", DENSITE_INT64, 4, a, NULL, NULL, 0);
  add(set, "val", DENSITE_FLOAT64, 4, val, NULL, NULL, 0);
  add(set, "word", DENSITE_TEXT, 4, text, offsets, &there, 10);
  add(set, "any", DENSITE_ANY, 4, "abc", any, tags, 3);
  densite_sort_key keys[2] = { { 0, 0 }, { 1, DENSITE_DESCENDING } };
  int was_sorted = 1;
  CHECK(densite_columns_sort(set, keys, 2, &was_sorted) == DENSITE_OK && !was_sorted);
  CHECK(densite_columns_sort(set, NULL, 2, NULL) == DENSITE_MISUSE && strstr(densite_errmsg(), "keys is NULL"));
  CHECK(densite_columns_sort(set, keys, -1, NULL) == DENSITE_MISUSE);
  densite_sort_key none = { 4, 0 };
  CHECK(densite_columns_sort(set, &none, 1, NULL) == DENSITE_MISUSE);
  CHECK(densite_columns_rows(set) == 4 && densite_columns_count(set) == 4);
  CHECK(densite_columns_types(set, 0) == DENSITE_HAS_INTEGER && densite_columns_types(set, 2) == DENSITE_HAS_TEXT);
  CHECK(densite_columns_types(set, 3) == (DENSITE_HAS_INTEGER | DENSITE_HAS_FLOAT | DENSITE_HAS_TEXT) && densite_columns_types(set, 4) == -1);
  CHECK(densite_columns_has_null(set, 0) == 0 && densite_columns_has_null(set, 1) == 0 && densite_columns_has_null(set, 2) == 1);
  CHECK(densite_columns_has_null(set, 3) == 1 && densite_columns_has_null(set, 4) == -1);
  char *said = NULL;
  CHECK(densite_columns_name(set, 2, &said) == DENSITE_OK && strcmp(said, "word") == 0);
  densite_free(said);
  int go_on = 0, stop = 1;
  CHECK(densite_columns_progress(set, see, &go_on) == DENSITE_OK);
  run("CREATE TABLE t(a INTEGER, val REAL, word TEXT, any)");
  sqlite3_stmt *stmt;
  CHECK(sqlite3_prepare_v2(db, "INSERT INTO t SELECT c0, c1, c2, c3 FROM densite_columns(?)", -1, &stmt, NULL) == 0);
  sqlite3_bind_int64(stmt, 1, set);
  CHECK(sqlite3_step(stmt) == 101);
  sqlite3_finalize(stmt);
  CHECK(rows_seen == 4);
  CHECK(sqlite3_prepare_v2(db, "SELECT group_concat(a||' '||val||' '||ifnull(word,'-')||' '||ifnull(any,'-'), ', ') FROM t", -1, &stmt, NULL) == 0);
  CHECK(sqlite3_step(stmt) == 100);
  const char *all = (const char *)sqlite3_column_text(stmt, 0);
  if (strcmp(all, "1 3.5 four abc, 1 1.5 two 7, 2 2.5 - 2.25, 3 0.5 one -") != 0) { fprintf(stderr, "%s\n", all); exit(1); }
  sqlite3_finalize(stmt);
  CHECK(densite_columns_last_row(set) == 0);
  CHECK(densite_columns_last_value(set, 2, &said) == DENSITE_OK && strcmp(said, "\"one\"") == 0);
  densite_free(said);
  /* As a table with the set's own names; a statement that reads keeps the set. */
  char sql[100];
  snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE temp.k USING densite_columns(%lld)", (long long)set);
  run(sql);
  CHECK(number("SELECT sum(a) FROM k WHERE word IS NOT NULL", 0) == 5);
  CHECK(sqlite3_prepare_v2(db, "SELECT a FROM k", -1, &stmt, NULL) == 0);
  CHECK(sqlite3_step(stmt) == 100);
  CHECK(densite_columns_release(set) == DENSITE_LOCKED);
  sqlite3_finalize(stmt);
  /* A callback stops a statement. */
  CHECK(densite_columns_progress(set, see, &stop) == DENSITE_OK);
  CHECK(sqlite3_exec(db, "SELECT sum(a) FROM k", NULL, NULL, NULL) == 4);
  /* The transaction around it goes on, and a savepoint undoes what it did. */
  run("BEGIN; INSERT INTO t(a) VALUES (5); SAVEPOINT s");
  snprintf(sql, sizeof sql, "INSERT INTO t(a) SELECT c0 FROM densite_columns(%lld)", (long long)set);
  CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == 4 && !sqlite3_get_autocommit(db));
  run("ROLLBACK TO s");
  CHECK(number("SELECT count(*) FROM t", 0) == 5);
  run("ROLLBACK");
  CHECK(densite_columns_release(set) == DENSITE_OK);
  CHECK(densite_columns_release(set) == DENSITE_MISUSE);
  CHECK(sqlite3_exec(db, "SELECT * FROM k", NULL, NULL, NULL) == 1);
  double nan[2] = { 1, 0 };
  nan[1] /= nan[1];
  set = densite_columns_new();
  add(set, "x", DENSITE_FLOAT64, 2, nan, NULL, NULL, 0);
  CHECK(densite_columns_has_null(set, 0) == 1 && densite_columns_release(set) == DENSITE_OK);
  /* Values that cannot be stored are named. */
  uint64_t large[2] = { 1, UINT64_MAX };
  densite_column column = { sizeof column, DENSITE_UINT64, 2, large, 0, NULL, NULL, 0 };
  set = densite_columns_new();
  CHECK(densite_columns_add(set, "u", &column) == DENSITE_ERROR && strcmp(densite_errkind(), "value") == 0);
  CHECK(strstr(densite_errmsg(), "column u, row 1: 18446744073709551615"));
  CHECK(densite_columns_release(set) == DENSITE_OK);
}

/* What the header does not allow is refused, and nothing is read through a pointer that is none. */
static void misuse(void) {
  int64_t one[1] = { 1 };
  int64_t set = densite_columns_new();
  densite_column column = { sizeof column, DENSITE_INT64, 1, one, 0, NULL, NULL, 0 };
  CHECK(densite_columns_add(set, NULL, &column) == DENSITE_MISUSE && strstr(densite_errmsg(), "name is NULL"));
  CHECK(densite_columns_add(set, "\xff", &column) == DENSITE_MISUSE && strstr(densite_errmsg(), "not UTF-8"));
  CHECK(densite_columns_add(set, "a", NULL) == DENSITE_MISUSE);
  CHECK(densite_columns_add(set + 1, "a", &column) == DENSITE_MISUSE);
  densite_column bad = column;
  bad.size = 8;
  CHECK(densite_columns_add(set, "a", &bad) == DENSITE_MISUSE);
  bad = column; bad.rows = -1;
  CHECK(densite_columns_add(set, "a", &bad) == DENSITE_MISUSE);
  bad = column; bad.values = NULL;
  CHECK(densite_columns_add(set, "a", &bad) == DENSITE_MISUSE);
  bad = column; bad.type = 99;
  CHECK(densite_columns_add(set, "a", &bad) == DENSITE_MISUSE);
  for (int type = DENSITE_TEXT; type <= DENSITE_ANY; type++) { /* neither offsets nor validity */
    bad = column; bad.type = type;
    CHECK(densite_columns_add(set, "a", &bad) == DENSITE_ERROR && strcmp(densite_errkind(), "value") == 0);
  }
  int64_t backwards[2] = { 3, 1 };
  bad = column; bad.type = DENSITE_TEXT; bad.values = "abc"; bad.offsets = backwards; bad.values_bytes = 3;
  CHECK(densite_columns_add(set, "a", &bad) == DENSITE_ERROR);
  CHECK(densite_columns_count(set) == 0 && densite_columns_rows(set) == 0);
  CHECK(densite_columns_read(set, 1) == -1 && densite_columns_read(-7, 1) == -1);
  CHECK(densite_columns_name(set, 0, NULL) == DENSITE_MISUSE && densite_columns_name(set, -1, NULL) == DENSITE_MISUSE);
  CHECK(densite_columns_last_value(set, -1, NULL) == DENSITE_OK && densite_columns_last_row(set) == 0);
  CHECK(densite_columns_sort(set, NULL, 0, NULL) == DENSITE_OK);
  CHECK(densite_columns_release(set) == DENSITE_OK && densite_columns_rows(set) == -1);
  CHECK(densite_columns_from_stream(NULL) == -1 && densite_columns_from_array(NULL, NULL) == -1);
  CHECK(densite_query_stream(0, NULL) == DENSITE_MISUSE && densite_query_release(-1) == DENSITE_MISUSE && densite_query_keep(-1, -1) == DENSITE_MISUSE);
  densite_free(NULL);
}

static void query(void) {
  int64_t q = densite_query_new();
  CHECK(number("SELECT densite_query(?, 'SELECT a, val, word, NULL AS none FROM t WHERE a < ?', 0, 3) IS NULL", q) == 1);
  struct ArrowArrayStream stream;
  CHECK(densite_query_stream(q, &stream) == DENSITE_OK);
  CHECK(densite_query_stream(q, &stream) == DENSITE_MISUSE);
  CHECK(densite_query_release(q) == DENSITE_OK);
  struct ArrowSchema schema;
  CHECK(stream.get_schema(&stream, &schema) == 0);
  CHECK(schema.n_children == 4 && strcmp(schema.children[0]->format, "l") == 0 && strcmp(schema.children[1]->format, "g") == 0);
  CHECK(strcmp(schema.children[2]->format, "u") == 0 && strcmp(schema.children[2]->name, "word") == 0 && strcmp(schema.children[3]->format, "n") == 0);
  schema.release(&schema);
  struct ArrowArray array;
  CHECK(stream.get_next(&stream, &array) == 0 && array.length == 3);
  CHECK(((const int64_t *)array.children[0]->buffers[1])[2] == 2 && array.children[2]->null_count == 1);
  array.release(&array);
  CHECK(stream.get_next(&stream, &array) == 0 && array.release == NULL);
  stream.release(&stream);
  CHECK(stream.release == NULL);
  /* A stream that has failed goes on to fail; an end would look as if that were all. */
  run("CREATE TABLE bad AS WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT i FROM n");
  q = densite_query_new();
  CHECK(number("SELECT densite_query(?, 'SELECT abs(iif(i = 90000, -9223372036854775807 - 1, i)) AS x FROM bad', 0) IS NULL", q) == 1);
  CHECK(densite_query_stream(q, &stream) == DENSITE_OK && densite_query_release(q) == DENSITE_OK);
  CHECK(stream.get_next(&stream, &array) == 0 && array.length == 65536);
  array.release(&array);
  for (int again = 0; again < 3; again++) {
    CHECK(stream.get_next(&stream, &array) != 0 && strcmp(stream.get_last_error(&stream), densite_errmsg()) == 0);
    CHECK(strstr(densite_errmsg(), "integer overflow") && densite_sqlite_errcode() == 1);
  }
  stream.release(&stream);
  run("DROP TABLE bad"); /* nothing reads it any more */
}

/* A producer that counts: everything that it handed out must be released once, whatever becomes of it. */
static int schemas, arrays, streams, children, batches_left, fails_at_end, n_columns;
static const char *format_told;
static const int64_t given[3] = { 7, 8, 9 };
static const void *numbers[2] = { NULL, given };
static const void *nothing[1] = { NULL };

static void release_child_schema(struct ArrowSchema *s) { children--; s->release = NULL; }
static void release_child_array(struct ArrowArray *a) { children--; a->release = NULL; }
static void release_schema(struct ArrowSchema *s) {
  for (int64_t i = 0; i < s->n_children; i++) if (s->children[i]->release) s->children[i]->release(s->children[i]);
  schemas--; free(s->private_data); s->release = NULL;
}
static void release_array(struct ArrowArray *a) {
  for (int64_t i = 0; i < a->n_children; i++) if (a->children[i]->release) a->children[i]->release(a->children[i]);
  arrays--; free(a->private_data); a->release = NULL;
}
struct schema_memory { struct ArrowSchema *list[1], child; };
struct array_memory { struct ArrowArray *list[1], child; };

static void make_schema(struct ArrowSchema *s) {
  struct schema_memory *m = calloc(1, sizeof *m);
  m->list[0] = &m->child;
  m->child.format = format_told; m->child.name = "a"; m->child.release = release_child_schema;
  memset(s, 0, sizeof *s);
  s->format = "+s"; s->n_children = 1; s->children = m->list; s->release = release_schema; s->private_data = m;
  schemas++; children++;
}
static void make_array(struct ArrowArray *a) {
  struct array_memory *m = calloc(1, sizeof *m);
  m->list[0] = &m->child;
  m->child.length = 3; m->child.n_buffers = 2; m->child.buffers = numbers; m->child.release = release_child_array;
  memset(a, 0, sizeof *a);
  a->length = 3; a->n_buffers = 1; a->buffers = nothing; a->n_children = n_columns; a->children = m->list; a->release = release_array; a->private_data = m;
  if (n_columns == 0) m->child.release = NULL; else children++;
  arrays++;
}
static int stream_schema(struct ArrowArrayStream *s, struct ArrowSchema *out) {
  (void)s;
  if (!format_told) return 22;
  make_schema(out);
  return 0;
}
static int stream_next(struct ArrowArrayStream *s, struct ArrowArray *out) {
  (void)s;
  if (batches_left-- > 0) { make_array(out); return 0; }
  memset(out, 0, sizeof *out);
  return fails_at_end ? 5 : 0;
}
static const char *stream_error(struct ArrowArrayStream *s) { (void)s; return "the producer is out of paper"; }
static void release_stream(struct ArrowArrayStream *s) { streams--; s->release = NULL; }

static int64_t taken(const char *format, int batches, int fails) {
  struct ArrowArrayStream stream = { stream_schema, stream_next, stream_error, release_stream, NULL };
  format_told = format; batches_left = batches; fails_at_end = fails; n_columns = 1;
  streams++;
  int64_t set = densite_columns_from_stream(&stream);
  CHECK(stream.release == NULL); /* taken over, also by a failure */
  CHECK(densite_columns_from_stream(&stream) == -1 && strcmp(densite_errkind(), "misuse") == 0);
  return set;
}

static void producers(void) {
#define ALL_RELEASED CHECK(schemas == 0 && arrays == 0 && streams == 0 && children == 0)
  int64_t set = taken("l", 3, 0);
  CHECK(set > 0 && densite_columns_read(set, 4) == 6 && arrays == 2);
  CHECK(number("SELECT sum(c0) FROM densite_columns(?)", set) == 48);
  CHECK(densite_columns_read(set, 4) == 3 && arrays == 1 && densite_columns_read(set, 4) == 0 && arrays == 0);
  CHECK(densite_columns_release(set) == DENSITE_OK);
  ALL_RELEASED;
  /* Given up in the middle. */
  set = taken("l", 3, 0);
  CHECK(densite_columns_read(set, 1) == 3 && densite_columns_release(set) == DENSITE_OK);
  ALL_RELEASED;
  /* It fails in the middle: what was read goes, and there is no more. */
  set = taken("l", 1, 1);
  CHECK(densite_columns_read(set, 100) == -1 && strcmp(densite_errmsg(), "the producer is out of paper") == 0);
  CHECK(streams == 0 && densite_columns_read(set, 100) == -1 && densite_columns_rows(set) == 0);
  CHECK(densite_columns_release(set) == DENSITE_OK);
  ALL_RELEASED;
  /* Batches that are not of the schema. */
  set = taken("u", 1, 0);
  CHECK(densite_columns_read(set, 1) == -1 && strstr(densite_errmsg(), "does not fit its schema"));
  CHECK(densite_columns_release(set) == DENSITE_OK);
  ALL_RELEASED;
  set = taken("l", 1, 0);
  n_columns = 0;
  CHECK(densite_columns_read(set, 1) == -1 && strstr(densite_errmsg(), "does not fit its schema"));
  CHECK(densite_columns_release(set) == DENSITE_OK);
  ALL_RELEASED;
  /* No schema, and one of what cannot be stored. */
  CHECK(taken(NULL, 1, 0) == -1);
  ALL_RELEASED;
  CHECK(taken("+l", 1, 0) == -1);
  ALL_RELEASED;
  /* One batch by itself: both are taken over, also where one of them is none. */
  struct ArrowSchema schema;
  struct ArrowArray array;
  format_told = "l"; n_columns = 1;
  make_schema(&schema); make_array(&array);
  set = densite_columns_from_array(&schema, &array);
  CHECK(set > 0 && schema.release == NULL && array.release == NULL && schemas == 0 && arrays == 1);
  CHECK(densite_columns_from_array(&schema, &array) == -1);
  /* A query that owns it releases it with its last row. */
  int64_t q = densite_query_new();
  char sql[200];
  snprintf(sql, sizeof sql, "SELECT densite_query(?, 'SELECT c0 FROM densite_columns(%lld)', 0) IS NULL", (long long)set);
  CHECK(number(sql, q) == 1 && densite_query_keep(q, set) == DENSITE_OK);
  struct ArrowArrayStream stream;
  CHECK(densite_query_stream(q, &stream) == DENSITE_OK && densite_query_release(q) == DENSITE_OK);
  /* A consumer may move a child out, and keep it for longer. */
  CHECK(stream.get_next(&stream, &array) == 0);
  struct ArrowArray child = *array.children[0];
  array.children[0]->release = NULL;
  array.release(&array);
  stream.release(&stream);
  CHECK(array.release == NULL && ((const int64_t *)child.buffers[1])[2] == 9);
  child.release(&child);
  for (int i = 0; i < 1000 && arrays; i++) usleep(1000); /* the statement is freed on a thread of its own */
  ALL_RELEASED;
  CHECK(densite_columns_release(set) == DENSITE_MISUSE);
  make_schema(&schema); make_array(&array);
  array.release(&array);
  CHECK(densite_columns_from_array(&schema, &array) == -1);
  ALL_RELEASED;
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  /* Either entry point: the files come out the same where Densite is the default VFS. */
  void (*entry)(void) = (void (*)(void))(strcmp(argv[3], "default") == 0 ? sqlite3_densite_default_init : sqlite3_densite_init);
  CHECK(densite_info(0, argv[1], NULL) == DENSITE_MISUSE); /* nothing has loaded it yet */
  sqlite3 *first;
  sqlite3_auto_extension(entry);
  CHECK(sqlite3_open_v2(":memory:", &first, 6, NULL) == 0);
  sqlite3_cancel_auto_extension(entry);
  CHECK(sqlite3_open_v2(argv[1], &db, 6, "unix") == 0);
  CHECK(strcmp(densite_version(), DENSITE_VERSION) == 0);
  CHECK(densite_version_number() == DENSITE_VERSION_NUMBER);
  run("CREATE TABLE big(a, b); WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO big SELECT i, 'row ' || i FROM n;");
  CHECK(sqlite3_close(db) == 0);
  db = first;
  files(argv[1], argv[2]);
  columns();
  misuse();
  query();
  producers();
  CHECK(sqlite3_close(db) == 0);
  return 0;
}

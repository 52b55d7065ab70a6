/*
** densite.h: the C API of Densite, in the same shared library as the extension (libdensite.so).
**
** What SQL cannot say is here: converting, vacuuming and checking files, and columns in and out. Everything works on the SQLite that loaded the
** library, so load it into one connection of that SQLite first, by sqlite3_load_extension(), or, without leave to load extensions, by
**
**     sqlite3_auto_extension((void (*)(void))sqlite3_densite_init);     (and link with -ldensite)
**     sqlite3_open(":memory:", &db);
**     sqlite3_cancel_auto_extension((void (*)(void))sqlite3_densite_init);
**
** The library stays loaded and serves all later connections. Functions may be called from any thread. They answer DENSITE_OK, or a code, and then
** densite_errmsg() tells in one sentence what went wrong and what to do. Text is UTF-8. What a function gives through a char** is freed by
** densite_free(). A later version of this header only adds to it.
*/
#ifndef DENSITE_H
#define DENSITE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;
struct sqlite3_api_routines;

/* The extension's entry points. The second also makes the VFS `densite` the default one of that SQLite: every file that is opened from then on without
** naming a VFS goes through it, so that a new or empty one becomes a Densite file. It is for drivers that open files by path alone, without URIs. */
int sqlite3_densite_init(struct sqlite3 *db, char **error, const struct sqlite3_api_routines *api);
int sqlite3_densite_default_init(struct sqlite3 *db, char **error, const struct sqlite3_api_routines *api);

/* ---- codes ---- */

#define DENSITE_OK             0
#define DENSITE_ERROR          1
#define DENSITE_MISUSE         2   /* a call that this header does not allow */
#define DENSITE_LOCKED         3   /* another connection holds a lock, or a statement reads the columns: try again later */
#define DENSITE_NO_SPACE       4
#define DENSITE_DAMAGED        5   /* damaged, or no database */
#define DENSITE_INTERRUPTED    6   /* a callback asked to stop; what had been begun was undone */

/* The version of this header, as text and as a number: 1,000,000 times the first part, 1,000 times the second, and the third. */
#define DENSITE_VERSION         "0.1.0"
#define DENSITE_VERSION_NUMBER  1000

/* The version of the library that was loaded. A header works with a library of its own version or a later one. */
const char *densite_version(void);
int densite_version_number(void);

/* The newest failure of this thread, until its next one: a sentence, the name of its kind (docs/CLI.md; besides "value": a value that cannot be
** stored, "type": a column that cannot, "source": the producer of an Arrow stream failed, "misuse", "busy", "internal"), and SQLite's result
** code, 0 where there is none. */
const char *densite_errmsg(void);
const char *densite_errkind(void);
int densite_sqlite_errcode(void);

/* Frees text that a function here gave. NULL is fine. */
void densite_free(char *text);

/* ---- files ---- */

/* `host` tells which SQLite does the work, where a process has several copies: the number that `SELECT densite_host()` answers on one of its
** connections; 0 is the first that loaded the library.
**
** Each of these gives one JSON object through `json` (or NULL): the one that the command writes with --json (docs/CLI.md), for a failure
** {"error": {"kind": ..., "message": ...}} with what docs/CLI.md lists beside them. */

typedef struct densite_options {
  uint32_t size;        /* sizeof(densite_options), set by densite_options_init() */
  int32_t level;        /* zstd level for new pages, -7 to 22 */
  int32_t threads;      /* background threads; 0: none; -1: 1 less than the cores, at least 1 */
  uint32_t page_size;   /* compress: pages of so many bytes; 0: as they are */
  int32_t archive;      /* compress: smallest size rather than fast reads */
  int64_t wait_ms;      /* how long another connection's lock is waited for; -1: 1 s, for vacuum 5 s */
} densite_options;

/* The defaults. */
void densite_options_init(densite_options *options);

/* Told where the work is: `done` of `total` (bytes, or 0 where that is not known) of a phase are done; or, with `message`, something worth
** telling a user. Another answer than 0 stops the work. Called on the thread that called the function, at least once for each MiB. */
typedef int (*densite_progress)(void *context, const char *phase, uint64_t done, uint64_t total, const char *message);

/* A plain database becomes a Densite file, and back: at `dst`, which must not exist, or with NULL in its place. `options` and `progress` may be
** NULL. Whatever fails, `src` holds what it held. */
int densite_compress(int64_t host, const char *src, const char *dst, const densite_options *options, densite_progress progress, void *context, char **json);
int densite_decompress(int64_t host, const char *src, const char *dst, const densite_options *options, densite_progress progress, void *context, char **json);

/* Rewrites a database in its place, without what it does not need. It does not ask first. */
int densite_vacuum(int64_t host, const char *db, const densite_options *options, densite_progress progress, void *context, char **json);

/* Verifies everything. Damage is no failure: then "ok" is false in the object. */
int densite_check(int64_t host, const char *db, densite_progress progress, void *context, char **json);

/* The figures of a database. */
int densite_info(int64_t host, const char *db, char **json);

/* ---- columns in ---- */

/* A set of columns, registered, is a table in SQL for the connections of the process:
**
**     INSERT INTO t(a, b) SELECT c0, c1 FROM densite_columns(?)                  columns c0 to c998; those that the set has not are NULL
**     CREATE VIRTUAL TABLE temp.x USING densite_columns(HANDLE)                  with the set's own names
**
** A handle is a positive number; a function that makes one answers -1 for a failure. */

/* The structures of the Arrow C data interface, as its specification defines them. */
struct ArrowSchema;
struct ArrowArray;
struct ArrowArrayStream;

/* Types of plain columns, and what `values` is. */
#define DENSITE_INT8          1
#define DENSITE_INT16         2
#define DENSITE_INT32         3
#define DENSITE_INT64         4
#define DENSITE_UINT8         5
#define DENSITE_UINT16        6
#define DENSITE_UINT32        7
#define DENSITE_UINT64        8   /* a value beyond INT64_MAX is refused */
#define DENSITE_FLOAT16       9
#define DENSITE_FLOAT32      10
#define DENSITE_FLOAT64      11   /* NaN is stored as NULL, as SQLite does */
#define DENSITE_BOOL         12   /* a byte each, 0 or not; stored as 0 and 1 */
#define DENSITE_TEXT         13   /* UTF-8, one after another; offsets[i] to offsets[i+1] is the text of row i */
#define DENSITE_BLOB         14   /* the same, bytes */
#define DENSITE_ANY          15   /* any type in each row: validity[i] is 0 NULL, 1 integer, 2 float, 3 text, 4 blob (a byte each); offsets[i] is the
                                  ** integer, the bits of the double, or where the text or blob ends in values; it begins where the one before ended */
#define DENSITE_DATE         16   /* int64 days since 1970-01-01; stored as text, 2024-02-29. INT64_MIN is NULL */
#define DENSITE_TIMESTAMP_S  17   /* int64 seconds since then; stored as text, 2024-02-29 12:30:00. INT64_MIN is NULL */
#define DENSITE_TIMESTAMP_MS 18
#define DENSITE_TIMESTAMP_US 19
#define DENSITE_TIMESTAMP_NS 20
#define DENSITE_COPY        256   /* added to a type: the buffers are copied, and need not be kept */

typedef struct densite_column {
  uint32_t size;            /* sizeof(densite_column) */
  int32_t type;
  int64_t rows;             /* fewer than 2^32 */
  const void *values;
  int64_t stride;           /* bytes from one value to the next, 0: one behind the other; with a stride the values are copied. Numbers only */
  const int64_t *offsets;   /* TEXT, BLOB: rows + 1 of them; ANY: rows */
  const uint8_t *validity;  /* a bit each, lowest first, 0 is NULL; or NULL for none. ANY: a byte each */
  int64_t values_bytes;     /* TEXT, BLOB, ANY: the length of values */
} densite_column;

/* An empty set, and a column for it. Without DENSITE_COPY the buffers
** are not copied: they stay as they are until the set is released. All columns have as many rows. */
int64_t densite_columns_new(void);
int densite_columns_add(int64_t handle, const char *name, const densite_column *column);

/* A set of one record batch. Schema and array are taken over (also by a failure). */
int64_t densite_columns_from_array(struct ArrowSchema *schema, struct ArrowArray *array);

/* A set that reads batches from a stream, which is taken over (also by a failure); it begins without rows. densite_columns_read() drops the rows
** and reads whole batches until there are rows_max or more. Answers how many, 0 at the end of the stream, -1 for a failure. */
int64_t densite_columns_from_stream(struct ArrowArrayStream *stream);
int64_t densite_columns_read(int64_t handle, int64_t rows_max);

#define DENSITE_DESCENDING 1
#define DENSITE_NOCASE     2
typedef struct densite_sort_key {
  int32_t column;
  int32_t flags;
} densite_sort_key;

/* Sorts the rows by `n` keys; equal rows keep their order. Nothing is done for rows that are sorted. `was_sorted` (or NULL) learns whether they were. */
int densite_columns_sort(int64_t handle, const densite_sort_key *keys, int32_t n, int *was_sorted);

int64_t densite_columns_rows(int64_t handle);
int64_t densite_columns_count(int64_t handle);
int densite_columns_name(int64_t handle, int32_t column, char **name);

/* Which types a column's values have, NULL aside, added up; -1 for a failure. None that one of its rows has is missing. */
#define DENSITE_HAS_INTEGER 1
#define DENSITE_HAS_FLOAT   2
#define DENSITE_HAS_TEXT    4
#define DENSITE_HAS_BLOB    8
int64_t densite_columns_types(int64_t handle, int32_t column);

/* 1 if a value of the column is NULL (or NaN, which is stored as NULL), 0 if none is; -1 for a failure. NULL for an INTEGER PRIMARY KEY becomes the next
** number, which depends on the rows before it: rows with such keys mean something else once they are sorted. */
int64_t densite_columns_has_null(int64_t handle, int32_t column);

/* Which row a statement read last, counted from 0 as they were handed in, and its value in words: for messages about a statement that failed. */
int64_t densite_columns_last_row(int64_t handle);
int densite_columns_last_value(int64_t handle, int32_t column, char **value);

/* Called every 65,536 rows that a statement reads, on its thread; another answer than 0 ends the statement with SQLITE_ABORT. A transaction
** that is open goes on, and may have rows that the statement inserted before: a savepoint undoes them. */
typedef int (*densite_rows)(void *context, uint64_t rows);
int densite_columns_progress(int64_t handle, densite_rows progress, void *context);

/* Drops a set. DENSITE_LOCKED while a statement reads it: finish or reset that first; until then the buffers must stay. */
int densite_columns_release(int64_t handle);

/* ---- columns out ---- */

/* The rows of a statement as an Arrow stream, 65,536 rows at a time:
**
**     int64_t q = densite_query_new();
**     run `SELECT densite_query(q, 'SELECT ...', 0, parameter, ...)` on the connection     (with 1: names and values in turn)
**     densite_query_stream(q, &stream);
**     densite_query_release(q);
**
** densite_query_keep() hands it a set of columns that the statement reads, to be released at its end; such columns are added with DENSITE_COPY, for
** a stream may outlive what the caller keeps.
**
** A column's type is that of its first batch: int64, float64, utf8 or binary. The stream holds the connection's read transaction until its end,
** and may be read on any thread. */
int64_t densite_query_new(void);
int densite_query_keep(int64_t handle, int64_t columns);
int densite_query_stream(int64_t handle, struct ArrowArrayStream *stream);
int densite_query_release(int64_t handle);

#ifdef __cplusplus
}
#endif
#endif

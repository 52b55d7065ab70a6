/*
** densite.h: the C API of Densite, in the same shared library as the extension (libdensite.so).
**
** It has what SQL cannot do: converting, vacuuming and checking files, and columns in and out.
** Everything works on the SQLite that loaded the library. So load it into one connection of that
** SQLite first, with sqlite3_load_extension(). If loading extensions is not allowed, use
**
**     sqlite3_auto_extension((void (*)(void))sqlite3_densite_init);     (and link with -ldensite)
**     sqlite3_open(":memory:", &db);
**     sqlite3_cancel_auto_extension((void (*)(void))sqlite3_densite_init);
**
** The library stays loaded and serves all later connections. Any thread can call the functions.
** They return DENSITE_OK or an error code. After an error, densite_errmsg() returns one sentence
** that says what went wrong and what to do. Text is UTF-8. Text that a function stores through a
** char** is freed with densite_free(). A later version of this header only adds to it.
*/
#ifndef DENSITE_H
#define DENSITE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;
struct sqlite3_api_routines;

/* The extension's entry points. The second one also makes the VFS `densite` the default one of
** that SQLite. From then on, every file that is opened without naming a VFS goes through it, so a
** new or empty file becomes a Densite file. It is for drivers that open files by path alone,
** without URIs. */
int sqlite3_densite_init(struct sqlite3 *db, char **error, const struct sqlite3_api_routines *api);
int sqlite3_densite_default_init(struct sqlite3 *db, char **error, const struct sqlite3_api_routines *api);

/* ---- codes ---- */

/* Results of the functions below. They are not the exit codes of the command (docs/CLI.md), where 2
** and 6 have other meanings. */

#define DENSITE_OK             0
#define DENSITE_ERROR          1
#define DENSITE_MISUSE         2   /* a call that this header does not allow */
#define DENSITE_LOCKED         3   /* another connection holds a lock, or a statement is
                                  ** reading the columns: try again later */
#define DENSITE_NO_SPACE       4
#define DENSITE_DAMAGED        5   /* damaged, or not a database */
#define DENSITE_INTERRUPTED    6   /* a callback stopped the work, which was undone */

/* The version of this header, as text and as a number: 1,000,000 times the first part, 1,000 times
** the second, plus the third. */
#define DENSITE_VERSION         "0.1.0"
#define DENSITE_VERSION_NUMBER  1000

/* The version of the loaded library. A header works with a library of its own version or a later
** one. */
const char *densite_version(void);
int densite_version_number(void);

/* The newest failure of this thread, until its next one: a message, the name of its kind, and
** SQLite's result code (0 if there is none). docs/CLI.md lists the kinds. Besides them there are
** "value" (a value that cannot be stored), "type" (a column that cannot be stored), "source" (the
** producer of an Arrow stream failed), "misuse" and "busy". */
const char *densite_errmsg(void);
const char *densite_errkind(void);
int densite_sqlite_errcode(void);

/* Frees text that a function of this header returned. NULL is allowed. */
void densite_free(char *text);

/* ---- files ---- */

/* `host` selects the SQLite that does the work, if a process has several copies. It is the number
** that `SELECT densite_host()` returns on one of its connections; 0 is the first one that loaded
** the library.
**
** Each of these functions stores one JSON object in `json`, unless it is NULL. It is the object
** that the command writes with --json (docs/CLI.md). For a failure it is
** {"error": {"kind": ..., "message": ...}}, with further members that docs/CLI.md lists. A file
** that has the form already is a failure of the kind "already_compressed" or "already_plain". */

typedef struct densite_options {
  uint32_t size;        /* sizeof(densite_options), set by densite_options_init() */
  int32_t level;        /* zstd level for new pages, -7 to 22 */
  int32_t threads;      /* background threads; 0: none; -1: one less than the cores, at least 1 */
  uint32_t page_size;   /* compress: the page size in bytes; 0: unchanged */
  int32_t archive;      /* compress: not 0: smallest size instead of fast reads */
  int32_t known_program; /* compress in place: not 0: also the database of a program that could not open it any more */
  int64_t wait_ms;      /* wait for another connection's lock; -1: 5 s */
} densite_options;

/* The defaults. */
void densite_options_init(densite_options *options);

/* Reports progress: `done` of `total` units of a phase are done (bytes, or 0 if unknown). With
** `message`, it reports something worth showing to a user. A nonzero result stops the work. It is
** called on the thread that called the function, at least once per MiB. */
typedef int (*densite_progress)(void *context, const char *phase, uint64_t done, uint64_t total, const char *message);

/* Converts a plain database to a Densite file, and back. The result is written to `dst`, which must
** not exist; if `dst` is NULL, it replaces `src`. `options` and `progress` can be NULL. After a
** failure, `src` has its old contents. */
int densite_compress(int64_t host, const char *src, const char *dst, const densite_options *options, densite_progress progress, void *context, char **json);
int densite_decompress(int64_t host, const char *src, const char *dst, const densite_options *options, densite_progress progress, void *context, char **json);

/* Writes a copy of a database, compressed or plain, to `dst`, a file or "s3://BUCKET/KEY". It needs
** few requests when it is read from a web server or object storage. A database at `dst` is replaced
** atomically. `page_size` and `archive` are refused. After a failure, `dst` is unchanged. */
int densite_publish(int64_t host, const char *src, const char *dst, const densite_options *options, densite_progress progress, void *context, char **json);

/* Rewrites a database in place, without its unused space. It does not ask first. */
int densite_vacuum(int64_t host, const char *db, const densite_options *options, densite_progress progress, void *context, char **json);

/* Verifies everything. Damage is not a failure: then "ok" is false in the object. */
int densite_check(int64_t host, const char *db, densite_progress progress, void *context, char **json);

/* The figures of a database. */
int densite_info(int64_t host, const char *db, char **json);

/* ---- columns in ---- */

/* A registered set of columns is a table in SQL for the connections of the process:
**
**     INSERT INTO t(a, b) SELECT c0, c1 FROM densite_columns(?)
**         columns c0 to c998; columns that the set does not have are NULL
**     CREATE VIRTUAL TABLE temp.x USING densite_columns(HANDLE)
**         with the set's own column names
**
** A handle is a positive number. A function that makes one returns -1 for a failure. */

/* The structures of the Arrow C data interface, as its specification defines them. */
struct ArrowSchema;
struct ArrowArray;
struct ArrowArrayStream;

/* Types of plain columns, and the contents of `values`. */
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
#define DENSITE_BOOL         12   /* one byte each, zero or nonzero; stored as 0 and 1 */
#define DENSITE_TEXT         13   /* UTF-8, concatenated; row i is offsets[i] to offsets[i+1] */
#define DENSITE_BLOB         14   /* the same for bytes */
#define DENSITE_ANY          15   /* any type in each row: validity[i] (one byte each) is 0 NULL,
                                  ** 1 integer, 2 float, 3 text, 4 blob; offsets[i] is the integer,
                                  ** the bits of the double, or the end of the text or blob in
                                  ** values, which begins at the end of the one before */
#define DENSITE_DATE         16   /* int64 days since 1970-01-01; stored as text, 2024-02-29.
                                  ** INT64_MIN is NULL */
#define DENSITE_TIMESTAMP_S  17   /* int64 seconds since 1970-01-01; stored as text,
                                  ** 2024-02-29 12:30:00. INT64_MIN is NULL */
#define DENSITE_TIMESTAMP_MS 18
#define DENSITE_TIMESTAMP_US 19
#define DENSITE_TIMESTAMP_NS 20
#define DENSITE_COPY        256   /* added to a type: the buffers are copied and need not be kept */

typedef struct densite_column {
  uint32_t size;            /* sizeof(densite_column) */
  int32_t type;
  int64_t rows;             /* fewer than 2^32 */
  const void *values;
  int64_t stride;           /* bytes from one value to the next; 0: contiguous. With a
                            ** stride the values are copied. Numbers only */
  const int64_t *offsets;   /* TEXT, BLOB: rows + 1 offsets; ANY: rows */
  const uint8_t *validity;  /* one bit each, lowest first; 0 means NULL. The pointer can be
                            ** NULL if there are no NULLs. ANY: one byte each */
  int64_t values_bytes;     /* TEXT, BLOB, ANY: the length of values */
} densite_column;

/* Makes an empty set, and adds a column to a set. Without DENSITE_COPY the buffers are not copied:
** they must not change until the set is released. All columns have the same number of rows. */
int64_t densite_columns_new(void);
int densite_columns_add(int64_t handle, const char *name, const densite_column *column);

/* A set of one record batch. It takes over schema and array, also on failure. */
int64_t densite_columns_from_array(struct ArrowSchema *schema, struct ArrowArray *array);

/* A set that reads batches from a stream. It takes over the stream, also on failure, and begins
** without rows. densite_columns_read() drops the rows and reads whole batches until there are
** rows_max rows or more. It returns the number of rows, 0 at the end of the stream, -1 for a
** failure. */
int64_t densite_columns_from_stream(struct ArrowArrayStream *stream);
int64_t densite_columns_read(int64_t handle, int64_t rows_max);

#define DENSITE_DESCENDING 1
#define DENSITE_NOCASE     2
typedef struct densite_sort_key {
  int32_t column;
  int32_t flags;
} densite_sort_key;

/* Sorts the rows by `n` keys; equal rows keep their order. Rows that are already sorted are not
** changed. Stores in `was_sorted`, unless it is NULL, whether they were sorted. */
int densite_columns_sort(int64_t handle, const densite_sort_key *keys, int32_t n, int *was_sorted);

int64_t densite_columns_rows(int64_t handle);
int64_t densite_columns_count(int64_t handle);
int densite_columns_name(int64_t handle, int32_t column, char **name);

/* The types of a column's values, without NULL, added up; -1 for a failure. It may report extra
** types, never too few. */
#define DENSITE_HAS_INTEGER 1
#define DENSITE_HAS_FLOAT   2
#define DENSITE_HAS_TEXT    4
#define DENSITE_HAS_BLOB    8
int64_t densite_columns_types(int64_t handle, int32_t column);

/* 1 if a value of the column is NULL (or NaN, which is stored as NULL), otherwise 0; -1 for a
** failure. Ask before you sort: a NULL for an INTEGER PRIMARY KEY becomes the next number, which
** depends on the rows before it. So sorting rows with such keys changes the keys that they get. */
int64_t densite_columns_has_null(int64_t handle, int32_t column);

/* The number of the row that a statement read last, in the order in which the rows were added,
** counted from 0, and a value of that row as text. For messages about a failed statement. */
int64_t densite_columns_last_row(int64_t handle);
int densite_columns_last_value(int64_t handle, int32_t column, char **value);

/* Called after every 65,536 rows that a statement reads, on its thread. A nonzero result ends the
** statement with SQLITE_ABORT. An open transaction stays open, and can have rows that the statement
** inserted before: a savepoint undoes them. */
typedef int (*densite_rows)(void *context, uint64_t rows);
int densite_columns_progress(int64_t handle, densite_rows progress, void *context);

/* Releases a set. DENSITE_LOCKED while a statement reads it: finish or reset the statement first.
** Until then the buffers must stay. */
int densite_columns_release(int64_t handle);

/* ---- columns out ---- */

/* The rows of a statement as an Arrow stream, 65,536 rows at a time:
**
**     int64_t q = densite_query_new();
**     run `SELECT densite_query(q, 'SELECT ...', 0, parameter, ...)` on the connection
**         (with 1 instead of 0: alternating names and values)
**     densite_query_stream(q, &stream);
**     densite_query_release(q);
**
** densite_query_keep() gives the query a set of columns that the statement reads; the query
** releases the set at its end. Add such columns with DENSITE_COPY, because a stream can outlive the
** caller's buffers.
**
** A column has the type of its first batch: int64, float64, utf8 or binary. The stream holds the
** connection's read transaction until its end. Any thread can read it. */
int64_t densite_query_new(void);
int densite_query_keep(int64_t handle, int64_t columns);
int densite_query_stream(int64_t handle, struct ArrowArrayStream *stream);
int densite_query_release(int64_t handle);

#ifdef __cplusplus
}
#endif
#endif

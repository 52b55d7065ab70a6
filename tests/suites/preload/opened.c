/* An extension of SQLite that sees each connection when it is opened. If the main database is in a
 * file, it sets the journal mode of SUITES_MODE, and appends a line to the file SUITES_OPENED: the
 * VFS, `densite` or `plain` by the form of the file, the journal mode, the path.
 *
 * PRAGMA densite_level has a row only on a file that is stored by Densite; it takes no lock. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1

static int first_value(void *to, int columns, char **values, char **names) {
  (void)names;
  if (columns > 0 && values[0]) snprintf(to, 16, "%s", values[0]);
  return 0;
}

static int opened(sqlite3 *db) {
  const char *mode = getenv("SUITES_MODE"), *log = getenv("SUITES_OPENED");
  const char *path = sqlite3_db_filename(db, "main");
  char form[16] = "", journal[16] = "", pragma[64], line[4352], *vfs = NULL;
  int file, length;
  if (!mode || !log || !path || !*path) return SQLITE_OK;
  if (strcmp(mode, "delete") != 0) {
    snprintf(pragma, sizeof pragma, "PRAGMA main.journal_mode=%s", mode);
    sqlite3_exec(db, pragma, first_value, journal, NULL);
  }
  sqlite3_exec(db, "PRAGMA main.densite_level", first_value, form, NULL);
  sqlite3_file_control(db, "main", SQLITE_FCNTL_VFSNAME, &vfs);
  length = snprintf(line, sizeof line, "%s\t%s\t%s\t%s\n", vfs ? vfs : "", *form ? "densite" : "plain", *journal ? journal : "-", path);
  sqlite3_free(vfs);
  file = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file >= 0) {
    if (write(file, line, length) < 0) perror(log);
    close(file);
  }
  /* An error that is left in the connection would make sqlite3_open fail. */
  sqlite3_exec(db, "", NULL, NULL, NULL);
  return SQLITE_OK;
}

int sqlite3_opened_init(sqlite3 *db, char **error, const sqlite3_api_routines *api) {
  (void)error;
  SQLITE_EXTENSION_INIT2(api);
  return opened(db);
}

/* For a driver that loads extensions: this connection has it loaded for all later ones. */
int sqlite3_opened_every_init(sqlite3 *db, char **error, const sqlite3_api_routines *api) {
  (void)db; (void)error;
  SQLITE_EXTENSION_INIT2(api);
  return sqlite3_auto_extension((void (*)(void))sqlite3_opened_init) == SQLITE_OK ? SQLITE_OK_LOAD_PERMANENTLY : SQLITE_ERROR;
}

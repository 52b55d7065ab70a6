/* host EXTENSION URI SQL: a program with a SQLite of its own loads the extension, opens a database
 * and prints the rows of the statements. For musl.sh, which has no other such program. */
#include <stdio.h>

#include "sqlite3.h"

static int print_row(void *unused, int columns, char **values, char **names) {
  (void)unused, (void)names;
  for (int i = 0; i < columns; i++) printf("%s%s", i ? "|" : "", values[i] ? values[i] : "NULL");
  puts("");
  return 0;
}

int main(int count, char **arguments) {
  sqlite3 *db;
  if (count != 4) return 2;
  sqlite3_open(":memory:", &db);
  sqlite3_enable_load_extension(db, 1);
  int code = sqlite3_load_extension(db, arguments[1], "sqlite3_densite_init", 0);
  sqlite3_close(db);
  if (code == SQLITE_OK) code = sqlite3_open_v2(arguments[2], &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, 0);
  if (code == SQLITE_OK) code = sqlite3_exec(db, arguments[3], print_row, 0, 0);
  if (code != SQLITE_OK) fprintf(stderr, "%s: %s\n", arguments[1], sqlite3_errstr(code));
  return code == SQLITE_OK ? sqlite3_close(db) : 1;
}

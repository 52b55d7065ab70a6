"""What users run on a database, in SQL. The Densite database is `main`, or `a` in a database that
SQLite can read. {db} is its path, {tmp} a new folder."""

#: By the name of the verb: statements, run one after the other until one fails.
ON_MAIN = {
    "SELECT": ["SELECT count(*) FROM t"],
    "list the tables": ["SELECT name FROM sqlite_master"],
    "integrity_check": ["PRAGMA integrity_check"],
    "quick_check": ["PRAGMA quick_check"],
    "journal_mode": ["PRAGMA journal_mode", "PRAGMA schema_version"],
    "journal_mode=delete": ["PRAGMA journal_mode=delete", "PRAGMA user_version=1"],
    "journal_mode=wal": ["PRAGMA journal_mode=wal", "PRAGMA user_version=1"],
    "journal_mode=off": ["PRAGMA journal_mode=off", "PRAGMA user_version=1"],
    "wal_checkpoint": ["PRAGMA wal_checkpoint(TRUNCATE)", "SELECT count(*) FROM t"],
    "user_version": ["PRAGMA user_version=7"],
    "exclusive": ["PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE", "CREATE TABLE x(a INT)", "COMMIT"],
    "CREATE TABLE": ["CREATE TABLE x(a INT)"],
    "INSERT": ["INSERT INTO t VALUES (-1, 0, 'foreign')"],
    "DELETE": ["DELETE FROM t"],
    "DROP TABLE": ["DROP TABLE t"],
    "VACUUM": ["VACUUM"],
    "VACUUM, page_size": ["PRAGMA page_size=8192", "VACUUM"],
    "VACUUM INTO": ["VACUUM INTO '{tmp}/into.db'"],
    "optimize": ["PRAGMA optimize", "ANALYZE"],
}
ATTACHED = {
    "ATTACH, SELECT": ["ATTACH '{db}' AS a", "SELECT count(*) FROM a.t"],
    "ATTACH, INSERT": ["ATTACH '{db}' AS a", "BEGIN", "INSERT INTO o VALUES (1)", "INSERT INTO a.t VALUES (-1, 0, 'foreign')", "COMMIT"],
    "ATTACH, checkpoint": ["ATTACH '{db}' AS a", "PRAGMA a.wal_checkpoint(TRUNCATE)", "PRAGMA a.journal_mode=delete", "SELECT count(*) FROM a.t"],
    "VACUUM INTO it": ["VACUUM INTO '{db}'"],
}
#: Turso and DuckDB speak only a part of SQLite's SQL.
PORTABLE = ("SELECT", "list the tables", "integrity_check", "journal_mode", "journal_mode=wal", "wal_checkpoint", "user_version", "CREATE TABLE", "INSERT", "DROP TABLE", "VACUUM")

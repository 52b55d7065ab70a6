//! Opening databases.

use densite::rusqlite::{self, Connection};
use densite::{Codec, Error, FileError, Form, OpenOptions};
use std::path::Path;
use std::time::Duration;

fn fill(con: &Connection) {
    con.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES ('x')")
        .expect("a table");
}

fn count(con: &Connection) -> i64 {
    con.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .expect("a number of rows")
}

fn form(path: &Path) -> Form {
    densite::info(path).expect("figures").form
}

#[test]
fn a_new_file_is_a_densite_file_and_a_plain_one_stays_plain() {
    let dir = tempfile::tempdir().expect("a directory");
    let (new, plain) = (dir.path().join("new.db"), dir.path().join("plain.db"));
    fill(&densite::open(&new).expect("opens"));
    assert_eq!(form(&new), Form::Compressed);
    fill(&Connection::open(&plain).expect("opens"));
    assert_eq!(count(&densite::open(&plain).expect("opens")), 1);
    assert_eq!(form(&plain), Form::Plain);
}

#[test]
fn special_characters_in_file_names_have_no_meaning() {
    let dir = tempfile::tempdir().expect("a directory");
    let names = [
        "with space.db",
        "a?mode=ro&vfs=unix.db",
        "a#b.db",
        "100%41.db",
        "übung 数据.db",
        "a&level=99;b'\"c.db",
        "file:x.db",
        "a+b=c.db",
    ];
    for name in names {
        let path = dir.path().join(name);
        fill(&densite::open(&path).expect("opens"));
        assert!(path.is_file(), "{name}");
        assert_eq!(count(&densite::open(&path).expect("opens again")), 1);
        assert_eq!(form(&path), Form::Compressed, "{name}");
        let other = dir.path().join(format!("{name} plain"));
        densite::decompress(&path, &other).expect("decompresses");
        assert!(densite::check(&other).expect("can be checked").ok());
    }
    let files = std::fs::read_dir(dir.path()).expect("a list").count();
    assert_eq!(files, 2 * names.len());
}

#[test]
fn two_connections_see_each_others_commits() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.db");
    let one = densite::open(&path).expect("opens");
    one.pragma_update(None, "journal_mode", "wal").expect("WAL");
    fill(&one);
    let two = densite::open(&path).expect("opens");
    one.execute_batch("BEGIN; INSERT INTO t VALUES (2)")
        .expect("writes");
    assert_eq!(count(&two), 1);
    one.execute_batch("COMMIT").expect("commits");
    assert_eq!(count(&two), 2);
}

#[test]
fn registered_connections_open_by_uri() {
    densite::register().expect("registers");
    densite::register().expect("registers again");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.db");
    let uri = format!("file:{}?vfs=densite&level=9", path.display());
    fill(&Connection::open(uri).expect("opens"));
    assert_eq!(form(&path), Form::Compressed);
    let version: String = Connection::open_in_memory()
        .and_then(|con| con.query_row("SELECT densite_version()", [], |row| row.get(0)))
        .expect("knows the functions");
    assert!(!version.is_empty());
}

#[test]
fn settings_reach_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.db");
    let con = OpenOptions::new()
        .level(7)
        .threads(1)
        .decoded_cache_mib(12)
        .codec(Codec::Zstd)
        .busy_timeout(Duration::from_millis(1234))
        .open(&path)
        .expect("opens");
    fill(&con);
    let pragma = |name: &str| -> String {
        con.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
            .map(|value| match value {
                rusqlite::types::Value::Text(text) => text,
                other => format!("{other:?}"),
            })
            .expect("a value")
    };
    assert_eq!(pragma("densite_level"), "7");
    assert_eq!(pragma("densite_threads"), "1");
    assert_eq!(pragma("densite_decoded_cache"), "12");
    assert_eq!(pragma("busy_timeout"), "Integer(1234)");
    // SQLite's own default.
    assert_eq!(pragma("foreign_keys"), "Integer(0)");
    OpenOptions::new()
        .busy_timeout(Duration::MAX)
        .open(&path)
        .expect("waits for as long as SQLite can");
}

#[test]
fn wrong_settings_are_named_with_what_is_allowed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.db");
    let cases = [
        (
            OpenOptions::new().level(23),
            "level is 23; use a number from -7 to 22",
        ),
        (
            OpenOptions::new().threads(257),
            "threads is 257; use a number from 0 to 256",
        ),
        (
            OpenOptions::new().decoded_cache_mib(usize::MAX),
            "decoded_cache_mib is 18446744073709551615; use a number of MiB from 0 to 1048576",
        ),
    ];
    for (options, message) in cases {
        let error = options.open(&path).expect_err("out of range");
        assert!(matches!(error, Error::Setting(_)), "{error:?}");
        assert_eq!(error.to_string(), message);
    }
    assert!(!path.exists());
    for name in ["", ":memory:", "a\0b"] {
        let error = densite::open(name).expect_err("no file");
        assert!(matches!(error, Error::Setting(_)), "{error:?}");
    }
}

#[test]
fn a_missing_file_is_an_error_with_its_path() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("missing.db");
    let file = |error: Error| match error {
        Error::File(error) => error,
        other => panic!("{other:?}"),
    };
    for options in [
        OpenOptions::new().create(false),
        OpenOptions::new().read_only(true),
    ] {
        let error = file(options.open(&missing).expect_err("is missing"));
        assert!(
            matches!(&error, FileError::NotFound { path } if *path == missing),
            "{error}"
        );
    }
    let within = missing.join("app.db");
    let error = file(densite::open(within).expect_err("has no folder"));
    assert!(
        matches!(&error, FileError::NotFound { path } if *path == missing),
        "{error}"
    );
    let error = file(densite::open(dir.path()).expect_err("is a folder"));
    assert!(matches!(error, FileError::IsDirectory { .. }), "{error}");
}

#[test]
fn a_file_that_is_no_database_is_damaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.db");
    fill(&densite::open(&path).expect("opens"));
    std::fs::write(&path, [b"no database".repeat(100), vec![0; 4096]].concat())
        .expect("overwritten");
    let error = densite::open(&path).and_then(|con| {
        con.query_row("SELECT count(*) FROM t", [], |_| Ok(()))?;
        Ok(())
    });
    let error = error.expect_err("is no database");
    assert!(error.is_damaged(), "{error:?}");
}

#[test]
fn an_error_of_sqlites_open_has_the_path_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let path = file.join("app.db");
    let error = densite::open(&path).expect_err("a file is no folder");
    assert!(matches!(error, Error::Open { .. }), "{error:?}");
    let expected = format!(
        "{}: unable to open database file; check the path, and the owner and mode of the file and its directory",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn read_only_connections_change_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.db");
    fill(&densite::open(&path).expect("opens"));
    let con = OpenOptions::new()
        .read_only(true)
        .open(&path)
        .expect("opens");
    assert_eq!(count(&con), 1);
    assert!(con.execute_batch("DELETE FROM t").is_err());
}

#[test]
fn a_lock_is_reported_as_locked() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.db");
    let one = densite::open(&path).expect("opens");
    fill(&one);
    one.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let two = OpenOptions::new()
        .busy_timeout(Duration::ZERO)
        .open(&path)
        .expect("opens");
    let error = Error::from(two.execute_batch("BEGIN IMMEDIATE").expect_err("locked"));
    assert!(error.is_locked(), "{error:?}");
    let error = densite::ConvertOptions::new()
        .timeout(Duration::ZERO)
        .decompress_in_place(&path, &mut densite::Silent)
        .expect_err("locked");
    assert!(error.is_locked(), "{error:?}");
}

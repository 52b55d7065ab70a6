//! What a file is: plain, empty, Densite or damaged, and when that is judged again.

use crate::common::{Place, assert_sound, bytes, figure, fill, int, run, text};

#[test]
fn a_plain_database_is_passed_through() {
    let place = Place::new();
    fill(&place.plain("x.db"), 300);
    let before = bytes(&place.path("x.db"));
    let db = place.open("x.db");
    assert_eq!(int(&db, "SELECT count(*) FROM t"), 300);
    assert_eq!(figure(&db, "kind"), "plain");
    assert_eq!(figure(&db, "page_size"), "4096");
    assert_eq!(figure(&db, "size"), before.len().to_string());
    assert_eq!(int(&db, "PRAGMA mmap_size=1000000"), 1_000_000);
    assert_eq!(int(&db, "SELECT count(*) FROM t"), 300);
    drop(db);
    assert!(bytes(&place.path("x.db")) == before);
    let db = place.open("x.db");
    run(
        &db,
        "PRAGMA journal_mode=WAL; INSERT INTO t(b) VALUES ('one more')",
    );
    drop(db);
    assert_eq!(int(&place.plain("x.db"), "SELECT count(*) FROM t"), 301);
    assert_sound(&place.plain("x.db"));
}

#[test]
fn an_empty_file_becomes_a_store_by_default() {
    let place = Place::new();
    std::fs::write(place.path("x.db"), b"").expect("writes");
    let db = place.open("x.db");
    assert_eq!(figure(&db, "kind"), "empty");
    assert_eq!(int(&db, "SELECT count(*) FROM sqlite_schema"), 0);
    assert_eq!(
        bytes(&place.path("x.db")).len(),
        0,
        "reading does not make it a store"
    );
    fill(&db, 10);
    assert_eq!(figure(&db, "kind"), "densite");
    let db = place.try_open("plain.db", "&densite=off").expect("opens");
    fill(&db, 10);
    assert_eq!(figure(&db, "kind"), "plain");
    drop(db);
    assert!(place.is_plain("plain.db") && !place.is_plain("x.db"));
    // `densite=off` decides about an empty file only. A Densite file is still readable.
    let db = place.try_open("x.db", "&densite=off").expect("opens");
    assert_eq!(int(&db, "SELECT count(*) FROM t"), 10);
}

#[test]
fn an_empty_file_made_plain_by_another_process_is_plain() {
    let place = Place::new();
    let early = place.open("x.db");
    assert_eq!(int(&early, "SELECT count(*) FROM sqlite_schema"), 0);
    let other = place.plain("x.db");
    fill(&other, 10);
    assert_eq!(int(&early, "SELECT count(*) FROM t"), 10);
    run(&early, "INSERT INTO t(b) VALUES ('x')");
    assert_eq!(int(&other, "SELECT count(*) FROM t"), 11);
    assert!(place.is_plain("x.db"));
}

#[test]
fn an_empty_file_that_another_connection_makes_a_store_is_one() {
    let place = Place::new();
    let (early, other) = (place.open("x.db"), place.open("x.db"));
    assert_eq!(int(&early, "SELECT count(*) FROM sqlite_schema"), 0);
    fill(&other, 10);
    assert_eq!(int(&early, "SELECT count(*) FROM t"), 10);
    run(&early, "INSERT INTO t(b) VALUES ('x')");
    assert_eq!(int(&other, "SELECT count(*) FROM t"), 11);
    assert_eq!(figure(&early, "kind"), "densite");
}

#[test]
fn a_plain_file_that_is_emptied_and_made_a_store_meanwhile_is_noticed() {
    let place = Place::new();
    fill(&place.plain("x.db"), 10);
    let early = place.open("x.db");
    assert_eq!(int(&early, "SELECT count(*) FROM t"), 10);
    std::fs::File::create(place.path("x.db")).expect("empties");
    let other = place.open("x.db");
    // Two statements: with one, the schema would have the version that `early` knows.
    run(
        &other,
        "CREATE TABLE u(a); CREATE TABLE v(a); INSERT INTO u VALUES (7)",
    );
    assert!(!place.is_plain("x.db"));
    assert_eq!(int(&early, "SELECT a FROM u"), 7);
}

#[test]
fn a_first_transaction_that_rolls_back_leaves_an_empty_database() {
    let place = Place::new();
    let db = place.open("x.db");
    run(&db, "PRAGMA cache_size=5; BEGIN");
    fill(&db, 3000);
    run(&db, "ROLLBACK");
    assert_eq!(int(&db, "SELECT count(*) FROM sqlite_schema"), 0);
    assert_eq!(int(&db, "PRAGMA page_count"), 0);
    fill(&db, 10);
    drop(db);
    assert_eq!(int(&place.open("x.db"), "SELECT count(*) FROM t"), 10);
}

/// Rule S7: the size of an unreadable file is an error, never 0. With 0, SQLite would delete the
/// journal and make recovery impossible.
#[test]
fn a_damaged_store_is_an_error_and_keeps_its_journal() {
    let place = Place::new();
    let db = place.open("x.db");
    run(&db, "PRAGMA cache_size=5");
    fill(&db, 3000);
    run(&db, "BEGIN; UPDATE t SET b = 'changed' || b");
    for suffix in ["", "-djournal"] {
        let (from, to) = (format!("x.db{suffix}"), format!("bad.db{suffix}"));
        std::fs::copy(place.path(&from), place.path(&to)).expect("copies");
    }
    run(&db, "ROLLBACK");
    // All bytes after the magic are damaged.
    let mut broken = bytes(&place.path("bad.db"));
    for byte in broken.iter_mut().skip(16) {
        *byte ^= 0x5a;
    }
    std::fs::write(place.path("bad.db"), &broken).expect("writes");
    let bad = place.try_open("bad.db", "");
    let error = bad
        .and_then(|db| db.execute_batch("SELECT * FROM t"))
        .expect_err("damaged");
    assert!(error.sqlite_error_code().is_some(), "{error}");
    assert!(!bytes(&place.path("bad.db-djournal")).is_empty());
    assert!(bytes(&place.path("bad.db")) == broken, "left as it was");
    let message = densite_vfs::take_last_error().expect("a message");
    assert!(message.contains("bad.db"), "{message}");
}

#[test]
fn a_file_that_is_no_database_gives_sqlites_error() {
    let place = Place::new();
    std::fs::write(
        place.path("x.db"),
        b"not a database, but some text of a user's\n".repeat(99),
    )
    .expect("writes");
    let before = bytes(&place.path("x.db"));
    let error = place
        .try_open("x.db", "")
        .and_then(|db| db.execute_batch("CREATE TABLE t(a)"))
        .expect_err("no database");
    assert_eq!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::NotADatabase)
    );
    assert!(bytes(&place.path("x.db")) == before);
}

#[test]
fn versions_and_figures() {
    let place = Place::new();
    let db = place.open("x.db");
    fill(&db, 5000);
    assert_eq!(
        text(&db, "SELECT densite_version()"),
        env!("CARGO_PKG_VERSION")
    );
    let logical: i64 = figure(&db, "logical_bytes").parse().expect("a number");
    let stored: i64 = figure(&db, "stored_bytes").parse().expect("a number");
    assert_eq!(logical, int(&db, "PRAGMA page_count") * 4096);
    assert!(stored > 0 && stored < logical, "{stored} of {logical}");
    assert_eq!(
        text(&db, "SELECT value FROM densite_info WHERE name = 'kind'"),
        "densite"
    );
    let schema = text(&db, "SELECT schema FROM densite_info('main') LIMIT 1");
    assert_eq!(schema, "main");
    let error = db
        .prepare("SELECT * FROM densite_info('nowhere')")
        .and_then(|mut s| s.query([]).and_then(|mut rows| rows.next().map(|_| ())));
    assert!(
        error
            .expect_err("no such schema")
            .to_string()
            .contains("nowhere")
    );
    run(&db, "ATTACH ':memory:' AS m");
    assert_eq!(
        text(
            &db,
            "SELECT value FROM densite_info('m') WHERE name = 'kind'"
        ),
        "empty"
    );
}

/// Names are bytes. A name that is not UTF-8 is shown with a replacement character. A copy can
/// really have that name, and it has the same salt. Knowledge about one file must not be applied to
/// the other.
#[test]
fn a_name_that_is_not_utf8_is_not_confused_with_another() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let odd = place
        .path("")
        .join(std::ffi::OsStr::from_bytes(b"a\xff.db"));
    let shown = place.path("a\u{FFFD}.db");
    let open = |path: &std::path::Path| {
        rusqlite::Connection::open_with_flags_and_vfs(
            path,
            rusqlite::OpenFlags::default(),
            "densite",
        )
        .expect("opens")
    };
    let db = open(&odd);
    fill(&db, 300);
    drop(db);
    std::fs::copy(&odd, &shown).expect("copies");
    let change = |db: &rusqlite::Connection, mark: &str| {
        run(db, &format!("UPDATE t SET b = '{mark} ' || a"));
    };
    let count = |db: &rusqlite::Connection, mark: &str| {
        int(
            db,
            &format!("SELECT count(*) FROM t WHERE b = '{mark} ' || a"),
        )
    };
    // As another process would do: the commits have the same numbers.
    change(&open(&shown), "second");
    let first = open(&odd);
    change(&first, "first");
    // Read from the store, not from the connection's cache.
    assert_eq!(count(&open(&odd), "first"), 300);
    let second = open(&shown);
    assert_eq!(count(&second, "second"), 300);
    assert_eq!(count(&first, "first"), 300);
    assert_sound(&second);
}

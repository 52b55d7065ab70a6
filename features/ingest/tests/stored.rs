//! Ingest tables as a setting of the database.

use crate::common::{Db, all, one, refusal, wait};

const SCHEMA: &str = "CREATE TABLE vote(user INTEGER, article INTEGER, n INT, PRIMARY KEY (user, article)); CREATE TABLE other(a)";

/// Sets the options of a table's ingest table.
fn set(con: &rusqlite::Connection, table: &str, options: &str) -> String {
    let sql = "SELECT densite_config('ingest', ?1, ?2)";
    con.query_row(sql, [table, options], |row| row.get(0))
        .unwrap_or_else(|e| panic!("{options}: {e}"))
}

fn setting(con: &rusqlite::Connection) -> Option<String> {
    one(con, "SELECT densite_config('ingest', 'vote')")
}

#[test]
fn every_connection_finds_the_ingest_table() {
    let db = Db::new(SCHEMA);
    let con = db.open();
    assert_eq!(setting(&con), None);
    let stored = set(&con, "VOTE", "on_conflict=ignore");
    assert_eq!(stored, "on_conflict=ignore, on_full=wait");
    assert_eq!(setting(&con), Some(stored));
    for n in 0..3 {
        let con = db.open();
        con.execute("INSERT INTO vote_in VALUES (1, 2, ?1)", [n])
            .expect("inserts");
    }
    let con = db.open();
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM vote"), ["1|2|0"]);
    assert_eq!(one::<i64>(&con, "SELECT densite_last_seq() IS NULL"), 1);
    // Another setting takes its place, and NULL removes it.
    set(&con, "vote", "on_conflict='update(\"n\")', on_full=error");
    let con = db.open();
    con.execute_batch("INSERT INTO vote_in VALUES (1, 2, 7)")
        .expect("inserts");
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM vote"), ["1|2|7"]);
    con.execute_batch("SELECT densite_config('ingest', 'vote', NULL)")
        .expect("removes");
    assert_eq!(setting(&con), None);
    let refused = refusal(&db.open(), "INSERT INTO vote_in VALUES (1, 2, 7)");
    assert!(refused.contains("no such table: vote_in"), "{refused}");
}

#[test]
fn a_shadowed_table_takes_plain_inserts_through_the_log() {
    let db = Db::new(SCHEMA);
    set(&db.open(), "vote", "on_conflict=replace, shadow=on");
    let con = db.open();
    con.execute_batch("INSERT INTO vote VALUES (1, 2, 3), (1, 3, 4)")
        .expect("inserts");
    con.execute_batch("UPDATE vote SET n = 5 WHERE user = 1 AND article = 2")
        .expect("updates");
    assert_eq!(one::<i64>(&con, "SELECT densite_last_seq()"), 3);
    let rows = ["1|2|5", "1|3|4"];
    assert_eq!(all(&con, "SELECT * FROM vote"), rows);
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM main.vote"), rows);
    // A program without Densite sees the table, and one transaction does not write to both.
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    assert_eq!(all(&plain, "SELECT * FROM vote"), rows);
    con.execute_batch("BEGIN; INSERT INTO vote VALUES (2, 2, 2); INSERT INTO other VALUES (1)")
        .expect("inserts");
    let refused = refusal(&con, "COMMIT");
    assert!(refused.contains("outbox"), "{refused}");
    assert!(con.is_autocommit(), "it is rolled back");
    assert_eq!(all(&con, "SELECT count(*) FROM vote"), ["2"]);
}

#[test]
fn a_setting_is_checked_before_it_is_stored() {
    let db = Db::new(&format!("{SCHEMA}; CREATE TABLE other_in(a)"));
    let con = db.open();
    for (options, part) in [
        ("on_conflict=keep", "use abort, ignore"),
        ("on_conflict='update(x)'", "no column x"),
        ("shadow=maybe", "use on or off"),
        ("ignore", "does not know"),
    ] {
        let sql = "SELECT densite_config('ingest', 'vote', ?1)";
        let refused = con
            .query_row(sql, [options], |_| Ok(()))
            .expect_err(options)
            .to_string();
        assert!(refused.contains(part), "{options}: {refused}");
    }
    for (sql, part) in [
        (
            "SELECT densite_config('ingest', 'none', '')",
            "no table none",
        ),
        ("SELECT densite_config('ingest')", "wants a table's name"),
        (
            "SELECT densite_config('ingest', 'vote', 1)",
            "wants a table's name",
        ),
        (
            "SELECT densite_config('ingest', 'other', '')",
            "a table other_in",
        ),
        (
            "SELECT densite_config('ingest', 'sqlite_schema', '')",
            "no table",
        ),
        (
            "SELECT densite_config('ingest', 'other', 'on_conflict=ignore, shadow=on')",
            "no primary key",
        ),
        (
            "CREATE VIRTUAL TABLE temp.x USING densite_ingest(vote, shadow=on)",
            "shadow belongs",
        ),
    ] {
        let refused = refusal(&con, sql);
        assert!(refused.contains(part), "{sql}: {refused}");
    }
    assert!(!db.log_dir().exists(), "nothing was made");
    assert_eq!(
        set(&con, "other", "shadow=on"),
        "on_conflict=abort, on_full=wait, shadow=on"
    );
}

/// The file can come from anywhere: its text is never run as SQL.
#[test]
fn options_in_the_file_are_not_sql() {
    let db = Db::new(SCHEMA);
    set(&db.open(), "vote", "");
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    plain
        .execute_batch(
            "UPDATE densite_ingest_tables SET options = 'on_conflict=ignore); CREATE TABLE main.evil(a); --'",
        )
        .expect("changes");
    let con = db.open();
    let refused = refusal(&con, "SELECT * FROM vote_in");
    assert!(refused.contains("on_conflict"), "{refused}");
    assert_eq!(
        one::<i64>(
            &con,
            "SELECT count(*) FROM sqlite_schema WHERE name = 'evil'"
        ),
        0
    );
}

#[test]
fn a_database_whose_log_is_damaged_still_opens() {
    let db = Db::new(SCHEMA);
    let con = db.open();
    set(&con, "vote", "");
    con.close().expect("closes");
    std::fs::remove_dir_all(db.log_dir()).expect("removes");
    std::fs::create_dir(db.log_dir()).expect("an empty one");
    let con = db.open();
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM vote"), 0);
    let refused = refusal(&con, "SELECT * FROM vote_in");
    assert!(refused.contains("put it back"), "{refused}");
}

#[test]
fn opening_waits_while_the_database_is_locked() {
    let db = Db::new(&format!("PRAGMA journal_mode = DELETE; {SCHEMA}"));
    let con = db.open();
    set(&con, "vote", "");
    con.close().expect("closes");
    let holder = rusqlite::Connection::open(db.path()).expect("opens");
    holder.execute_batch("BEGIN EXCLUSIVE").expect("locks");
    let path = db.path();
    let opener = std::thread::spawn(move || {
        let con = crate::common::open(&path);
        con.execute_batch("INSERT INTO vote_in VALUES (1, 1, 1)")
            .expect("inserts");
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    holder.execute_batch("COMMIT").expect("unlocks");
    opener.join().expect("opens");
}

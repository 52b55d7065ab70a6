//! `changes_max_retained_bytes`: subscribers that keep too much are dropped, and told so.

use super::{NEXT, SCHEMA, recorded, run};
use crate::common::{all, one, refusal};
use rusqlite::Connection;

const SUBSCRIBERS: &str = "SELECT name, feed, position, rows_behind, bytes_behind > 0, dropped FROM densite_subscribers()";

/// Writes about 10 KB of changes, once they are compressed.
fn write(con: &Connection, id: i64) {
    run(
        con,
        &format!("INSERT INTO t VALUES ({id}, {id}, hex(randomblob(10000)))"),
    );
}

#[test]
fn the_slowest_subscriber_is_dropped_and_told_so() {
    let (db, con) = recorded(SCHEMA);
    assert_eq!(
        one::<i64>(&con, "SELECT densite_config('changes_max_retained_bytes')"),
        0
    );
    let set = "SELECT densite_config('changes_max_retained_bytes', 60000)";
    assert_eq!(one::<i64>(&con, set), 60_000);
    one::<i64>(&con, "SELECT densite_changes_subscribe('fast')");
    for id in 1..=20 {
        write(&con, id);
        one::<i64>(&con, &format!("SELECT densite_changes_ack('fast', {id})"));
    }
    assert_eq!(
        all(&con, SUBSCRIBERS),
        ["fast|changes|20|0|0|0", "s|changes|NULL|NULL|NULL|1"]
    );
    // What was kept for it is gone.
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_changed"), 0);
    for sql in [
        NEXT,
        "SELECT densite_changes_ack('s', 5)",
        "SELECT densite_changes_wait('s', 1)",
    ] {
        let says = refusal(&con, sql);
        assert!(
            says.contains("\"s\" of changes was dropped"),
            "{sql}: {says}"
        );
    }
    // Every connection sees that.
    let says = refusal(&db.open(), NEXT);
    assert!(says.contains("was dropped"), "{says}");
    // It begins again.
    assert_eq!(
        one::<i64>(&con, "SELECT densite_changes_subscribe('s')"),
        20
    );
    write(&con, 21);
    assert_eq!(all(&con, "SELECT seq FROM densite_changes('s')"), ["21"]);
    assert_eq!(
        all(&con, SUBSCRIBERS),
        ["fast|changes|20|1|1|0", "s|changes|20|1|1|0"]
    );
}

/// Numbers are not used again, and nothing more is stored, if it was the only one.
#[test]
fn the_only_subscriber_is_dropped() {
    let (_db, con) = recorded(SCHEMA);
    one::<i64>(
        &con,
        "SELECT densite_config('changes_max_retained_bytes', 10000)",
    );
    write(&con, 1);
    write(&con, 2);
    assert_eq!(all(&con, SUBSCRIBERS), ["s|changes|NULL|NULL|NULL|1"]);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_changed"), 0);
    let position = one::<i64>(&con, "SELECT densite_changes_subscribe('s', 'start')");
    assert_eq!(position, 1, "the second row was not stored");
    run(&con, "INSERT INTO t VALUES (3, 3, 3)");
    assert_eq!(all(&con, "SELECT seq FROM densite_changes('s')"), ["2"]);
    // A subscriber that was dropped can be removed.
    write(&con, 4);
    assert!(refusal(&con, NEXT).contains("was dropped"));
    one::<Option<i64>>(&con, "SELECT densite_changes_unsubscribe('s')");
    assert!(all(&con, SUBSCRIBERS).is_empty());
    assert!(refusal(&con, NEXT).contains("there is no subscriber"));
}

/// A ROLLBACK undoes it together with the changes.
#[test]
fn a_rollback_brings_it_back() {
    let (db, con) = recorded(SCHEMA);
    one::<i64>(
        &con,
        "SELECT densite_config('changes_max_retained_bytes', 10000)",
    );
    run(&con, "PRAGMA journal_mode = DELETE");
    con.busy_timeout(std::time::Duration::ZERO).expect("none");
    let reader = db.open();
    run(&reader, "BEGIN");
    assert_eq!(one::<i64>(&reader, "SELECT count(*) FROM t"), 0);
    run(&con, "BEGIN");
    write(&con, 1);
    refusal(&con, "COMMIT");
    run(&con, "ROLLBACK");
    run(&reader, "COMMIT");
    run(&con, "INSERT INTO t VALUES (2, 2, 2)");
    assert_eq!(all(&con, "SELECT seq FROM densite_changes('s')"), ["1"]);
}

/// A lower limit counts what is stored already.
#[test]
fn setting_it_drops_subscribers_at_once() {
    let (_db, con) = recorded(SCHEMA);
    write(&con, 1);
    let bytes: i64 = one(&con, "SELECT bytes_behind FROM densite_subscribers()");
    assert!((10_000..11_000).contains(&bytes), "{bytes}");
    for (set, lag) in [
        (bytes, "s|changes|0|1|1|0"),
        (bytes - 1, "s|changes|NULL|NULL|NULL|1"),
    ] {
        let sql = format!("SELECT densite_config('changes_max_retained_bytes', {set})");
        assert_eq!(one::<i64>(&con, &sql), set);
        assert_eq!(all(&con, SUBSCRIBERS), [lag]);
    }
    for wrong in ["-1", "'much'", "NULL"] {
        let sql = format!("SELECT densite_config('changes_max_retained_bytes', {wrong})");
        assert!(
            refusal(&con, &sql).contains("is a number of bytes"),
            "{sql}"
        );
    }
}

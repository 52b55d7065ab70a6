//! `densite_log_wait`: waiting for rows that are appended.

use crate::common::{Db, one, refusal};
use std::time::{Duration, Instant};

const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, a)";
const INSERT: &str = "INSERT INTO t_in(a) VALUES (1)";

#[test]
fn a_row_that_another_connection_appends_ends_the_wait() {
    let db = Db::new(TABLE);
    let (writer, follower) = (db.ingest("t", ""), db.ingest("t", ""));
    assert_eq!(one::<i64>(&follower, "SELECT densite_log_wait(0, 0.01)"), 0);
    let start = Instant::now();
    let appending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        writer.execute_batch(INSERT).expect("appends");
        (writer, Instant::now())
    });
    assert_eq!(one::<i64>(&follower, "SELECT densite_log_wait(0, 60)"), 1);
    let woken = Instant::now();
    let (writer, appended) = appending.join().expect("appends");
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert!(woken.saturating_duration_since(appended) < Duration::from_millis(400));
    // Existing rows end the wait at once.
    assert_eq!(one::<i64>(&follower, "SELECT densite_log_wait(0)"), 1);
    // Without a number it waits for a row after the last one, which does not come.
    let start = Instant::now();
    assert_eq!(
        one::<i64>(&follower, "SELECT densite_log_wait(NULL, 0.7)"),
        1
    );
    assert!(start.elapsed() >= Duration::from_millis(700));
    drop(writer);
}

#[test]
fn a_wait_can_be_interrupted() {
    let db = Db::new(TABLE);
    let con = db.ingest("t", "");
    let handle = con.get_interrupt_handle();
    let interrupting = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        handle.interrupt();
    });
    let start = Instant::now();
    let said = refusal(&con, "SELECT densite_log_wait(0)");
    assert!(said.contains("interrupted"), "{said}");
    assert!(start.elapsed() < Duration::from_secs(5));
    interrupting.join().expect("ends");
    con.execute_batch(INSERT).expect("the connection goes on");
    assert_eq!(one::<i64>(&con, "SELECT densite_log_wait(0, 60)"), 1);
}

#[test]
fn wrong_arguments_are_named() {
    let db = Db::new(TABLE);
    let con = db.ingest("t", "");
    for wrong in ["-1", "'a'", "0, 'a'", "0, -1", "0, 1, 1"] {
        let said = refusal(&con, &format!("SELECT densite_log_wait({wrong})"));
        assert!(
            said.contains("densite_log_wait takes a sequence number"),
            "{said}"
        );
    }
    let other = Db::new(TABLE);
    let con = other.open();
    let said = refusal(&con, "SELECT densite_log_wait()");
    assert!(said.contains("the database has no log"), "{said}");
}

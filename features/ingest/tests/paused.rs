//! `densite_pause` and `densite_resume`.

use crate::common::{self, Db, all, one, refusal, wait};
use densite_testing::Stop;
use std::time::Duration;

const SCHEMA: &str = "CREATE TABLE vote(id INTEGER PRIMARY KEY, n INT); CREATE TABLE other(a)";

#[test]
fn a_paused_table_is_complete_and_does_not_change() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("vote", ", on_conflict=replace");
    let elsewhere = db.ingest("vote", ", on_conflict=replace");
    con.execute_batch("INSERT INTO vote_in VALUES (1, 1), (2, 2)")
        .expect("inserts");
    assert_eq!(one::<i64>(&con, "SELECT densite_pause('VOTE')"), 2);
    let rows = ["1|1", "2|2"];
    assert_eq!(all(&con, "SELECT * FROM vote"), rows);
    // Rows are acknowledged and shown, and wait.
    elsewhere
        .execute_batch("INSERT INTO vote_in VALUES (1, 7), (3, 3)")
        .expect("inserts");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(all(&con, "SELECT * FROM vote"), rows);
    assert_eq!(all(&con, "SELECT * FROM vote_in"), ["1|7", "2|2", "3|3"]);
    for con in [&con, &elsewhere] {
        let refused = refusal(con, "SELECT densite_wait()");
        assert!(
            refused.contains("SELECT densite_resume('vote')"),
            "{refused}"
        );
        let refused = refusal(con, "SELECT densite_replay_rejects()");
        assert!(refused.contains("since densite_pause"), "{refused}");
    }
    assert_eq!(one::<i64>(&con, "SELECT densite_wait(2)"), 2);
    // A migration.
    con.execute_batch(
        "ALTER TABLE vote RENAME COLUMN n TO m; ALTER TABLE vote ADD COLUMN n INT DEFAULT 5",
    )
    .expect("alters");
    assert_eq!(one::<i64>(&con, "SELECT densite_pause('other')"), 2);
    assert_eq!(one::<i64>(&con, "SELECT densite_resume('vote')"), 0);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM vote"), 2);
    assert_eq!(one::<i64>(&con, "SELECT densite_resume('other')"), 1);
    wait(&con);
    assert_eq!(
        all(&con, "SELECT id, m, n FROM vote"),
        ["1|NULL|7", "2|2|5", "3|NULL|3"]
    );
}

#[test]
fn a_pause_outlives_its_process() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("vote", "");
    one::<i64>(&con, "SELECT densite_pause('vote')");
    con.execute_batch("INSERT INTO vote_in VALUES (1, 1)")
        .expect("inserts");
    con.close().expect("closes");
    let con = db.ingest("vote", "");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM main.vote"), 0);
    assert_eq!(one::<i64>(&con, "SELECT densite_resume('vote')"), 1);
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM main.vote"), 1);
}

#[test]
fn a_pause_begins_between_transactions_of_writers() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("vote", "");
    let path = db.path();
    let stop = std::sync::Arc::new(Stop::new());
    let stopping = stop.at_end();
    let stops = stop.clone();
    let writer = std::thread::spawn(move || {
        let con = common::open(&path);
        common::create(&con, "vote", "").expect("the ingest table");
        let mut n = 0_i64;
        while !stops.is_set() {
            con.execute_batch(&format!(
                "BEGIN; INSERT INTO vote_in(n) VALUES ({n}), ({n}); COMMIT"
            ))
            .expect("inserts");
            n += 1;
        }
        n
    });
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(30));
        one::<i64>(&con, "SELECT densite_pause('vote')");
        let count = || one::<i64>(&con, "SELECT count(*) FROM main.vote");
        let before = count();
        assert_eq!(before % 2, 0);
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(count(), before);
        one::<i64>(&con, "SELECT densite_resume('vote')");
    }
    drop(stopping);
    let pairs = writer.join().expect("writes");
    wait(&con);
    assert_eq!(
        one::<i64>(&con, "SELECT count(*) FROM main.vote"),
        2 * pairs
    );
}

#[test]
fn a_pause_needs_a_table_and_no_transaction() {
    let db = Db::new(SCHEMA);
    let con = db.ingest("vote", "");
    for (sql, part) in [
        ("SELECT densite_pause('none')", "no table none"),
        ("SELECT densite_pause(1)", "wants a table's name"),
        ("SELECT densite_resume('vote')", "vote is not paused"),
        ("BEGIN; SELECT densite_pause('vote')", "transaction open"),
    ] {
        let refused = refusal(&con, sql);
        assert!(refused.contains(part), "{sql}: {refused}");
    }
}

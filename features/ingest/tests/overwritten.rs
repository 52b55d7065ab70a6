//! A database that is overwritten in place, while connections have it open, with a state that went
//! on elsewhere.

use crate::common::{Db, all, one, wait};
use rusqlite::Connection;
use rusqlite::backup::Backup;
use std::path::Path;
use std::time::{Duration, Instant};

/// Does what SQLite's backup does: copies all pages under the locks of the target.
fn overwrite(path: &Path, with: &Path) {
    let from = Connection::open(with).expect("opens");
    let mut to = Connection::open(path).expect("opens");
    to.busy_timeout(Duration::from_secs(20)).expect("a time");
    let backup = Backup::new(&from, &mut to).expect("a backup");
    backup
        .run_to_completion(1000, Duration::ZERO, None)
        .expect("copies");
}

fn copy_of(db: &Db, to: &Path) {
    db.open()
        .execute_batch(&format!("VACUUM INTO '{}'", to.display()))
        .expect("a copy");
}

/// The copy continues with its own log until its position is beyond that of the first database.
/// Then, by its position, the next rows of the first log would count as applied.
#[test]
fn a_state_that_continued_with_another_log_gets_no_rows_of_this_one() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in(v) VALUES (1), (2), (3)")
        .expect("inserts");
    wait(&con);
    let elsewhere = Db::new("");
    let [state, before] = ["state", "before"].map(|name| elsewhere.path().with_extension(name));
    copy_of(&db, &before);
    copy_of(&db, &state);
    let further = Connection::open(&state).expect("opens");
    further
        .execute_batch("UPDATE densite_applied SET seq = 40; INSERT INTO t(v) VALUES (100)")
        .expect("as its own worker does");
    drop(further);

    overwrite(&db.path(), &state);
    let (mut acknowledged, mut said) = (3, String::new());
    let until = Instant::now() + Duration::from_secs(20);
    while said.is_empty() && Instant::now() < until {
        match con.execute_batch("INSERT INTO t_in(v) VALUES (7)") {
            Ok(()) => acknowledged += 1,
            Err(e) => said = e.to_string(),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(said.contains("overwritten"), "{said}");
    assert!(acknowledged < 40, "{acknowledged}: told in time");
    let wait_fails = con.query_row("SELECT densite_wait()", [], |_| Ok(()));
    let said = wait_fails.expect_err("not applied").to_string();
    assert!(said.contains("overwritten"), "{said}");

    // The previous state is restored, and with it all acknowledged rows.
    overwrite(&db.path(), &before);
    let until = Instant::now() + Duration::from_secs(20);
    while con.execute_batch("INSERT INTO t_in(v) VALUES (8)").is_err() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(20));
    }
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), acknowledged + 1);
    assert_eq!(all(&con, "SELECT error FROM densite_rejects"), [""; 0]);
}

//! `densite_changes_wait`.

use super::{SCHEMA, recorded, run};
use crate::common::{all, one, refusal};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const WAIT: &str = "SELECT densite_changes_wait('s', 30)";

/// Not a test by itself: another process, which writes one row.
#[test]
fn writer() {
    let Ok(path) = std::env::var("DENSITE_CHANGES_WRITER") else {
        return;
    };
    let con = crate::common::open(std::path::Path::new(&path));
    std::thread::sleep(Duration::from_millis(300));
    run(&con, "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)");
}

fn spawn(path: &std::path::Path) -> std::process::Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "changed::waiting::writer", "--nocapture"])
        .env("DENSITE_CHANGES_WRITER", path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts")
}

/// In WAL mode and in a rollback mode, in which a writer also keeps the waiting reader away.
#[test]
fn a_change_of_another_process_ends_the_wait() {
    for mode in ["WAL", "DELETE"] {
        let (db, con) = recorded(SCHEMA);
        run(&con, &format!("PRAGMA journal_mode = {mode}"));
        let mut child = spawn(&db.path());
        let begun = Instant::now();
        assert_eq!(one::<i64>(&con, WAIT), 2, "{mode}");
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{mode}: {:?}",
            begun.elapsed()
        );
        assert!(child.wait().expect("ends").success());
        // What is not acknowledged is there without a wait.
        assert_eq!(one::<i64>(&con, WAIT), 2);
        one::<i64>(&con, "SELECT densite_changes_ack('s', 1)");
        assert_eq!(one::<i64>(&con, WAIT), 1);
        one::<i64>(&con, "SELECT densite_changes_ack('s', 2)");
        let begun = Instant::now();
        let short = "SELECT densite_changes_wait('s', 0.2)";
        assert_eq!(one::<i64>(&con, short), 0);
        assert!(begun.elapsed() >= Duration::from_millis(200));
    }
}

/// A program that waits for days must notice a commit as soon as one that has just begun.
#[test]
fn a_change_ends_a_long_wait_at_once() {
    let (db, con) = recorded(SCHEMA);
    let mut late = Vec::new();
    for n in 0..3 {
        let writer = db.open();
        let writes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(1500));
            run(&writer, &format!("INSERT INTO t VALUES ({n}, {n}, {n})"));
            Instant::now()
        });
        assert_eq!(one::<i64>(&con, WAIT), 1);
        late.push(writes.join().expect("writes").elapsed());
        one::<i64>(&con, &format!("SELECT densite_changes_ack('s', {})", n + 1));
    }
    late.sort();
    // Without a watch of the files it would be up to 190 ms.
    let is_watched = cfg!(target_os = "linux");
    assert!(
        !is_watched || late[0] < Duration::from_millis(50),
        "{late:?}"
    );
}

#[test]
fn a_wait_that_would_never_end_is_refused() {
    let (_db, con) = recorded(SCHEMA);
    run(&con, "BEGIN");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t"), 0);
    let says = refusal(&con, WAIT);
    assert!(says.contains("a transaction open"), "{says}");
    run(&con, "ROLLBACK");
    for (sql, reason) in [
        (
            "SELECT densite_changes_wait('other', 1)",
            "there is no subscriber \"other\"",
        ),
        (
            "SELECT densite_changes_wait('s', -1)",
            "for how many seconds",
        ),
        (
            "SELECT densite_changes_wait('s', 'long')",
            "for how many seconds",
        ),
        ("SELECT densite_changes_wait()", "wants a subscriber's name"),
        (
            "SELECT densite_changes_wait('s', 1, 1)",
            "wants a subscriber's name",
        ),
    ] {
        let says = refusal(&con, sql);
        assert!(says.contains(reason), "{sql}: {says}");
    }
}

#[test]
fn an_interrupt_ends_the_wait() {
    let (_db, con) = recorded(SCHEMA);
    let handle = con.get_interrupt_handle();
    let interrupts = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        handle.interrupt();
    });
    let begun = Instant::now();
    let waited = con.query_row("SELECT densite_changes_wait('s')", [], |_| Ok(()));
    assert!(
        waited
            .expect_err("interrupted")
            .to_string()
            .contains("interrupted")
    );
    assert!(begun.elapsed() < Duration::from_secs(5));
    interrupts.join().expect("interrupts");
    assert!(all(&con, super::NEXT).is_empty());
}

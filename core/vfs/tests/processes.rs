//! Several processes on one database.
//!
//! The other process is this test program, started again for one "test". That test does nothing
//! unless its environment tells it to.

use crate::common::{self, Place, assert_sound, fill, int, run, text};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The other process: runs SQL on a database and prints the first value.
#[test]
fn other_process() {
    let (Ok(path), Ok(sql)) = (std::env::var("OTHER_DB"), std::env::var("OTHER_SQL")) else {
        return;
    };
    common::densite();
    let db = rusqlite::Connection::open_with_flags(
        format!("file:{path}?vfs=densite"),
        rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_URI,
    )
    .expect("opens");
    for statement in sql.split(";;") {
        let mut stmt = db.prepare(statement).expect("compiles");
        let mut rows = stmt
            .query([])
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
        while let Some(row) = rows.next().unwrap_or_else(|e| panic!("{statement}: {e}")) {
            println!("=> {:?}", row.get_ref(0).expect("a column"));
        }
    }
}

fn start(path: &Path, sql: &str, pause: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command
        .args(["--exact", "processes::other_process", "--nocapture"])
        .env("OTHER_DB", path)
        .env("OTHER_SQL", sql)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(pause) = pause {
        command.env("DENSITE_PAUSE", pause);
    }
    command.spawn().expect("starts")
}

fn finish(child: Child) -> String {
    let out = child.wait_with_output().expect("ends");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        out.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let values = text
        .lines()
        .filter_map(|line| line.split_once("=> ").map(|(_, value)| value));
    values.collect::<Vec<_>>().join(",")
}

fn wait_for(path: &Path) {
    let until = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < until, "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn commits_are_seen_by_other_processes_in_every_mode() {
    for mode in ["DELETE", "PERSIST", "WAL"] {
        let place = Place::new();
        let db = place.open("x.db");
        text(&db, &format!("PRAGMA journal_mode={mode}"));
        fill(&db, 200);
        let path = place.path("x.db");
        let sql = "SELECT count(*) FROM t;;DELETE FROM t WHERE a > 150;;SELECT count(*) FROM t";
        assert_eq!(
            finish(start(&path, sql, None)),
            "Integer(200),Integer(150)",
            "{mode}"
        );
        assert_eq!(int(&db, "SELECT count(*) FROM t"), 150, "{mode}");
        run(&db, "DELETE FROM t WHERE a > 100");
        assert_eq!(
            finish(start(&path, "SELECT count(*) FROM t", None)),
            "Integer(100)",
            "{mode}"
        );
        assert_sound(&db);
    }
}

/// Rule S5: a WAL reader first takes its lock and then reads how far the log was backfilled. A
/// checkpoint in another process can finish in between. The reader then reads pages from the
/// database file that are newer than its lock.
#[test]
fn a_checkpoint_between_a_readers_lock_and_its_first_read() {
    let place = Place::new();
    let db = place.open("x.db");
    run(&db, "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0");
    fill(&db, 500);
    run(
        &db,
        "PRAGMA wal_checkpoint(TRUNCATE); UPDATE t SET b = 'first'",
    );
    let (path, go) = (place.path("x.db"), place.path("go"));
    let pause = format!("shm-lock-read-taken:{}", go.display());
    let sql = "SELECT count(*) || b FROM t GROUP BY b";
    let child = start(&path, sql, Some(&pause));
    wait_for(&place.path("go.reached"));
    run(&db, "PRAGMA wal_checkpoint(PASSIVE)");
    std::fs::write(&go, b"").expect("writes");
    assert_eq!(finish(child), "Text([53, 48, 48, 102, 105, 114, 115, 116])");
    assert_sound(&db);
}

/// Rule S4: a checkpoint that does not reach the WAL's end never syncs, but sends readers of other
/// processes to the database file.
#[test]
fn a_partial_checkpoint_is_seen_by_other_processes() {
    let place = Place::new();
    let db = place.open("x.db");
    run(
        &db,
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=OFF",
    );
    fill(&db, 500);
    run(
        &db,
        "PRAGMA wal_checkpoint(TRUNCATE); UPDATE t SET b = 'first'",
    );
    let reader = place.open("x.db");
    run(&reader, "BEGIN; SELECT * FROM t LIMIT 1");
    run(&db, "INSERT INTO t(b) VALUES ('second')");
    let done: (i64, i64) = db
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |r| {
            Ok((r.get(1)?, r.get(2)?))
        })
        .expect("runs");
    assert!(done.1 > 0 && done.1 < done.0, "partial: {done:?}");
    let sql = "SELECT count(*) FROM t WHERE b = 'first';;PRAGMA integrity_check";
    let seen = finish(start(&place.path("x.db"), sql, None));
    assert_eq!(seen, "Integer(500),Text([111, 107])");
}

#[test]
fn a_process_killed_with_an_open_transaction_leaves_the_state_before() {
    for mode in ["DELETE", "WAL"] {
        let place = Place::new();
        let db = place.open("x.db");
        text(&db, &format!("PRAGMA journal_mode={mode}"));
        run(&db, "PRAGMA page_size=1024");
        fill(&db, 2000);
        drop(db);
        let go = place.path("go");
        let (point, sql) = match mode {
            "WAL" => (
                "checkpoint-done",
                "UPDATE t SET b = 'x';;PRAGMA wal_checkpoint",
            ),
            _ => (
                "before-publish",
                "PRAGMA cache_size=5;;UPDATE t SET b = 'x'",
            ),
        };
        let pause = format!("{point}:{}", go.display());
        let mut child = start(&place.path("x.db"), sql, Some(&pause));
        wait_for(&place.path("go.reached"));
        child.kill().expect("kills");
        child.wait().expect("ends");
        let db = place.open("x.db");
        let changed = int(&db, "SELECT count(*) FROM t WHERE b = 'x'");
        assert_eq!(changed, if mode == "WAL" { 2000 } else { 0 }, "{mode}");
        assert_sound(&db);
    }
}

/// A WAL's close uses a lock to find out whether it is the last. While other processes are
/// connected, the answer is no, at once.
#[test]
fn closing_beside_another_process_in_wal_mode_does_not_wait() {
    let place = Place::new();
    let db = place.open("x.db");
    run(&db, "PRAGMA journal_mode=WAL");
    fill(&db, 10);
    let go = place.path("go");
    let pause = format!("shm-lock-read-taken:{}", go.display());
    let child = start(&place.path("x.db"), "SELECT count(*) FROM t", Some(&pause));
    wait_for(&place.path("go.reached"));
    drop(db);
    let quickest = (0..20).map(|_| {
        let db = place.open("x.db");
        assert_eq!(int(&db, "SELECT count(*) FROM t"), 10);
        let begin = Instant::now();
        drop(db);
        begin.elapsed()
    });
    let quickest = quickest.min().expect("at least one run");
    std::fs::write(&go, b"").expect("writes");
    assert_eq!(finish(child), "Integer(10)");
    assert!(quickest < Duration::from_millis(15), "{quickest:?}");
}

//! Clustered applies that are interrupted by a kill, or by a shorter or damaged log; and databases
//! from before clustered applies.

use crate::common::storage;
use crate::common::waiting;

use crate::common::{Db, Held, all, create, one, wait};
use densite_ingest::ClusteredLimits;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::{Duration, Instant};
use storage::{FEW, ONE};
use waiting::{SHAPES, caught, one_by_one, place, rows, waiting};

/// Not a test by itself: a process that applies waiting rows until it is killed.
#[test]
fn child() {
    let Ok(path) = std::env::var("DENSITE_INGEST_CLUSTERED") else {
        return;
    };
    let con = storage::with_limits(std::path::Path::new(&path), ONE, 0);
    create(&con, "t", ", on_conflict=replace").expect("the ingest table");
    let rows = rows(&con, "t_in");
    println!("rows {}", rows.join(";"));
    wait(&con);
}

/// Applying processes are killed one after the other in the middle of clustered applies. Each one
/// first reads what the previous one left.
#[test]
fn a_clustered_apply_of_a_killed_process_is_continued() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (db, con, plain, changes) = waiting(&SHAPES[0], 6000, &mut random);
    let (end, rejects) = one_by_one(&plain, &changes);
    // Without a connection with ingest, no process applies.
    drop(con);
    plain.execute_batch("ROLLBACK").expect("rolls back");
    let (mut in_the_middle, mut rounds, mut most) = (0, 0, 60);
    while place(&plain).0 < changes.len() as i64 && rounds < 500 {
        rounds += 1;
        let before = place(&plain);
        let mut child = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "clustered_cut::child", "--nocapture"])
            .env("DENSITE_INGEST_CLUSTERED", db.path())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("starts");
        std::thread::sleep(Duration::from_millis(random.random_range(8..most)));
        child.kill().expect("kills");
        let told = child.wait_with_output().expect("is gone").stdout;
        let told = String::from_utf8_lossy(&told).into_owned();
        if let Some((_, read)) = told.split_once("rows ")
            && let Some((read, _)) = read.split_once('\n')
        {
            assert_eq!(read, end.join(";"), "seed {seed}");
        }
        in_the_middle += u32::from(place(&plain).2 > 0);
        // A slow machine may have killed it before it began.
        most += if place(&plain) == before { 10 } else { 0 };
    }
    println!("{rounds} rounds, {in_the_middle} in the middle of a clustered apply");
    assert!(in_the_middle > 2, "{in_the_middle} of {rounds}");
    assert_eq!(rows(&plain, "t"), end, "seed {seed}");
    let mut found = all(&plain, "SELECT seq FROM densite_rejects");
    found.sort_unstable();
    assert_eq!(found, rejects, "seed {seed}");
    assert_eq!(all(&plain, "PRAGMA integrity_check"), ["ok"]);
}

/// If a restored log ends before the numbers of a running clustered apply, it is an older log. Its
/// next rows would get these numbers again.
#[test]
fn a_log_that_ends_within_a_clustered_apply_is_refused() {
    let mut random = StdRng::seed_from_u64(1);
    let (db, con, plain, _) = waiting(&SHAPES[0], 100, &mut random);
    let aside = db.path().with_extension("aside");
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        std::fs::create_dir_all(to).expect("a folder");
        for entry in std::fs::read_dir(from).expect("a folder") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copies");
        }
    };
    let shorter: i64 = one(&con, "SELECT densite_log_last()");
    drop(con);
    copy(&db.log_dir(), &aside);
    let con = storage::with_limits(&db.path(), ONE, 0);
    create(&con, "t", ", on_conflict=replace").expect("the ingest table");
    con.execute_batch("BEGIN").expect("begins");
    for n in 0..4000 {
        con.execute_batch(&format!(
            "INSERT INTO t_in VALUES ({}, 1, 1)",
            n * 1777 % 4001
        ))
        .expect("inserts");
        if n % 50 == 49 {
            con.execute_batch("COMMIT; BEGIN").expect("commits");
        }
    }
    con.execute_batch("COMMIT").expect("commits");
    plain.execute_batch("ROLLBACK").expect("rolls back");
    // A clustered apply with numbers beyond the shorter log.
    let until = Instant::now() + Duration::from_secs(20);
    let last = loop {
        assert!(Instant::now() < until, "no such clustered apply");
        match caught(&plain, usize::MAX) {
            Some(_) if place(&plain).1 > shorter => break place(&plain).1,
            _ => plain.execute_batch("ROLLBACK").expect("rolls back"),
        }
    };
    drop(con);
    plain.execute_batch("ROLLBACK").expect("rolls back");
    let newest = db.path().with_extension("newest");
    std::fs::rename(db.log_dir(), &newest).expect("moves");
    copy(&aside, &db.log_dir());
    let con = storage::with_limits(&db.path(), ONE, 0);
    let said = create(&con, "t", ", on_conflict=replace").expect_err("older");
    assert!(
        said.to_string().contains("older state of the log"),
        "{said}"
    );
    std::fs::remove_dir_all(db.log_dir()).expect("goes");
    std::fs::rename(&newest, db.log_dir()).expect("comes back");
    create(&con, "t", ", on_conflict=replace").expect("the newest");
    con.execute_batch("INSERT INTO t_in VALUES (-5, -5, -5)")
        .expect("inserts");
    assert!(one::<i64>(&con, "SELECT densite_last_seq()") > last);
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t WHERE u = -5"), 1);
}

/// Rows in front of a damaged place are applied, even if they would have been ordered together with
/// rows behind it.
#[test]
fn rows_before_damage_are_applied_in_a_clustered_apply() {
    let long = ClusteredLimits {
        most: 1 << 20,
        ..FEW
    };
    let db = Db::new(SHAPES[0].schema);
    let con = storage::with_limits(&db.path(), long, 0);
    create(&con, "t", "").expect("the ingest table");
    let held = Held::new(&db);
    for from in (0..20_000).step_by(200) {
        con.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {from} + 199) INSERT INTO t_in SELECT i * 7919 % 20011, i % 9, i FROM n"
        ))
        .expect("inserts");
    }
    drop(con);
    // The first segment has all of them.
    let segment = db.log_dir().join("000000000001.seg");
    let mut bytes = std::fs::read(&segment).expect("reads");
    let end = bytes.iter().rposition(|b| *b != 0).expect("records");
    for byte in bytes.iter_mut().take(end / 4 * 3 + 100).skip(end / 4 * 3) {
        *byte ^= 0x55;
    }
    std::fs::write(&segment, bytes).expect("writes");
    drop(held);
    let con = storage::with_limits(&db.path(), long, 0);
    create(&con, "t", "").expect("the ingest table");
    let until = Instant::now() + Duration::from_secs(20);
    while place(&con).0 < 4096 {
        assert!(Instant::now() < until, "it stays at {}", place(&con).0);
        std::thread::sleep(Duration::from_millis(10));
    }
    con.query_row("SELECT densite_wait()", [], |_| Ok(()))
        .expect_err("the rest cannot be read");
    assert!(place(&con).0 < 20_000);
}

/// Before the first release `densite_applied` had fewer columns.
#[test]
fn a_database_of_an_earlier_version_is_recognized() {
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE densite_applied(id INTEGER PRIMARY KEY CHECK (id = 1), log BLOB NOT NULL, seq INTEGER NOT NULL);
         INSERT INTO densite_applied VALUES (1, zeroblob(16), 3)",
    );
    let said = create(&db.open(), "t", "")
        .expect_err("refused")
        .to_string();
    assert!(said.contains("from before its first release"), "{said}");
}

//! Checks and figures of a database while another process writes at full speed: no false reports of
//! damage.

use crate::common::*;
use densite_testing::Stop;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a_busy_writer_is_not_reported_as_damage() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 1024, 6000);
    densite(&["compress", &a]).expect(0);
    let mut writer = Other::on(&a);
    writer.run("PRAGMA busy_timeout=10000; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=50; PRAGMA synchronous=NORMAL; PRAGMA densite_dead_limit=1");
    let stop = Stop::new();
    let rounds = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let stopping = stop.at_end();
        let writing = scope.spawn(|| {
            while !stop.is_set() && rounds.fetch_add(1, Ordering::Relaxed) < 5000 {
                // Replaces records all over the file, and moves the records between them.
                writer.run(
                    "UPDATE t SET name='name ' || (abs(random()) % 1000), score=random() WHERE id % 50 = abs(random()) % 50;
                     PRAGMA wal_checkpoint;
                     PRAGMA densite_maintain",
                );
            }
        });
        for round in 0..20 {
            let ran = densite(&["check", &a, "--json"]);
            assert_eq!(ran.code, 0, "round {round}: {ran:?}");
            let ran = densite(&["info", &a, "--json"]);
            assert_eq!(ran.code, 0, "round {round}: {ran:?}");
        }
        drop(stopping);
        writing.join().expect("it writes");
    });
    assert!(
        rounds.load(Ordering::Relaxed) > 20,
        "nothing was written meanwhile"
    );
    densite(&["check", &a]).expect(0);
}

#[test]
fn a_statement_that_meets_a_lock_names_the_process() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 300);
    for form in ["plain", "compressed"] {
        let mut other = Other::on(&a);
        other.run("BEGIN IMMEDIATE");
        let pid = other.pid();
        densite(&["sql", &a, "PRAGMA busy_timeout=0; DELETE FROM t"])
            .expect(3)
            .says(&format!("process {pid} ("));
        other.run("ROLLBACK");
        drop(other);
        if form == "plain" {
            densite(&["compress", &a]).expect(0);
        }
    }
}

/// The state of one commit, and not a mixture, while writers go on.
#[test]
fn a_copy_in_wal_mode_is_one_state_and_stops_no_writer() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    plain(&a, 4096, 10);
    let mut writer = Other::on(&a);
    writer.run(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=20;
         CREATE TABLE x(id INTEGER PRIMARY KEY, v INT, w TEXT); CREATE TABLE y(id INTEGER PRIMARY KEY, v INT);
         WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
         INSERT INTO x SELECT i, 0, hex(randomblob(30)) FROM n;
         INSERT INTO y SELECT id, v FROM x",
    );
    for form in ["plain", "compressed"] {
        if form == "compressed" {
            drop(writer);
            densite(&["compress", &a]).expect(0);
            writer = Other::on(&a);
            writer.run("PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=20");
        }
        writer.run("PRAGMA busy_timeout=10000");
        let verbs: &[&[&str]] = match form {
            "plain" => &[&["compress"]],
            _ => &[&["decompress"], &["publish", "--yes"]],
        };
        let mut reader = Other::on(&a);
        let stop = Stop::new();
        let commits = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let stopping = stop.at_end();
            let writing = scope.spawn(|| {
                while !stop.is_set() {
                    let n = commits.fetch_add(1, Ordering::Relaxed);
                    let change = format!("SET v = v + 1 WHERE id % 97 = {}", n % 97);
                    writer.run(&format!("BEGIN; UPDATE x {change}; UPDATE y {change}; COMMIT"));
                    if n % 5 == 4 {
                        // It is busy if a reader holds the WAL.
                        writer.ask("PRAGMA busy_timeout=0; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout=10000");
                    }
                }
            });
            let mut during = 0;
            for round in 0..5 {
                match round % 3 {
                    1 => reader.run("BEGIN; SELECT count(*) FROM x"),
                    2 => reader.run("COMMIT"),
                    _ => {}
                }
                for verb in verbs {
                    let _ = std::fs::remove_file(&b);
                    let before = commits.load(Ordering::Relaxed);
                    let command = [&[verb[0], &a, &b][..], &verb[1..]].concat();
                    densite(&command).expect(0);
                    during += commits.load(Ordering::Relaxed) - before;
                    let mixed = "SELECT count(*) FROM x JOIN y USING (id) WHERE x.v != y.v";
                    let out = densite(&["sql", &b, mixed, "--format", "list"])
                        .expect(0)
                        .out;
                    assert_eq!(out, "0\n", "{form}, {verb:?}, round {round}");
                    densite(&["check", &b]).expect(0);
                }
            }
            drop(stopping);
            writing.join().expect("it writes");
            assert!(during > 5, "{form}: {during} commits beside the copies");
        });
        // An open transaction is not in the copy.
        let sum = "SELECT sum(v) FROM x";
        let wanted = densite(&["sql", &a, sum, "--format", "list"]).expect(0).out;
        writer.run("BEGIN IMMEDIATE; UPDATE x SET v = -1");
        for verb in verbs {
            let _ = std::fs::remove_file(&b);
            densite(&[&[verb[0], &a, &b][..], &verb[1..]].concat()).expect(0);
            let copied = densite(&["sql", &b, sum, "--format", "list"]).expect(0).out;
            assert_eq!(copied, wanted, "{form}, {verb:?}");
        }
        writer.run("ROLLBACK");
    }
}

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

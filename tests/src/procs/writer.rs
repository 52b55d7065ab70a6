//! The role `writer`: commits one step of a [`Ledger`] after the other, and reports each.
//!
//! Arguments: subject, path, settings (SQL), seed, largest number of commits. After each commit it
//! writes the number to standard output, as 8 bytes little-endian, before the next commit begins.
//! After the last commit it closes its connection as an application would, and exits with success.

use std::io::Write;
use std::path::Path;

use rusqlite::Connection;

use super::{Subject, ledger::Ledger};

/// Runs the role.
///
/// # Panics
/// If anything fails.
pub fn run(args: &[String]) {
    let [subject, path, settings, seed, commits] = args else {
        panic!("writer wants subject, path, settings, seed, commits");
    };
    let subject: Subject = subject.parse().expect("subject");
    let seed: u64 = seed.parse().expect("seed");
    let commits: u64 = commits.parse().expect("commits");
    let db = subject.open(Path::new(path)).expect("open");
    db.execute_batch(settings).expect("settings");
    if Ledger::committed(&db).expect("look").is_none() {
        Ledger::create(&db).expect("create");
    }
    write(&db, seed, commits);
    db.close().map_err(|(_, e)| e).expect("close");
}

fn write(db: &Connection, seed: u64, commits: u64) {
    let ledger = Ledger::new(seed);
    let first = Ledger::committed(db)
        .expect("look")
        .expect("the ledger is there")
        + 1;
    let mut out = std::io::stdout();
    for n in first..first + commits {
        let step = ledger.step(n);
        match step.dice % 64 {
            0 => db
                .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
                .expect("checkpoint"),
            1 | 2 => db
                .execute_batch("PRAGMA wal_checkpoint(PASSIVE)")
                .expect("checkpoint"),
            3 => db.execute_batch("VACUUM").expect("vacuum"),
            4 | 5 => {
                db.execute_batch("BEGIN").expect("begin");
                Ledger::apply(db, n, &step).expect("apply");
                db.execute_batch("DELETE FROM entry; ROLLBACK")
                    .expect("roll back");
            }
            _ => {}
        }
        db.execute_batch("BEGIN").expect("begin");
        Ledger::apply(db, n, &step).expect("apply");
        db.execute_batch("COMMIT")
            .unwrap_or_else(|e| panic!("commit {n}: {e}"));
        out.write_all(&n.to_le_bytes())
            .and_then(|()| out.flush())
            .expect("report");
    }
}

//! Pruning before a vacuum: deleted rows are missing in the new file, and the old file is not
//! changed before it is replaced.

use densite_tools::{Api, Error, Silent, VacuumOptions, VacuumPlan};
use rusqlite::Connection;
use std::fs;
use std::path::{Path, PathBuf};

mod common;

fn queue(dir: &Path, journal: &str) -> PathBuf {
    let path = dir.join("queue.db");
    let db = Connection::open(&path).expect("open");
    db.execute_batch(&format!(
        "PRAGMA journal_mode={journal};
         CREATE TABLE queue(seq INTEGER PRIMARY KEY, payload TEXT);
         CREATE INDEX by_payload ON queue(payload);
         CREATE TABLE state(name TEXT PRIMARY KEY, seq INTEGER) WITHOUT ROWID;
         INSERT INTO state VALUES ('applied', 49000);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<50000)
           INSERT INTO queue SELECT i, printf('%064d', i) FROM n;"
    ))
    .expect("fill");
    db.close().expect("close");
    path
}

fn compressed(api: Api, path: &Path) {
    densite_tools::compress(api, path, None, &Default::default(), &mut Silent).expect("compress");
}

fn prune(db: &densite_tools::Connection) -> densite_tools::Result<()> {
    db.exec("DELETE FROM queue WHERE seq < (SELECT seq FROM state)")
        .map_err(|e| Error::Setting(e.to_string()))
}

#[test]
fn only_pruned_rows_are_deleted() {
    let api = common::api();
    for (journal, compress) in [
        ("DELETE", false),
        ("WAL", false),
        ("DELETE", true),
        ("WAL", true),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = queue(dir.path(), journal);
        if compress {
            compressed(api, &path);
        }
        let options = VacuumOptions::default();
        let plan = VacuumPlan::new(api, &path, &options).expect("look");
        plan.check().expect("check");
        let before = fs::read(&path).expect("read");
        let during = path.clone();
        let mut hook = |db: &densite_tools::Connection| {
            prune(db)?;
            assert_eq!(db.query_i64("SELECT count(*) FROM queue"), Ok(Some(1001)));
            assert!(
                fs::read(&during).expect("read") == before,
                "the file changed"
            );
            Ok(())
        };
        let report = plan
            .run(&options, Some(&mut hook), &mut Silent)
            .expect("vacuum");
        assert_eq!(report.rows, 1002);
        assert!(report.bytes_after * 4 < report.bytes_before, "{report:?}");
        let db = common::open(&path);
        let left: (i64, i64) = db
            .query_row("SELECT count(*), min(seq) FROM queue", [], |r| {
                Ok((r.get(0)?, r.get(1)?))
            })
            .expect("rows");
        assert_eq!(left, (1001, 49000));
        let check: String = db
            .query_row("PRAGMA integrity_check", [], |r| r.get(0))
            .expect("check");
        assert_eq!(check, "ok");
        let mode: String = db
            .query_row("PRAGMA journal_mode", [], |r| r.get(0))
            .expect("mode");
        assert_eq!(mode, journal.to_lowercase());
        drop(db);
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
    }
}

#[test]
fn a_failure_after_pruning_leaves_the_rows() {
    let api = common::api();
    for compress in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = queue(dir.path(), "WAL");
        if compress {
            compressed(api, &path);
        }
        let options = VacuumOptions::default();
        let plan = VacuumPlan::new(api, &path, &options).expect("look");
        let before = fs::read(&path).expect("read");
        let mut failing = |db: &densite_tools::Connection| {
            prune(db)?;
            Err(Error::Setting("as the test wants".into()))
        };
        let failed = plan.run(&options, Some(&mut failing), &mut Silent);
        assert_eq!(failed.expect_err("fails").to_string(), "as the test wants");
        // A second failure, after pruning: the caller cancels the rewrite.
        struct Stop;
        impl densite_tools::Progress for Stop {
            fn cancelled(&mut self) -> bool {
                true
            }
        }
        let mut hook = |db: &densite_tools::Connection| prune(db);
        let stopped = plan.run(&options, Some(&mut hook), &mut Stop);
        assert!(
            matches!(stopped, Err(Error::Interrupted { .. })),
            "{stopped:?}"
        );
        assert!(fs::read(&path).expect("read") == before);
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
        let rows: i64 = common::open(&path)
            .query_row("SELECT count(*) FROM queue", [], |r| r.get(0))
            .expect("rows");
        assert_eq!(rows, 50000);
    }
}

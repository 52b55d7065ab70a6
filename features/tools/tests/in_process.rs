//! The library in a process that uses SQLite itself. It must respect the locks of the connections
//! of this process, and must not drop them. (Closing any descriptor of a file drops the POSIX locks
//! of the process on it.)

mod common;

use common::api;
use densite_tools::{ConvertOptions, Error, Silent, VacuumOptions, VacuumPlan};
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

fn options() -> ConvertOptions {
    ConvertOptions {
        wait: std::time::Duration::from_millis(50),
        ..ConvertOptions::default()
    }
}

fn database(path: &Path, vfs: &str, mode: &str) -> Connection {
    api();
    let db = Connection::open(format!("file:{}?vfs={vfs}", path.display())).expect("open");
    db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(()))
        .expect("mode");
    db.execute_batch(
        "CREATE TABLE t(a, b);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<5000) INSERT INTO t SELECT i, 'text ' || i FROM n;",
    )
    .expect("fill");
    db
}

/// The locks of this process on a file, as the system lists them: kind, start and end. A list that
/// changes while it is read can lack entries, so it is read several times.
fn locks(path: &Path) -> BTreeSet<[String; 3]> {
    let inode = std::fs::metadata(path).expect("metadata").ino();
    let me = std::process::id().to_string();
    let look = || std::fs::read_to_string("/proc/locks").expect("the list");
    let lists: Vec<String> = (0..16).map(|_| look()).collect();
    let lines = lists.iter().flat_map(|list| list.lines());
    let mine = lines.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, kind, pid, place, from, to] = words[..] else {
            return None;
        };
        let is_mine = pid == me && place.ends_with(&format!(":{inode}"));
        is_mine.then(|| [kind, from, to].map(str::to_owned))
    });
    mine.collect()
}

fn beside(path: &Path, name: &str) -> PathBuf {
    path.with_file_name(name)
}

#[test]
fn locks_of_the_process_survive() {
    for (vfs, mode) in [
        ("unix", "DELETE"),
        ("unix", "WAL"),
        ("densite", "DELETE"),
        ("densite", "WAL"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.db");
        let db = database(&path, vfs, mode);
        db.execute_batch("BEGIN IMMEDIATE; UPDATE t SET b='x' WHERE a=1")
            .expect("begin");
        let held = locks(&path);
        assert!(!held.is_empty(), "{vfs} {mode}: no lock to begin with");

        densite_tools::info(api(), &path).expect("info");
        densite_tools::check(api(), &path, &mut Silent).expect("check");
        assert!(
            held.is_subset(&locks(&path)),
            "{vfs} {mode}: info or check dropped locks"
        );

        // In place the conversion is refused while this process has the database open.
        let convert = if vfs == "densite" {
            densite_tools::decompress
        } else {
            densite_tools::compress
        };
        let refused = convert(api(), &path, None, &options(), &mut Silent);
        assert!(
            matches!(refused, Err(Error::Locked { .. })),
            "{vfs} {mode}: {refused:?}"
        );
        assert!(
            held.is_subset(&locks(&path)),
            "{vfs} {mode}: a refused conversion dropped locks"
        );

        // To another file: the writer does not block it.
        let other = beside(&path, "b.db");
        convert(api(), &path, Some(&other), &options(), &mut Silent).expect("a copy");
        assert!(
            held.is_subset(&locks(&path)),
            "{vfs} {mode}: a conversion dropped locks"
        );
        db.execute_batch("COMMIT").expect("commit");
        assert_eq!(
            db.query_row("SELECT b FROM t WHERE a=1", [], |r| r.get::<_, String>(0))
                .expect("a row"),
            "x"
        );
    }
}

#[test]
fn pages_that_an_old_snapshot_keeps_in_the_wal_are_copied() {
    for vfs in ["unix", "densite"] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.db");
        let db = database(&path, vfs, "WAL");
        let reader = Connection::open(format!("file:{}?vfs={vfs}", path.display())).expect("open");
        reader
            .execute_batch("BEGIN; SELECT count(*) FROM t")
            .expect("snapshot");
        db.execute_batch(
            "UPDATE t SET b='newer'; DELETE FROM t WHERE a>4000; CREATE INDEX i ON t(b)",
        )
        .expect("write");

        let convert = if vfs == "densite" {
            densite_tools::decompress
        } else {
            densite_tools::compress
        };
        let other = beside(&path, "b.db");
        convert(api(), &path, Some(&other), &options(), &mut Silent).expect("a copy");
        let wal = if vfs == "densite" {
            "a.db-dwal"
        } else {
            "a.db-wal"
        };
        let wal = path.with_file_name(wal);
        assert!(
            std::fs::metadata(wal).expect("a WAL").len() > 0,
            "{vfs}: nothing was kept in the WAL"
        );

        let copy = Connection::open(format!("file:{}?vfs=densite", other.display())).expect("open");
        let row = |db: &Connection| {
            db.query_row("SELECT count(*), min(b), max(a) FROM t", [], |r| {
                Ok((
                    r.get::<_, i64>(0)?,
                    r.get::<_, String>(1)?,
                    r.get::<_, i64>(2)?,
                ))
            })
            .expect("a row")
        };
        assert_eq!(row(&copy), (4000, "newer".to_string(), 4000));
        assert_eq!(row(&copy), row(&db));
        assert_eq!(
            copy.query_row("PRAGMA integrity_check", [], |r| r.get::<_, String>(0))
                .expect("a row"),
            "ok"
        );
        // The reader still has its old snapshot.
        assert_eq!(
            reader
                .query_row("SELECT count(*) FROM t", [], |r| r.get::<_, i64>(0))
                .expect("a row"),
            5000
        );
    }
}

#[test]
fn a_connection_that_was_opened_before_is_refused_to_write_to_the_old_file() {
    // The connection is in this process and holds no lock, so it cannot be detected.
    for vfs in ["unix", "densite"] {
        for mode in ["DELETE", "WAL"] {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("a.db");
            drop(database(&path, vfs, mode));
            let old = Connection::open(format!("file:{}?vfs={vfs}", path.display())).expect("open");
            let convert = if vfs == "densite" {
                densite_tools::decompress
            } else {
                densite_tools::compress
            };
            convert(api(), &path, None, &options(), &mut Silent).expect("converted");
            // Reads return the old rows, which are the same. A write would go to a file that has no
            // name.
            let n: i64 = old
                .query_row("SELECT count(*) FROM t", [], |r| r.get(0))
                .expect("reads");
            assert_eq!(n, 5000, "{vfs} {mode}");
            let refused = old.execute("UPDATE t SET b='lost'", []);
            let refused = refused.expect_err("refused").to_string();
            assert!(refused.contains("readonly"), "{vfs} {mode}: {refused}");
            drop(old);
            let report = densite_tools::check(api(), &path, &mut Silent).expect("checked");
            assert!(report.ok(), "{vfs} {mode}: {report:?}");
            let lost: i64 = common::open(&path)
                .query_row("SELECT count(*) FROM t WHERE b='lost'", [], |r| r.get(0))
                .expect("reads");
            assert_eq!(lost, 0);
        }
    }
}

/// By its name, SQLite would take the journal or WAL of the new file for that of the old one. It
/// would roll the journal back, or write the WAL into the old file, and then remove it.
#[test]
fn a_connection_to_the_old_file_does_not_damage_the_new_one() {
    let reads = ["SELECT count(*) FROM t", "PRAGMA wal_checkpoint(TRUNCATE)"];
    let writes = [
        "UPDATE t SET b='old' WHERE a=2",
        "PRAGMA journal_mode=MEMORY; UPDATE t SET b='old' WHERE a=2",
        "PRAGMA journal_mode=WAL; UPDATE t SET b='old' WHERE a=2",
    ];
    // In WAL mode, every connection that has used the file holds a lock.
    let cases = [("DELETE", false), ("DELETE", true), ("WAL", false)];
    let acts = || reads.iter().chain(&writes);
    for (mode, is_used, acts) in cases
        .into_iter()
        .flat_map(|(mode, is_used)| acts().map(move |acts| (mode, is_used, *acts)))
    {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.db");
        drop(database(&path, "densite", mode));
        let old = common::open(&path);
        if is_used {
            old.execute_batch("SELECT count(*) FROM t").expect("reads");
        }
        let what = format!("{mode}, used before: {is_used}, {acts}");
        let act = |what: &str| {
            let done = old.execute_batch(acts);
            assert!(
                done.is_err() || reads.contains(&acts),
                "{what}: a write to the old file must fail"
            );
            let n = old.query_row("SELECT count(*) FROM t WHERE b LIKE 'text%'", [], |r| {
                r.get(0)
            });
            assert_eq!(n, Ok(5000), "{what}: the content of the old file");
        };
        vacuum(&path);
        let new = common::open(&path);
        // This writes pages before the commit, so there is a hot journal or a WAL with pages.
        new.execute_batch("PRAGMA cache_size=5; PRAGMA wal_autocheckpoint=0; BEGIN IMMEDIATE; UPDATE t SET b='new'")
            .expect("new");
        act(&format!("{what}, within a transaction"));
        new.execute_batch("COMMIT")
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        act(&format!("{what}, after it"));
        drop((old, new));
        let look = common::open(&path);
        let n = look.query_row("SELECT count(*) FROM t WHERE b='new'", [], |r| r.get(0));
        assert_eq!(n, Ok(5000), "{what}");
        let said = look.query_row("PRAGMA integrity_check", [], |r| r.get(0));
        assert_eq!(said, Ok("ok".to_string()), "{what}");
    }
}

fn vacuum(path: &Path) {
    let options = VacuumOptions {
        wait: std::time::Duration::from_millis(50),
        ..VacuumOptions::default()
    };
    let plan = VacuumPlan::new(api(), path, &options).expect("looked");
    plan.run(&options, None, &mut Silent).expect("vacuumed");
}

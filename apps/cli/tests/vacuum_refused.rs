//! Cases that `densite vacuum` refuses: message, exit code, and unchanged files.

use crate::common::*;
use std::fs;

/// Asserts code and message, and that no file of the directory changed.
#[track_caller]
fn refused(dir: &tempfile::TempDir, path: &str, code: i32, kind: &str, words: &str) {
    let before = snapshot(dir.path());
    let ran = densite(&["vacuum", path, "--yes", "--json", "--timeout", "0.3"])
        .expect(code)
        .says(words);
    assert_eq!(ran.json()["error"]["kind"], kind, "{ran:?}");
    assert!(
        snapshot(dir.path()) == before,
        "files changed: {:?}",
        names(dir.path())
    );
}

#[test]
fn files_that_are_not_databases() {
    let dir = temp();
    let x = at(&dir, "x.db");
    refused(&dir, &x, 1, "not_found", "there is no such file");
    fs::create_dir(&x).expect("mkdir");
    refused(&dir, &x, 5, "is_directory", "is a directory");
    fs::remove_dir(&x).expect("rmdir");
    fs::write(&x, b"").expect("write");
    refused(&dir, &x, 5, "not_a_database", "x.db is empty");
    fs::write(&x, b"a,b\n1,2\n".repeat(2000)).expect("write");
    refused(&dir, &x, 5, "not_a_database", "is not a SQLite database");
    fs::write(&x, b"SQLite format 3\0and no more").expect("write");
    refused(&dir, &x, 5, "not_a_database", "is not a SQLite database");
}

#[test]
fn newer_formats_and_damage() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 3000);
    densite(&["compress", &a]).expect(0);
    let good = fs::read(&a).expect("read");
    // A newer version is behind a checksum that only a newer writer can compute (docs/FORMAT.md).
    // This test only needs that neither file is taken for a database that can be rewritten.
    let mut bytes = good.clone();
    for byte in bytes.iter_mut().skip(70_000).step_by(5) {
        *byte ^= 0x55;
    }
    fs::write(&a, &bytes).expect("write");
    let ran = densite(&["vacuum", &a, "--yes"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(fs::read(&a).expect("read") == bytes);
    assert_eq!(names(dir.path()), ["a.db"]);
}

#[test]
fn several_hard_links() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    plain(&a, 4096, 300);
    fs::hard_link(&a, &b).expect("link");
    refused(
        &dir,
        &a,
        1,
        "several_links",
        "a.db has 2 names (hard links)",
    );
    densite(&["vacuum", &a, "--dry-run"]).expect(1);
}

#[test]
fn a_directory_without_write_permission() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 300);
    let before = snapshot(dir.path());
    chmod(&a, 0o644);
    chmod(dir.path(), 0o555);
    let ran = unprivileged(&dir, &["vacuum", &a, "--yes"]);
    let plan = unprivileged(&dir, &["vacuum", &a, "--dry-run"]);
    chmod(dir.path(), 0o755);
    ran.expect(1).says("no permission to");
    plan.expect(0);
    assert!(snapshot(dir.path()) == before);
}

#[test]
fn too_little_space_is_reported_before_the_work_begins() {
    let dir = temp();
    let a = at(&dir, "a.db");
    let most = longer_than_any_disk(&a);
    let ran = densite(&["vacuum", &a, "--yes", "--json"])
        .expect(4)
        .says("not enough disk space in");
    assert_eq!(names(dir.path()), ["a.db"]);
    let error = &ran.json()["error"];
    assert!(error["needed_bytes"].as_u64() >= Some(most), "{error}");
    assert!(error["available_bytes"].as_u64() < Some(most), "{error}");
}

#[test]
fn lock_holders_are_named() {
    for mode in ["DELETE", "WAL"] {
        for compressed in [false, true] {
            let dir = temp();
            let a = at(&dir, "a.db");
            plain(&a, 4096, 3000);
            if compressed {
                densite(&["compress", &a]).expect(0);
            }
            densite(&["sql", &a, &format!("PRAGMA journal_mode={mode}")]).expect(0);
            for holding in [
                "BEGIN; SELECT count(*) FROM t",
                "BEGIN IMMEDIATE",
                "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE t SET score=2 WHERE id=1; COMMIT",
            ] {
                let mut other = Other::on(&a);
                other.run(holding);
                let before = fs::read(&a).expect("read");
                let ran = densite(&["vacuum", &a, "--yes", "--json", "--timeout", "0.3"])
                    .expect(3)
                    .says("a.db is locked by");
                let by = ran.json()["error"]["by"].clone();
                let by = by.as_array().expect("an array");
                assert!(
                    by.iter().any(|h| h["pid"] == other.pid()),
                    "{mode} {compressed} {holding}: {by:?}"
                );
                assert!(fs::read(&a).expect("read") == before);
            }
            densite(&["vacuum", &a, "--yes"]).expect(0);
        }
    }
}

#[test]
fn a_database_that_is_attached_elsewhere() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    plain(&a, 4096, 3000);
    plain(&b, 4096, 300);
    densite(&["sql", &a, "PRAGMA journal_mode=WAL"]).expect(0);
    let mut other = Other::on(&b);
    other.run(&format!(
        "ATTACH '{a}' AS other; BEGIN; SELECT count(*) FROM other.t"
    ));
    densite(&["vacuum", &a, "--yes", "--timeout", "0.2"])
        .expect(3)
        .says(&format!("process {}", other.pid()));
    // The other one of the two databases is open without a lock. It is detected too.
    densite(&["vacuum", &b, "--yes", "--timeout", "0.2"])
        .expect(3)
        .says(&format!("process {}", other.pid()));
    other.run("COMMIT; DETACH other");
    densite(&["vacuum", &a, "--yes"]).expect(0);
    assert!(dump(&a).lines().count() > 1000);
}

#[test]
fn a_lock_is_waited_for_until_the_timeout() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 3000);
    let mut other = Other::on(&a);
    other.run("BEGIN IMMEDIATE; UPDATE t SET score=0 WHERE id=1");
    std::thread::scope(|scope| {
        let vacuum = scope.spawn(|| densite(&["vacuum", &a, "--yes", "--timeout", "30"]));
        std::thread::sleep(std::time::Duration::from_millis(500));
        other.run("COMMIT");
        drop(other);
        vacuum.join().expect("no panic").expect(0);
    });
    let score = densite(&[
        "sql",
        &a,
        "SELECT score FROM t WHERE id=1",
        "--format",
        "csv",
    ]);
    assert_eq!(score.expect(0).out, "score\n0.0\n");
    let wrong = densite(&["vacuum", &a, "--yes", "--timeout", "-1"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
}

/// A file of which a part is only in its WAL, because the second of these connections reads.
fn half_checkpointed(db: &str) -> (Other, Other) {
    let mut writer = Other::on(db);
    writer.run(
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; PRAGMA user_version = 1; PRAGMA wal_checkpoint(TRUNCATE);
         CREATE TABLE u(id INTEGER PRIMARY KEY, x);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) INSERT INTO u SELECT i, zeroblob(500) FROM n",
    );
    let mut reader = Other::on(db);
    reader.run("BEGIN; SELECT count(*) FROM u");
    // The values keep their lengths, so the first page does not change.
    writer.run("UPDATE u SET x = randomblob(500); PRAGMA wal_checkpoint");
    (writer, reader)
}

/// A reader of an old snapshot keeps a checkpoint from finishing. Pages that changed again since
/// then stay in the WAL and others are in the file, so the first page names pages that are missing.
/// This is not damage but a database in use, and it can be vacuumed when the reader is gone.
#[test]
fn a_file_that_needs_its_wal_is_refused() {
    for compressed in [false, true] {
        let dir = temp();
        let db = at(&dir, "a.db");
        plain(&db, 4096, 300);
        if compressed {
            densite(&["compress", &db]).expect(0);
        }
        let (writer, mut reader) = half_checkpointed(&db);
        let told = densite(&["info", &db, "--json"]).expect(0).json();
        let problem = told["objects_problem"].to_string();
        assert!(problem.contains("together with the journal"), "{told}");
        let vacuum = ["vacuum", &db, "--yes", "--json", "--timeout", "0.3"];
        let plan = ["vacuum", &db, "--dry-run", "--json", "--timeout", "0"];
        let compress = ["compress", &db, "--json", "--timeout", "0.3"];
        let decompress = ["decompress", &db, "--json", "--timeout", "0.3"];
        let convert = if compressed { &decompress } else { &compress };
        for command in [&vacuum[..], &plan, convert] {
            let ran = densite(command).expect(3).says("a.db is locked by");
            let error = ran.json()["error"].clone();
            assert_eq!(error["kind"], "locked", "{ran:?}");
            let by = error["by"].as_array().expect("an array");
            assert!(by.iter().any(|h| h["pid"] == reader.pid()), "{by:?}");
        }
        densite(&["check", &db]).expect(0);
        reader.run("COMMIT");
        drop((reader, writer));
        densite(&vacuum).expect(0);
        let sql = "SELECT count(*) AS n, sum(length(x)) AS bytes FROM u";
        let rows = densite(&["sql", &db, sql, "--format", "csv"]).expect(0);
        assert_eq!(rows.out, "n,bytes\n500,250000\n");
    }
}

/// A vacuum waits for the reader of a WAL as for a lock. As soon as the reader is gone, SQLite
/// writes the WAL into the file.
#[test]
fn vacuum_waits_for_a_reader_of_the_wal() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let (writer, reader) = half_checkpointed(&db);
    std::thread::scope(|scope| {
        let vacuum = scope.spawn(|| densite(&["vacuum", &db, "--yes", "--timeout", "30"]));
        std::thread::sleep(std::time::Duration::from_millis(500));
        drop((reader, writer));
        vacuum.join().expect("no panic").expect(0);
    });
}

/// Damage is reported even with a finished journal (PERSIST) beside the file.
#[test]
fn damage_beside_a_cold_journal_is_damage() {
    let dir = temp();
    let db = at(&dir, "a.db");
    plain(&db, 4096, 300);
    densite(&[
        "sql",
        &db,
        "PRAGMA journal_mode=PERSIST; UPDATE t SET score=1",
    ])
    .expect(0);
    assert_eq!(names(dir.path()), ["a.db", "a.db-journal"]);
    let mut bytes = fs::read(&db).expect("read");
    bytes[100..4096].fill(0xa5);
    fs::write(&db, bytes).expect("write");
    let told = densite(&["info", &db, "--json"]).expect(0).json();
    let problem = told["objects_problem"].to_string();
    assert!(problem.contains("damaged"), "{told}");
    refused(&dir, &db, 5, "damaged", "is damaged");
}

//! Sources with a hot journal or a WAL that a killed process left, and sources in use.

use crate::common::*;
use std::fs;
use std::path::Path;

/// Many changes with few cached pages, so SQLite writes to the file before the commit and the
/// journal is hot.
const HALF_DONE: &str = "PRAGMA cache_size=5; BEGIN; UPDATE t SET name='half done', score=score+1";

/// A plain or compressed database, with the files beside it that a killed process leaves after
/// `sql`.
fn left_by_a_killed_process(
    dir: &tempfile::TempDir,
    compressed: bool,
    sql: &str,
) -> (String, Vec<u8>) {
    let a = at(dir, "a.db");
    plain(&a, 4096, 3000);
    // The expected result: the same done to a plain file, recovered by SQLite alone.
    let plain_dir = temp();
    let control = at(&plain_dir, "a.db");
    fs::copy(&a, &control).expect("copy");
    if compressed {
        densite(&["compress", &a]).expect(0);
    }
    for db in [&a, &control] {
        let mut other = Other::on(db);
        other.run(sql);
        other.kill();
    }
    (a, recovered(&control))
}

/// Converts plain and compressed databases with such files beside them, in place and to another
/// file. The killed process left a file of the kind `left`. `check` gets the rows of the result.
fn converts_what_was_left(sql: &str, left: &str, longer_than: u64, check: impl Fn(&str)) {
    for compressed in [false, true] {
        for in_place in [false, true] {
            let dir = temp();
            let (a, want) = left_by_a_killed_process(&dir, compressed, sql);
            let form = if compressed { "d" } else { "" };
            let left = fs::metadata(at(&dir, &format!("a.db-{form}{left}"))).expect("what it left");
            assert!(left.len() > longer_than);
            let out = if in_place {
                a.clone()
            } else {
                at(&dir, "b.db")
            };
            let verb = if compressed { "decompress" } else { "compress" };
            let mut args = vec![verb, &a];
            args.extend((!in_place).then_some(out.as_str()));
            densite(&args).expect(0);
            check(&dump(&out));
            if !compressed {
                densite(&["decompress", &out]).expect(0);
            }
            assert_same_but_unused(&want, &fs::read(&out).expect("read"));
            assert!(
                names(dir.path()).iter().all(|n| n.ends_with(".db")),
                "{:?}",
                names(dir.path())
            );
        }
    }
}

#[test]
fn a_hot_journal_is_rolled_back() {
    converts_what_was_left(HALF_DONE, "journal", 512, |rows| {
        assert!(!rows.contains("half done"));
    });
}

#[test]
fn a_wal_is_written_into_the_copy() {
    let sql = "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; UPDATE t SET name='in the log' WHERE id%5=1;
               DELETE FROM t WHERE id>2500; BEGIN; UPDATE t SET name='not committed'";
    converts_what_was_left(sql, "wal", 4096, |rows| {
        assert!(rows.contains("in the log") && !rows.contains("not committed"));
    });
}

/// It is of another database that had the name, and replacing the file would remove it.
#[test]
fn a_journal_or_wal_of_the_other_form_is_refused_in_place() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 300);
    let refused = |verb: &str, ending: &str| {
        let foreign = format!("{a}{ending}");
        fs::write(&foreign, [0xd9; 600]).expect("writes");
        let before = snapshot(dir.path());
        let ran = densite(&[verb, &a, "--yes"]);
        assert!(ran.code != 0 && ran.err.contains(ending), "{verb}: {ran:?}");
        assert!(snapshot(dir.path()) == before, "{verb} {ending}");
        fs::remove_file(&foreign).expect("removes");
    };
    refused("compress", "-dwal");
    refused("compress", "-djournal");
    refused("vacuum", "-dwal");
    densite(&["compress", &a]).expect(0);
    refused("decompress", "-wal");
    refused("decompress", "-journal");
    refused("vacuum", "-journal");
    refused("check", "-wal");
    densite(&["decompress", &a]).expect(0);
}

#[test]
fn a_persistent_journal_is_cold() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 1000);
    densite(&[
        "sql",
        &a,
        "PRAGMA journal_mode=PERSIST; UPDATE t SET score=1",
    ])
    .expect(0);
    assert!(
        fs::metadata(at(&dir, "a.db-journal"))
            .expect("a journal")
            .len()
            > 0
    );
    densite(&["compress", &a]).expect(0);
    assert_eq!(names(dir.path()), ["a.db"]);
    densite(&["check", &a]).expect(0);
}

#[test]
fn a_copy_is_made_while_others_read_and_write() {
    for compressed in [false, true] {
        let verb = if compressed { "decompress" } else { "compress" };
        for mode in ["DELETE", "WAL"] {
            let dir = temp();
            let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
            plain(&a, 4096, 3000);
            if compressed {
                densite(&["compress", &a]).expect(0);
            }
            densite(&["sql", &a, &format!("PRAGMA journal_mode={mode}")]).expect(0);
            let mut writer = Other::on(&a);
            let mut reader = Other::on(&a);
            writer.run("PRAGMA wal_autocheckpoint=0; UPDATE t SET name='first'");
            reader.run("BEGIN; SELECT count(*) FROM t");
            if mode == "WAL" {
                // The snapshot of the reader now keeps these frames in the WAL.
                writer.run("UPDATE t SET name='second' WHERE id%2=1; DELETE FROM t WHERE id>2000");
                writer.run("INSERT INTO t(name) SELECT 'third' FROM t");
            }
            // The rows as every connection sees them now.
            let want = dump(&a);
            densite(&[verb, &a, &b]).expect(0);
            assert_eq!(dump(&b), want, "{mode}");
            densite(&["check", &b]).expect(0);
            // In place, their locks make the conversion fail.
            let before = fs::read(&a).expect("read");
            let ran = densite(&[verb, &a, "--timeout", "0.2"]);
            let ran = ran.expect(3).says("a.db is locked");
            assert!(
                ran.err.contains(&format!("process {}", reader.pid())),
                "{ran:?}"
            );
            // In a compressed file, the background worker of the writer can be reclaiming space.
            assert!(compressed || fs::read(&a).expect("read") == before);
            assert_eq!(dump(&a), want, "{mode}");
            // The connections can continue.
            reader.run("SELECT count(*) FROM t; COMMIT");
            writer.run("UPDATE t SET name='last'");
        }
    }
}

#[test]
fn a_lock_is_reported_with_its_holder() {
    for mode in ["DELETE", "WAL"] {
        for compressed in [false, true] {
            let dir = temp();
            let a = at(&dir, "a.db");
            plain(&a, 4096, 300);
            if compressed {
                densite(&["compress", &a]).expect(0);
            }
            let verb = if compressed { "decompress" } else { "compress" };
            densite(&["sql", &a, &format!("PRAGMA journal_mode={mode}")]).expect(0);
            let mut other = Other::on(&a);
            other.run("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE t SET score=2 WHERE id=1; COMMIT");
            let b = at(&dir, "b.db");
            let before = fs::read(&a).expect("read");
            let tries = [
                &[verb, &*a, "--json", "--timeout", "0.3"][..],
                &[verb, &a, &b, "--json", "--timeout", "0.3"],
                &["info", &a, "--json"],
                &["check", &a, "--json"],
            ];
            // Each command waits for the lock, so they run in parallel.
            std::thread::scope(|scope| {
                for args in tries {
                    let pid = other.pid();
                    scope.spawn(move || {
                        let ran = densite(args).expect(3).says("a.db is locked by process");
                        let error = &ran.json()["error"];
                        assert_eq!(error["kind"], "locked");
                        let by = error["by"].as_array().expect("an array");
                        let holder = by
                            .iter()
                            .find(|h| h["pid"] == pid)
                            .unwrap_or_else(|| panic!("{args:?}: {error}"));
                        assert_eq!(holder["name"], "densite");
                    });
                }
            });
            assert!(fs::read(&a).expect("read") == before);
            assert!(!Path::new(&b).exists());
            drop(other);
            densite(&[verb, &a]).expect(0);
        }
    }
}

#[test]
fn sql_waits_and_then_reports_the_lock() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 300);
    let mut other = Other::on(&a);
    other.run("BEGIN EXCLUSIVE");
    densite(&["sql", &a, "PRAGMA busy_timeout=10; UPDATE t SET score=1"])
        .expect(3)
        .says("statement 2, line 1 (UPDATE t SET score=1): database is locked");
}

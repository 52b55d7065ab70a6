//! `densite restore --force` that is killed, or fails, at any call that changes a file: the database
//! and its log are the old ones, or the next restore finishes.

use crate::common::{DENSITE, Ran, at, densite, names, run, temp};
use densite_testing::Effort;
use std::path::Path;
use std::process::Command;

/// EIO.
const FAILS: &str = "5";

/// The library that counts calls (`common/failing.c`).
fn library(dir: &Path) -> String {
    let library = dir.join("failing.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/failing.c");
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-shared", "-fPIC", "-Wno-unused-result", "-o"]);
    run(compile
        .args([library.as_os_str(), source.as_ref()])
        .arg("-ldl"))
    .expect(0);
    library.to_str().expect("UTF-8").to_owned()
}

/// A database whose rows wait in its log.
fn made(path: &str, rows: &str, has_log: bool) {
    let table = "PRAGMA journal_mode=WAL; CREATE TABLE e(k INTEGER PRIMARY KEY)";
    let ingest = format!("SELECT densite_pause('e'); INSERT INTO e_in VALUES {rows}");
    let statements = match has_log {
        true => vec![
            format!("{table}; SELECT densite_config('ingest', 'e', '')"),
            ingest,
        ],
        false => vec![format!("{table}; INSERT INTO e VALUES {rows}")],
    };
    for sql in statements {
        densite(&["sql", "--create", path, &sql]).expect(0);
    }
}

fn copied(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    run(copy.arg("-a").arg(format!("{}/.", from.display())).arg(to)).expect(0);
}

/// The rows with those in the log, or the message of a failure.
fn rows(db: &str, has_log: bool) -> Ran {
    let table = if has_log { "e_in" } else { "e" };
    let sql = format!("SELECT group_concat(k) FROM (SELECT k FROM {table} ORDER BY k)");
    densite(&["sql", db, &sql, "--format", "csv"])
}

#[track_caller]
fn has(db: &str, has_log: bool, wanted: &str, what: &str) {
    let found = rows(db, has_log);
    assert!(
        found.code == 0 && found.out.contains(wanted),
        "{what}: {found:?}"
    );
}

/// Restores a database with or without a log over one with or without a log, and stops at each call.
fn at_each_call((old_log, new_log): (bool, bool), fails: bool) {
    let template = temp();
    let library = library(template.path());
    let source = at(&template, "x.db");
    made(&source, "(1), (2)", new_log);
    let replica = at(&template, "replica");
    densite(&["replicate", &source, &replica, "--once", "-q"]).expect(0);
    made(&at(&template, "a.db"), "(7), (8)", old_log);
    let (old, new) = ("\"7,8\"", "\"1,2\"");
    let mut hits = 0;
    let effort = Effort::wanted();
    // A part of the usual effort stops at a part of the calls.
    let (first, step) = match effort.is_full() {
        true => (1, 1),
        false => (densite_testing::fresh_seed() % 8 + 1, 8),
    };
    for call in (first..).step_by(step) {
        let dir = temp();
        copied(template.path(), dir.path());
        let (db, replica, mark) = (at(&dir, "a.db"), at(&dir, "replica"), at(&dir, "mark"));
        let restore = ["restore", &replica, &db, "--force", "--yes"];
        let mut command = Command::new(DENSITE);
        command.args(restore).env("LD_PRELOAD", &library);
        command.env("CALL", call.to_string()).env("MARK", &mark);
        if fails {
            command.env("FAIL_WITH", FAILS);
        }
        let ran = run(&mut command);
        let what = format!("call {call} of {old_log} to {new_log}, fails {fails}: {ran:?}");
        if std::fs::symlink_metadata(&mark).is_err() {
            assert_eq!(ran.code, 0, "{what}");
            has(&db, new_log, new, &what);
            break;
        }
        hits += 1;
        if ran.code == 0 {
            has(&db, new_log, new, &what);
        } else if fails && !ran.err.contains("restored, but") && !ran.err.contains("put back") {
            has(&db, old_log, old, &what);
        }
        // Whoever opens the database meanwhile does not keep the next run from that.
        if call % 2 == 0 {
            let _ = rows(&db, new_log);
            let _ = densite(&["sql", &db, "SELECT count(*) FROM e"]);
        }
        // The next run repairs names even if it is refused. Then all is old or all is new.
        densite(&["restore", &replica, &db])
            .expect(1)
            .says("exists");
        let is_new = rows(&db, new_log).out.contains(new);
        if !is_new {
            has(&db, old_log, old, &what);
        }
        densite(&restore).expect(0);
        has(&db, new_log, new, &what);
        let left = names(dir.path());
        let odd =
            |name: &&String| name.contains("-densite-tmp-") || name.contains("before-restore");
        assert_eq!(left.iter().find(odd), None, "{what}");
        assert_eq!(left.contains(&"a.db-log".to_owned()), new_log, "{what}");
    }
    assert!(hits > effort.least(20), "only {hits} calls were counted");
}

#[test]
fn a_restore_that_is_killed_at_any_call_is_finished_or_undone() {
    at_each_call((true, true), false);
    at_each_call((true, false), false);
    at_each_call((false, true), false);
}

#[test]
fn a_restore_that_fails_at_any_call_is_finished_or_undone() {
    at_each_call((true, true), true);
    at_each_call((true, false), true);
    at_each_call((false, true), true);
}

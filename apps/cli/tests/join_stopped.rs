//! `densite join` that is killed at a call that changes a file, or for which that call fails, and is
//! then run again: the database becomes a member.

use crate::common::{at, densite, run, temp};
use crate::members::Server;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCHEMA: &str = "PRAGMA journal_mode = WAL; CREATE TABLE vote(id INTEGER PRIMARY KEY, n INT); INSERT INTO vote VALUES (1, 1); SELECT densite_config('ingest', 'vote', '')";
/// EIO.
const FAILURE: i32 = 5;

fn sql(db: &str, sql: &str) -> String {
    densite(&["sql", db, sql, "--format", "csv"]).expect(0).out
}

/// The library that kills; `None`: there is no C compiler.
fn library(dir: &Path) -> Option<PathBuf> {
    let library = dir.join("calls.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/calls.c");
    let built = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .args([&library, Path::new(source)])
        .arg("-ldl")
        .status();
    match built {
        Ok(status) => {
            assert!(status.success(), "calls.c");
            Some(library)
        }
        Err(e) => {
            densite_testing::skip(&format!("no C compiler: {e}"));
            None
        }
    }
}

/// Which database joins.
#[derive(Debug, Clone, Copy)]
enum Joins {
    First,
    /// A copy without a log.
    Second,
    /// A copy with a log.
    WithLog,
}

impl Joins {
    /// Makes what has to be there. Returns the path of the database.
    fn prepare(self, dir: &tempfile::TempDir, server: &Server, address: &str) -> String {
        let a = at(dir, "a.db");
        densite(&["sql", "--create", &a, SCHEMA]).expect(0);
        if matches!(self, Joins::First) {
            return a;
        }
        server.join(&[&a, address, "--origin", "a"]).expect(0);
        let b = at(dir, "b.db");
        match self {
            Joins::WithLog => {
                std::fs::copy(&a, &b).expect("copied");
                let cp = ["-r", &format!("{a}-log"), &format!("{b}-log")].map(str::to_owned);
                assert!(Command::new("cp").args(cp).status().expect("cp").success());
            }
            _ => drop(sql(&a, &format!("VACUUM INTO '{b}'"))),
        }
        b
    }
}

/// Joins with this call killed or failing, and again. `error` is 0 for a kill. Returns false if there
/// is no such call.
fn stop_at(joins: Joins, call: u64, error: i32, server: &Server, library: &Path) -> bool {
    let dir = temp();
    let address = server.address(&format!("S{call}-{error}"));
    let db = joins.prepare(&dir, server, &address);
    let count = at(&dir, "count");
    let mut command = server.joining(&[&db, &address, "--origin", "m"]);
    command
        .env("LD_PRELOAD", library)
        .env("KILL_AT", call.to_string())
        .env("COUNT_FILE", &count);
    if error != 0 {
        command.env("FAIL_WITH", error.to_string());
    }
    drop(command.output().expect("the command runs"));
    let calls = std::fs::read_to_string(&count).ok();
    let calls: Option<u64> = calls.and_then(|calls| calls.parse().ok());
    let what = format!("{joins:?}, call {call}, error {error}");
    let again = run(&mut server.joining(&[&db, &address, "--origin", "m"]));
    assert_eq!(again.code, 0, "{what}: {}", again.err);
    // It is a member, once, and works.
    let row = sql(
        &db,
        "INSERT INTO vote_in VALUES (7, 7); SELECT densite_wait() > 0; SELECT count(*) FROM vote; SELECT members, skipped_messages, stopped, trouble FROM densite_stream_status()",
    );
    let members = if matches!(joins, Joins::First) {
        "m"
    } else {
        "a m"
    };
    assert!(row.contains(&format!("{members},0,,")), "{what}: {row}");
    assert!(row.contains("\n2\n"), "{what}: {row}");
    let left = sql(
        &db,
        "SELECT count(*) FROM sqlite_schema WHERE name = 'densite_joining'",
    );
    assert!(left.contains("\n0\n"), "{what}: {left}");
    if !matches!(joins, Joins::First) {
        let a = at(&dir, "a.db");
        sql(
            &a,
            "INSERT INTO vote_in VALUES (8, 8); SELECT densite_wait()",
        );
        let rows = sql(&a, "SELECT count(*) FROM vote");
        assert!(rows.contains("\n3\n"), "{what}: {rows}");
    }
    calls.is_none_or(|calls| call <= calls)
}

/// Every call from the first one on, in these steps. Returns how many; `None`: there is no compiler
/// or no server.
fn stop_each(joins: Joins, first: u64, step: u64) -> Option<u64> {
    let dir = temp();
    let (library, server) = (library(dir.path())?, Server::start()?);
    let mut done = 0;
    for error in [0, FAILURE] {
        let mut call = first;
        while stop_at(joins, call, error, &server, &library) {
            call += step;
            done += 1;
        }
    }
    Some(done)
}

fn some(joins: Joins) {
    let first = 1 + u64::from(std::process::id()) % 9;
    println!("from call {first}");
    assert_ne!(stop_each(joins, first, 9), Some(0));
}

#[test]
fn a_first_join_that_was_stopped_is_repeated() {
    some(Joins::First);
}

#[test]
fn a_join_of_a_copy_that_was_stopped_is_repeated() {
    some(Joins::Second);
}

#[test]
fn a_join_of_a_copy_with_a_log_that_was_stopped_is_repeated() {
    some(Joins::WithLog);
}

/// A part of `make crash`: all calls.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_joining() {
    densite_testing::long_run("kills and failures", |_| {
        [Joins::First, Joins::Second, Joins::WithLog]
            .map(|joins| stop_each(joins, 1, 1).unwrap_or(0))
            .iter()
            .sum()
    });
}

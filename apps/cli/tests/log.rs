//! `densite log`: status, subscribers, pruning, following, damage and repair; and the log in
//! `densite info`.

use crate::common::{at, densite, names, snapshot, temp};
use densite_disk::RealDir;
use densite_log::{Batch, Log, LogId, Op, Options, Table, Txn, Value};
use std::path::Path;
use std::sync::Arc;

/// Creates a database with a log and a subscriber "first". Returns the log as another process has
/// it open.
fn made(dir: &tempfile::TempDir) -> (String, Log) {
    let db = at(dir, "a.db");
    let sql = "CREATE TABLE vote(id INTEGER PRIMARY KEY, by TEXT)";
    densite(&["sql", "--create", &db, sql]).expect(0);
    densite(&["log", "subscribe", &db, "first", "--from", "start"]).expect(0);
    let log = open(&db);
    (db, log)
}

fn open(db: &str) -> Log {
    let ran = densite(&["log", "status", db, "--json"]).expect(0);
    let id = ran.json()["id"].as_str().expect("an id").to_owned();
    let byte = |i: usize| u8::from_str_radix(&id[2 * i..2 * i + 2], 16).expect("hex");
    let options = Options {
        segment_bytes: 16 << 10,
        background: false,
        ..Options::new(LogId(std::array::from_fn(byte)))
    };
    Log::open(Arc::new(RealDir::new(format!("{db}-log"))), options).expect("opens")
}

/// Appends rows until there are three segments. Returns the number of the last row.
fn fill_segments(log: &Log) -> u64 {
    let mut last = 0;
    while log.status().expect("status").segments < 3 {
        let next = i64::try_from(last).expect("small");
        last = append(log, next..next + 10, &format!("{last:0300}"));
    }
    last
}

fn append(log: &Log, ids: std::ops::Range<i64>, by: &str) -> u64 {
    let table = Table::new("vote", ["id", "by"], 1, "\u{1}abort").expect("a table");
    let mut last = 0;
    for id in ids {
        let mut batch = Batch::new(&table, Op::Insert);
        batch
            .push(&[Value::Int(id), Value::Text(by.as_bytes())])
            .expect("push");
        last = log
            .append(Txn::of(log.new_txn(), &batch).expect("txn"))
            .expect("append")
            .last;
    }
    last
}

#[test]
fn status_shows_the_positions_of_applier_and_subscribers() {
    let dir = temp();
    let (db, log) = made(&dir);
    append(&log, 0..30, "ann");
    densite(&[
        "sql",
        &db,
        "SELECT densite_ack('first', 10); UPDATE densite_applied SET seq = 25",
    ])
    .expect(0);
    let before = snapshot(Path::new(&format!("{db}-log")));
    let status = densite(&["log", "status", &db, "--json"]).expect(0).json();
    for (field, value) in [
        ("first", 1),
        ("last", 30),
        ("segments", 1),
        ("applied", 25),
        ("unapplied_rows", 5),
        ("rejects", 0),
    ] {
        assert_eq!(status[field], value, "{field}: {status}");
    }
    assert_eq!(status["applying"], false, "no process has it open");
    assert_eq!(status["auto_prune"], true);
    assert_eq!(status["slowest"]["name"], "first");
    assert_eq!(status["subscribers"][0]["rows_behind"], 20);
    let text = densite(&["log", "status", &db]).expect(0).out;
    for words in [
        "1 to 30",
        "5 rows",
        "no process now",
        "subscriber first",
        "at 10, 20 rows behind",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    let info = densite(&["info", &db, "--json"]).expect(0).json();
    assert_eq!(info["log"]["slowest"]["rows_behind"], 20);
    let text = densite(&["info", &db]).expect(0).out;
    assert!(
        text.contains("slowest subscriber")
            && text.contains("first: 20 rows")
            && text.contains("no process now"),
        "{text}"
    );
    assert_eq!(
        snapshot(Path::new(&format!("{db}-log"))),
        before,
        "reading the status must not change the log"
    );

    let plain = at(&dir, "plain.db");
    crate::common::plain(&plain, 4096, 10);
    assert!(densite(&["info", &plain, "--json"]).expect(0).json()["log"].is_null());
    densite(&["log", "status", &plain])
        .expect(1)
        .says("has no log");
    densite(&["log", "status", &at(&dir, "none.db")])
        .expect(1)
        .says("none.db");
    densite(&["log", "subscribe", &at(&dir, "none.db"), "s"])
        .expect(1)
        .says("none.db");
    assert!(
        !names(dir.path()).contains(&"none.db".to_owned()),
        "reading the status must not create a log"
    );
}

#[test]
fn status_shows_how_long_rows_wait_and_how_fast_they_are_applied() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let sql = "CREATE TABLE vote(id INTEGER PRIMARY KEY, by TEXT); SELECT densite_config('ingest', 'vote', '')";
    densite(&["sql", "--create", &db, sql]).expect(0);
    let status = || densite(&["log", "status", &db, "--json"]).expect(0).json();
    let before = status();
    assert!(before["oldest_unapplied_seconds"].is_null(), "{before}");
    assert_eq!(before["applied_per_second"], 0.0);
    let sql = "INSERT INTO vote_in WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 5000) SELECT i, 'ann' FROM i; SELECT densite_wait(); SELECT densite_pause('vote'); INSERT INTO vote_in VALUES (9001, 'bob'), (9002, 'bob')";
    densite(&["sql", &db, sql]).expect(0);
    std::thread::sleep(std::time::Duration::from_millis(1200));
    let status = status();
    for (field, value) in [("last", 5002), ("applied", 5000), ("unapplied_rows", 2)] {
        assert_eq!(status[field], value, "{field}: {status}");
    }
    assert_eq!(status["paused"][0], "vote");
    let age = status["oldest_unapplied_seconds"].as_f64().expect("an age");
    assert!((1.2..60.0).contains(&age), "{status}");
    let rate = status["applied_per_second"].as_f64().expect("a rate");
    assert!(rate > 0.0 && rate <= 500.0, "{status}");
    let text = densite(&["log", "status", &db]).expect(0).out;
    for words in ["2 rows", "the oldest for", "rows a second"] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
}

#[test]
fn subscribers_can_be_added_and_removed() {
    let dir = temp();
    let (db, log) = made(&dir);
    append(&log, 0..3, "ann");
    let ran = densite(&["log", "subscribe", &db, "second", "--json"]).expect(0);
    assert_eq!(ran.json()["position"], 3);
    densite(&["log", "subscribe", &db, "second"])
        .expect(1)
        .says("is a subscriber \"second\" already");
    densite(&["log", "subscribe", &db, "a b"])
        .expect(1)
        .says("\"a b\" is no name");
    densite(&["log", "unsubscribe", &db, "second"]).expect(0);
    densite(&["log", "unsubscribe", &db, "second"])
        .expect(1)
        .says("no subscriber \"second\"");
    let status = densite(&["log", "status", &db, "--json"]).expect(0).json();
    assert_eq!(status["subscribers"].as_array().map(Vec::len), Some(1));
}

#[test]
fn tail_prints_the_last_rows() {
    let dir = temp();
    let (db, log) = made(&dir);
    append(&log, 0..30, "ann");
    let out = densite(&["log", "tail", &db, "-n", "2"]).expect(0).out;
    assert_eq!(
        out,
        "29 insert vote {\"id\":28,\"by\":\"ann\"}\n30 insert vote {\"id\":29,\"by\":\"ann\"}\n"
    );
    assert_eq!(
        densite(&["log", "tail", &db]).expect(0).out.lines().count(),
        10
    );
    let json = densite(&["log", "tail", &db, "--after", "0", "-n", "1", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        json["rows"],
        serde_json::json!([{"seq": 1, "table": "vote", "op": "insert", "key": {"id": 0}, "row": {"id": 0, "by": "ann"}}])
    );
    densite(&["log", "tail", &db, "--follow", "--json"]).expect(2);
}

#[test]
fn prune_removes_rows_that_all_subscribers_have() {
    let dir = temp();
    let (db, log) = made(&dir);
    let last = append(
        &log,
        0..20,
        &"x".repeat(1000).replace('x', "never the same twice"),
    );
    let mut last = last;
    while log.status().expect("status").segments < 3 {
        let payload: String = (0..3000)
            .map(|i| char::from(b'a' + ((i * i + last * 7) % 26) as u8))
            .collect();
        last = append(&log, 0..3, &payload);
    }
    let freed = |db: &str| {
        densite(&["log", "prune", db, "--json"]).expect(0).json()["freed_bytes"].as_u64()
    };
    assert_eq!(freed(&db), Some(0));
    let sql =
        format!("SELECT densite_ack('first', {last}); UPDATE densite_applied SET seq = {last}");
    densite(&["sql", &db, &sql]).expect(0);
    assert!(freed(&db) > Some(0));
    assert_eq!(log.status().expect("status").segments, 1);
}

#[test]
fn damage_is_reported_with_a_repair() {
    let dir = temp();
    let (db, log) = made(&dir);
    append(&log, 0..100, "ann");
    let ok = densite(&["log", "check", &db, "--json"]).expect(0).json();
    assert_eq!(
        (&ok["ok"], &ok["rows"], &ok["repair"]),
        (&true.into(), &100.into(), &().into())
    );
    let segment = format!("{db}-log/000000000001.seg");
    let mut bytes = std::fs::read(&segment).expect("read");
    // A byte in the payload of a row in the middle. Before the rows are a header of 72 bytes and
    // the record of the table.
    let at = bytes.windows(3).rposition(|w| w == b"ann").expect("there") - 50 * 100;
    bytes[at] ^= 1;
    std::fs::write(&segment, &bytes).expect("written");
    let said = densite(&["log", "check", &db, "--json"]).expect(5).json();
    assert_eq!(said["problems"][0]["segment"], "000000000001.seg");
    assert!(said["problems"][0]["offset"].as_u64() <= Some(at as u64));
    densite(&["log", "check", &db, "--repair", "--yes"])
        .expect(3)
        .says("another process has the log open");
    drop(log);
    let before = snapshot(Path::new(&format!("{db}-log")));
    // There is no terminal to ask on.
    assert_eq!(densite(&["log", "check", &db, "--repair"]).code, 6);
    assert_eq!(snapshot(Path::new(&format!("{db}-log"))), before);
    let ran = densite(&["log", "check", &db, "--repair", "--yes", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("lost: rows "), "{}", ran.err);
    let repair = &ran.json()["repair"];
    assert_eq!(repair["rollbacks_lost"], false);
    let (lost, rows) = (
        &repair["lost"][0],
        repair["rows"].as_u64().expect("a number"),
    );
    assert_eq!(
        lost["last"].as_u64().expect("last") - lost["first"].as_u64().expect("first") + 1,
        100 - rows
    );
    assert!(rows >= 99, "one row is lost at most: {ran:?}");
    let aside = format!("{db}-log-damaged");
    assert_eq!(
        snapshot(Path::new(&aside)),
        before,
        "the damaged log is kept unchanged"
    );
    densite(&["log", "check", &db]).expect(0);
    let log = open(&db);
    assert_eq!(append(&log, 0..1, "bob"), 101);
    assert_eq!(
        densite(&["log", "status", &db, "--json"]).expect(0).json()["subscribers"][0]["name"],
        "first"
    );
    assert_eq!(
        densite(&["log", "tail", &db, "--after", "0", "-n", "1000"])
            .expect(0)
            .out
            .lines()
            .count() as u64,
        rows + 1
    );
}

/// Lost rows at the beginning are reported as missing in the database, and the database continues
/// with the kept rows.
#[test]
fn a_database_uses_the_log_whose_first_segment_was_lost() {
    for (is_missing, with_state) in [(true, true), (false, true), (true, false), (false, false)] {
        let what = format!("missing {is_missing}, with state {with_state}");
        let dir = temp();
        let (db, log) = made(&dir);
        let mut last = 0;
        while log.status().expect("status").segments < 3 {
            let next = i64::try_from(last).expect("small");
            last = append(&log, next..next + 10, &format!("{last:0300}"));
        }
        drop(log);
        let sql =
            format!("SELECT densite_ack('first', {last}); UPDATE densite_applied SET seq = 5");
        densite(&["sql", &db, &sql]).expect(0);
        let path = |name: &str| format!("{db}-log/{name}");
        let first = path("000000000001.seg");
        let mut bytes = std::fs::read(&first).expect("there");
        bytes[50] ^= 3;
        if is_missing {
            std::fs::remove_file(&first).expect("removed");
        } else {
            std::fs::write(&first, &bytes).expect("written");
        }
        if !with_state {
            std::fs::write(path("state"), "nonsense").expect("written");
        }
        let ran = densite(&["log", "check", &db, "--repair", "--yes", "--json"]).expect(0);
        let repair = &ran.json()["repair"];
        let (kept, lost) = (repair["rows"].as_u64(), &repair["lost"][0]);
        assert_eq!(lost["first"], 6, "{what}: {ran:?}");
        assert_eq!(lost["segment"], "000000000001.seg", "{what}: {ran:?}");
        let gap = lost["last"].as_u64().expect("a number");
        assert_eq!(kept, Some(last - gap), "{what}: {ran:?}");
        let sql = format!("SELECT densite_wait({last}); SELECT count(*) AS n FROM vote");
        let ran = densite(&["sql", &db, &sql]).expect(0);
        let rows = format!("│ {} │", last - gap);
        assert!(ran.out.contains(&rows), "{what}: {ran:?}");
    }
}

/// Damage can remove the end of the log, including rows that the database has.
#[test]
fn a_database_continues_with_a_repaired_log_that_ends_before_its_position() {
    let dir = temp();
    let (db, log) = made(&dir);
    let last = fill_segments(&log);
    drop(log);
    let path = |name: &str| format!("{db}-log/{name}");
    std::fs::remove_file(path("000000000003.seg")).expect("removed");
    std::fs::remove_file(path("end")).expect("removed");
    let mut bytes = std::fs::read(path("000000000001.seg")).expect("there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path("000000000001.seg"), &bytes).expect("written");
    let sql = format!("UPDATE densite_applied SET seq = {last}");
    densite(&["sql", &db, &sql]).expect(0);
    densite(&["log", "check", &db, "--repair", "--yes"]).expect(0);
    let sql = "CREATE VIRTUAL TABLE temp.vote_in USING densite_ingest(vote); INSERT INTO vote_in VALUES (-1, 'new'); SELECT densite_wait() AS last; SELECT count(*) AS n FROM vote";
    let ran = densite(&["sql", &db, sql]).expect(0);
    let (end, rows) = (format!(" {} │", last + 1), " 1 │");
    assert!(ran.out.contains(&end) && ran.out.contains(rows), "{ran:?}");
}

#[test]
fn a_database_older_than_the_start_of_the_log_is_reported() {
    let dir = temp();
    let (db, log) = made(&dir);
    let last = fill_segments(&log);
    drop(log);
    let applied = |seq: u64| {
        let sql = format!("UPDATE densite_applied SET seq = {seq}");
        densite(&["sql", &db, &sql]).expect(0);
    };
    applied(last);
    densite(&["log", "unsubscribe", &db, "first"]).expect(0);
    densite(&["log", "prune", &db]).expect(0);
    let status = || densite(&["log", "status", &db, "--json"]).expect(0).json();
    assert!(status()["first"].as_u64() > Some(1), "{}", status());
    assert!(status()["misfit"].is_null(), "{}", status());
    applied(0);
    let misfit = status()["misfit"].as_str().unwrap_or_default().to_owned();
    assert!(
        misfit.contains("older than the log reaches back"),
        "{misfit}"
    );
    densite(&["log", "check", &db]).expect(5).says(&misfit);
}

/// Losing the state also loses which transactions were rolled back. Every user of the log gets an
/// error that it is damaged or missing. The repair reports this loss before it asks, and in JSON.
#[test]
fn a_repair_reports_that_rollbacks_are_lost() {
    for is_missing in [false, true] {
        let dir = temp();
        let (db, log) = made(&dir);
        append(&log, 0..3, "ann");
        let table = Table::new("vote", ["id", "by"], 1, "\u{1}abort").expect("a table");
        let mut batch = Batch::new(&table, Op::Insert);
        batch
            .push(&[Value::Int(3), Value::Text(b"bob")])
            .expect("push");
        let txn = Arc::new(Txn::of(log.new_txn(), &batch).expect("txn"));
        log.prepare(&txn).expect("prepare");
        log.cancel(txn.id()).expect("cancel");
        drop(log);
        let tail = || {
            let ran = densite(&["log", "tail", &db, "--after", "0"]).expect(0);
            ran.out.lines().count()
        };
        assert_eq!(tail(), 3);
        let state = format!("{db}-log/state");
        if is_missing {
            std::fs::remove_file(&state).expect("removed");
        } else {
            std::fs::write(&state, "nonsense").expect("written");
        }
        let before = snapshot(Path::new(&format!("{db}-log")));
        for verb in ["status", "tail", "check"] {
            let ran = densite(&["log", verb, &db]).expect(5);
            let said = format!("{}{}", ran.out, ran.err);
            assert!(said.contains("state, offset 0"), "{verb}: {said}");
            assert!(said.contains("--repair"), "{verb}: {said}");
        }
        // The log is damaged, not the database.
        let ran = densite(&["sql", &db, "SELECT densite_wait()"]).expect(5);
        assert!(ran.err.contains("densite log check"), "{ran:?}");
        assert!(!ran.err.contains("restore it from a backup"), "{ran:?}");
        assert_eq!(snapshot(Path::new(&format!("{db}-log"))), before);
        let ran = densite(&["log", "check", &db, "--repair"]);
        assert_eq!(ran.code, 6);
        assert!(
            ran.err
                .contains("lost: which transactions were rolled back"),
            "{ran:?}"
        );
        let ran = densite(&["log", "check", &db, "--repair", "--yes", "--json"]).expect(0);
        assert_eq!(ran.json()["repair"]["rollbacks_lost"], true);
        assert_eq!(tail(), 4);
    }
}

/// A message that already says what to do gets no second advice.
#[test]
fn a_wait_in_a_transaction_says_what_to_do() {
    let dir = temp();
    let (db, log) = made(&dir);
    append(&log, 0..1, "ann");
    let sql = "BEGIN; INSERT INTO vote VALUES (9, 'bob'); SELECT densite_wait(1)";
    let ran = densite(&["sql", &db, sql]).expect(3);
    assert!(ran.err.trim_end().ends_with("; end it first"), "{ran:?}");
}

/// Status, check and tail need no permission to write.
#[test]
fn reading_needs_no_permission_to_write() {
    use std::os::unix::fs::PermissionsExt;
    let dir = temp();
    let (db, log) = made(&dir);
    append(&log, 0..3, "ann");
    drop(log);
    let path = format!("{db}-log");
    let set = |mode: u32, files: u32| {
        for name in names(Path::new(&path)) {
            let mode = std::fs::Permissions::from_mode(files);
            std::fs::set_permissions(Path::new(&path).join(name), mode).expect("set");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
    };
    set(0o555, 0o444);
    let before = snapshot(Path::new(&path));
    for verb in ["status", "tail", "check"] {
        densite(&["log", verb, &db]).expect(0);
    }
    assert_eq!(snapshot(Path::new(&path)), before);
    set(0o755, 0o644);
}

/// The statements of the guide work when typed as written.
#[test]
fn every_statement_of_the_guide_works() {
    let guide = std::fs::read_to_string("../../docs/guides/ingest.md").expect("the guide");
    let blocks: Vec<&str> = guide
        .split("```sql\n")
        .skip(1)
        .filter_map(|block| block.split("```").next())
        .collect();
    assert!(blocks.len() >= 4, "{guide}");
    let dir = temp();
    let db = at(&dir, "app.db");
    let ran = densite(&["sql", "--create", &db, &blocks.concat(), "--format", "csv"]).expect(0);
    // Both votes went through the ingest table, were waited for, and are in the table. A later row
    // is rejected.
    assert!(ran.out.contains("densite_wait()\n2\n"), "{}", ran.out);
    assert_eq!(ran.out.matches("count(*)\n2\n").count(), 2, "{}", ran.out);
    assert!(ran.out.contains("1,vote,insert,"), "{}", ran.out);
    assert!(ran.out.contains(",CHECK constraint failed"), "{}", ran.out);
}

/// A copy has no log, so it lacks the rows that wait in the log of its source.
#[test]
fn a_copy_that_lacks_rows_of_the_log_is_reported() {
    let dir = temp();
    let (db, log) = made(&dir);
    let says = "lacks the rows that wait in the log";
    let ran = densite(&["decompress", &db, &at(&dir, "none.db")]).expect(0);
    assert!(!ran.err.contains(says), "{}", ran.err);
    append(&log, 0..3, "ann");
    densite(&["decompress", &db, &at(&dir, "plain.db")])
        .expect(0)
        .says("plain.db lacks the rows that wait in the log of")
        .says("(3 rows)");
    let wait = "CREATE VIRTUAL TABLE temp.v USING densite_ingest(vote); SELECT densite_wait()";
    densite(&["sql", &db, wait]).expect(0);
    let ran = densite(&["decompress", &db, &at(&dir, "whole.db")]).expect(0);
    assert!(!ran.err.contains(says), "{}", ran.err);
}

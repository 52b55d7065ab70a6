//! `densite replicate` to a directory, `densite restore` and `densite replicas`, with real writers
//! and kills.

use crate::common::shipping::Shipping;
use crate::common::{Other, at, densite, dump, is_compressed, names, plain, snapshot, temp};
use densite_testing::Stop;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Each transaction adds the next number to both tables, and changes the count and a page of text.
const SCHEMA: &str = "CREATE TABLE a(n INTEGER PRIMARY KEY, x TEXT); CREATE TABLE b(n INTEGER PRIMARY KEY);
    CREATE TABLE c(n INTEGER); INSERT INTO c VALUES(0); CREATE TABLE d(k INTEGER PRIMARY KEY, x BLOB);
    WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) INSERT INTO d SELECT i, randomblob(900) FROM n";

fn transaction() -> String {
    "BEGIN IMMEDIATE; INSERT INTO a SELECT n + 1, hex(randomblob(40)) FROM c; INSERT INTO b SELECT n + 1 FROM c;
     UPDATE c SET n = n + 1; UPDATE d SET x = randomblob(900) WHERE k = abs(random() % 500) + 1; COMMIT;"
        .to_owned()
}

/// The number of the last transaction in a database; it must have all before it and nothing else.
#[track_caller]
fn last_transaction(db: &str) -> i64 {
    let sql =
        "SELECT (SELECT n FROM c), (SELECT count(*) FROM a), (SELECT coalesce(max(n), 0) FROM a),
        (SELECT count(*) FROM b), (SELECT coalesce(max(n), 0) FROM b), (SELECT count(*) FROM d)";
    let out = densite(&["sql", db, sql, "--format", "csv"]).expect(0).out;
    let row = out.lines().nth(1).expect("a row");
    let numbers: Vec<i64> = row
        .split(',')
        .map(|n| n.parse().expect("a number"))
        .collect();
    let n = numbers[0];
    assert_eq!(
        numbers,
        [n, n, n, n, n, 500],
        "this is no state of a transaction"
    );
    n
}

/// Restores to a new file. Returns the last transaction in it.
#[track_caller]
fn restored(dir: &TempDir, url: &str, more: &[&str]) -> (Value, i64) {
    let copy = at(dir, "restored.db");
    let _ = std::fs::remove_file(&copy);
    let args = [&["restore", url, &copy, "--json"], more].concat();
    let report = densite(&args).expect(0).json();
    let last = last_transaction(&copy);
    // It is a database that can be written.
    densite(&["sql", &copy, &transaction()]).expect(0);
    assert_eq!(last_transaction(&copy), last + 1);
    for end in ["", "-dwal", "-shm", "-djournal"] {
        let _ = std::fs::remove_file(format!("{copy}{end}"));
    }
    (report, last)
}

/// Writers commit all the time, readers hold checkpoints back now and then, and the shipper is
/// killed again and again. Whatever is restored is the state of a transaction, no acknowledged
/// restore point is lost, and at the end everything is there.
fn under_kills(mode: &str, kills: u64, seed: u64) {
    let dir = temp();
    let (db, bucket) = (at(&dir, "a.db"), at(&dir, "bucket"));
    let setup = format!("PRAGMA journal_mode={mode}; {SCHEMA}");
    densite(&["sql", "--create", &db, &setup]).expect(0);
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let stopping = stop.at_end();
        let writing = scope.spawn(|| {
            let mut writer = Other::on(&db);
            let mut count = 0;
            while !stop.is_set() {
                // Rollback modes meet locks of others.
                writer.run("PRAGMA busy_timeout=10000");
                for _ in 0..10 {
                    writer.run(&transaction());
                    count += 1;
                }
            }
            count
        });
        let reading = scope.spawn(|| {
            while mode == "WAL" && !stop.is_set() {
                let mut reader = Other::on(&db);
                reader.run("BEGIN; SELECT count(*) FROM a");
                std::thread::sleep(Duration::from_millis(150));
                reader.run("COMMIT");
                std::thread::sleep(Duration::from_millis(150));
            }
        });
        let mut newest = 0;
        for round in 0..kills {
            let mut shipping = Shipping::start(&db, &bucket, &[]);
            let began = shipping.event("began");
            let mut point = began["restore_point"].as_u64().expect("a number");
            for _ in 0..round % 4 {
                point = shipping.event("shipped")["restore_point"]
                    .as_u64()
                    .expect("a number");
            }
            std::thread::sleep(Duration::from_millis(17 * (seed + round) % 150));
            shipping.kill();
            let (report, last) = restored(&dir, &bucket, &[]);
            assert!(
                report["restore_point"].as_u64() >= Some(point),
                "restore point {point} was acknowledged: {report}"
            );
            assert!(
                last >= newest,
                "round {round}: transaction {newest} is gone"
            );
            newest = last;
        }
        drop(stopping);
        reading.join().expect("reading");
        let count = writing.join().expect("writing");
        densite(&["replicate", &db, &bucket, "--once"]).expect(0);
        let (_, last) = restored(&dir, &bucket, &[]);
        assert_eq!((last, last_transaction(&db)), (count, count));
        // Each restore point is the state of a transaction, and later ones have more of them.
        let mut before = 0;
        for n in 0.. {
            let number = n.to_string();
            let copy = at(&dir, "n.db");
            let ran = densite(&["restore", &bucket, &copy, "--number", &number]);
            if ran.code != 0 {
                assert!(n > kills, "{ran:?}");
                break;
            }
            let last = last_transaction(&copy);
            assert!(last >= before, "restore point {n}");
            before = last;
            std::fs::remove_file(&copy).expect("removed");
        }
        assert_eq!(before, count);
    });
    let left = names(dir.path());
    assert!(!left.iter().any(|name| name.contains("tmp")), "{left:?}");
}

#[test]
fn a_killed_shipper_loses_nothing_in_wal_mode() {
    under_kills("WAL", 8, 0);
}

#[test]
fn a_killed_shipper_loses_nothing_in_a_rollback_mode() {
    under_kills("DELETE", 8, 0);
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_shippers() {
    densite_testing::long_run("kills", |seed| {
        under_kills(if seed % 2 == 0 { "WAL" } else { "DELETE" }, 20, seed);
        20
    });
}

#[test]
fn a_moment_is_restored_as_it_was() {
    let dir = temp();
    let (db, bucket) = (at(&dir, "a.db"), at(&dir, "bucket"));
    densite(&[
        "sql",
        "--create",
        &db,
        &format!("PRAGMA journal_mode=WAL; {SCHEMA}"),
    ])
    .expect(0);
    let mut shipping = Shipping::start(&db, &bucket, &[]);
    shipping.event("began");
    let mut moments = Vec::new();
    for _ in 0..4 {
        densite(&["sql", &db, &transaction()]).expect(0);
        shipping.event("shipped");
        let info = densite(&["replicas", &bucket, "--json"]).expect(0).json();
        let last = &info["generations"][0]["last"];
        moments.push((
            last["time"].as_str().expect("a time").to_owned(),
            last_transaction(&db),
        ));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(shipping.stop(), Some(0));
    for (time, transaction) in moments {
        let (report, last) = restored(&dir, &bucket, &["--at", &time]);
        assert_eq!((last, report["time"].as_str()), (transaction, Some(&*time)));
    }
    let early = densite(&[
        "restore",
        &bucket,
        &at(&dir, "x.db"),
        "--at",
        "2020-01-01 00:00",
    ]);
    early.expect(1).says("first restore point");
}

/// After a restore on another machine, neither of the two databases can ship into the other's chain
/// by accident.
#[test]
fn a_copy_ships_only_after_a_takeover_and_then_the_original_does_not() {
    let dir = temp();
    let (db, bucket, copy) = (at(&dir, "a.db"), at(&dir, "bucket"), at(&dir, "copy.db"));
    densite(&["sql", "--create", &db, SCHEMA]).expect(0);
    densite(&["replicate", &db, &bucket, "--once"]).expect(0);
    densite(&["restore", &bucket, &copy]).expect(0);
    densite(&["replicate", &copy, &bucket, "--once"])
        .expect(1)
        .says("another copy");
    densite(&["replicate", &copy, &bucket, "--once", "--takeover"]).expect(0);
    densite(&["sql", &db, &transaction()]).expect(0);
    densite(&["replicate", &db, &bucket, "--once"])
        .expect(1)
        .says("another copy");
    densite(&["sql", &copy, &transaction()]).expect(0);
    densite(&["replicate", &copy, &bucket, "--once"]).expect(0);
    assert_eq!(restored(&dir, &bucket, &[]).1, 1);
    // A vacuum while nothing ships is no other copy.
    densite(&["vacuum", &copy, "--yes"]).expect(0);
    densite(&["sql", &copy, &transaction()]).expect(0);
    densite(&["replicate", &copy, &bucket, "--once"]).expect(0);
    assert_eq!(restored(&dir, &bucket, &[]).1, 2);
}

/// The last round after a signal ships what was committed before.
#[test]
fn a_signal_ships_what_is_committed_and_ends() {
    let dir = temp();
    let (db, bucket) = (at(&dir, "a.db"), at(&dir, "bucket"));
    densite(&[
        "sql",
        "--create",
        &db,
        &format!("PRAGMA journal_mode=WAL; {SCHEMA}"),
    ])
    .expect(0);
    let mut shipping = Shipping::start(&db, &bucket, &["--interval", "60"]);
    shipping.event("began");
    for _ in 0..3 {
        densite(&["sql", &db, &transaction()]).expect(0);
    }
    assert_eq!(shipping.stop(), Some(0));
    assert_eq!(restored(&dir, &bucket, &[]).1, 3);
}

#[test]
fn a_vacuum_begins_a_generation_and_shipping_goes_on() {
    let dir = temp();
    let (db, bucket) = (at(&dir, "a.db"), at(&dir, "bucket"));
    densite(&[
        "sql",
        "--create",
        &db,
        &format!("PRAGMA journal_mode=WAL; {SCHEMA}"),
    ])
    .expect(0);
    let mut shipping = Shipping::start(&db, &bucket, &[]);
    shipping.event("began");
    densite(&["sql", &db, &transaction()]).expect(0);
    shipping.event("shipped");
    // A database that is open in WAL mode cannot be vacuumed. The shipper closes it after a while.
    let until = Instant::now() + Duration::from_secs(40);
    while densite(&["vacuum", &db, "--yes", "--timeout", "0.5"]).code != 0 {
        assert!(
            Instant::now() < until,
            "the shipper never closes the database"
        );
    }
    densite(&["sql", &db, &transaction()]).expect(0);
    // The new file's first restore point, and perhaps one more.
    let until = Instant::now() + Duration::from_secs(20);
    while restored(&dir, &bucket, &[]).1 < 2 {
        assert!(Instant::now() < until, "the new file is not shipped");
    }
    assert_eq!(shipping.stop(), Some(0));
    let info = densite(&["replicas", &bucket, "--json"]).expect(0).json();
    assert_eq!(
        info["generations"].as_array().map(Vec::len),
        Some(2),
        "{info}"
    );
}

#[test]
fn all_compressed_databases_of_a_directory_are_shipped() {
    let dir = temp();
    let (dbs, bucket) = (at(&dir, "dbs"), at(&dir, "bucket"));
    std::fs::create_dir(&dbs).expect("made");
    let of = |name: &str| format!("{dbs}/{name}");
    for name in ["one.db", "two.db"] {
        densite(&["sql", "--create", &of(name), SCHEMA]).expect(0);
    }
    plain(&of("plain.db"), 4096, 10);
    std::fs::write(of("notes.txt"), "no database").expect("written");
    let mut shipping = Shipping::start(&dbs, &bucket, &[]);
    shipping.event("began");
    shipping.event("began");
    // One that comes later.
    densite(&["sql", "--create", &of("three.db"), SCHEMA]).expect(0);
    shipping.event("began");
    densite(&["sql", &of("two.db"), &transaction()]).expect(0);
    shipping.event("shipped");
    assert_eq!(shipping.stop(), Some(0));
    assert_eq!(names(Path::new(&bucket)), ["one.db", "three.db", "two.db"]);
    for (name, last) in [("one.db", 0), ("two.db", 1), ("three.db", 0)] {
        assert_eq!(restored(&dir, &format!("{bucket}/{name}"), &[]).1, last);
    }
}

/// The value of a metric of a database.
#[track_caller]
fn metric(text: &str, name: &str, db: &str) -> Option<f64> {
    let begin = format!("densite_replica_{name}{{database=\"{db}\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&*begin))?;
    Some(value.parse().expect("a number"))
}

#[test]
fn metrics_are_a_file_that_is_replaced_as_a_whole() {
    let dir = temp();
    let (dbs, bucket) = (at(&dir, "dbs"), at(&dir, "bucket"));
    std::fs::create_dir(&dbs).expect("made");
    let (one, two) = (format!("{dbs}/one.db"), format!("{dbs}/two.db"));
    densite(&["sql", "--create", &one, SCHEMA]).expect(0);
    densite(&["sql", "--create", &two, SCHEMA]).expect(0);
    let file = at(&dir, "replica.prom");
    let args = ["replicate", &dbs, &bucket, "--once", "--metrics", &file];
    densite(&args).expect(0);
    densite(&["sql", &two, &transaction()]).expect(0);
    let before = seconds_now();
    densite(&args).expect(0);
    let text = std::fs::read_to_string(&file).expect("the metrics");
    for (db, n) in [(&one, 0.0), (&two, 1.0)] {
        let value = |name| metric(&text, name, db);
        assert_eq!(value("restore_point"), Some(n), "{text}");
        assert!(value("lag_seconds") < Some(60.0), "{text}");
        assert!(
            value("complete_timestamp_seconds") >= Some(before),
            "{text}"
        );
        assert!(value("requests_total") > Some(0.0), "{text}");
        assert_eq!(value("errors_total"), Some(0.0));
        assert_eq!(
            (value("failing"), value("held_back")),
            (Some(0.0), Some(0.0))
        );
    }
    let sent = |db: &str| metric(&text, "sent_bytes_total", db);
    assert_eq!(sent(&one), Some(0.0));
    assert!(sent(&two) > Some(100.0), "{text}");
    let time = |db: &str| metric(&text, "restore_point_timestamp_seconds", db);
    assert!(
        time(&two) >= Some(before) && time(&one) < Some(before),
        "{text}"
    );
    // Each line is a comment or a sample.
    for line in text.lines() {
        let is_sample = line
            .rsplit_once(' ')
            .is_some_and(|(_, v)| v.parse::<f64>().is_ok());
        assert!(line.starts_with("# ") || is_sample, "{line}");
    }
    // A failure is counted, and a file that cannot be written stops nothing.
    std::fs::remove_dir_all(format!("{bucket}/two.db")).expect("removed");
    std::fs::write(format!("{bucket}/two.db"), "in the way").expect("written");
    densite(&[&args[..], &["--log-level", "error"]].concat()).expect(1);
    let text = std::fs::read_to_string(&file).expect("the metrics");
    assert_eq!(metric(&text, "errors_total", &two), Some(1.0), "{text}");
    assert_eq!(metric(&text, "failing", &two), Some(1.0), "{text}");
    assert_eq!(metric(&text, "lag_seconds", &two), None, "{text}");
    assert_eq!(metric(&text, "restore_point", &one), Some(0.0), "{text}");
    std::fs::remove_file(format!("{bucket}/two.db")).expect("removed");
    let nowhere = at(&dir, "no/replica.prom");
    let args = ["replicate", &dbs, &bucket, "--once", "--metrics", &nowhere];
    densite(&args)
        .expect(0)
        .says("the metrics cannot be written");
}

/// The time of the system in seconds since 1970.
fn seconds_now() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_secs_f64()
}

#[test]
fn levels_decide_which_messages_are_printed() {
    let dir = temp();
    let (db, bucket) = (at(&dir, "a.db"), at(&dir, "bucket"));
    densite(&["sql", "--create", &db, SCHEMA]).expect(0);
    let once = |level: &str| {
        densite(&["sql", &db, &transaction()]).expect(0);
        let args = ["replicate", &db, &bucket, "--once", "--log-level", level];
        densite(&args).expect(0).err
    };
    let to = format!("is replicated to the directory {bucket} (");
    assert!(once("info").contains(&format!("{to}restore point 0 of ")));
    // The point that this command sent.
    let second = once("info");
    assert!(
        second.contains(&format!("{to}restore point 1 of ")),
        "{second}"
    );
    for level in ["error", "warn"] {
        assert_eq!(once(level), "", "{level}");
    }
    let all = once("debug");
    assert!(
        all.contains("is replicated to") && all.contains("restore point 4, "),
        "{all}"
    );
    densite(&["replicate", &db, &bucket, "--log-level", "all"])
        .expect(2)
        .says("debug");
    // A failure that ends the command is printed at every level.
    plain(&at(&dir, "plain.db"), 4096, 10);
    let args = [
        "replicate",
        &at(&dir, "plain.db"),
        &bucket,
        "--log-level",
        "error",
    ];
    densite(&args).expect(1).says("compress it first");
}

#[test]
fn bad_input_is_one_sentence_and_changes_nothing() {
    let dir = temp();
    let (db, bucket) = (at(&dir, "a.db"), at(&dir, "bucket"));
    plain(&db, 4096, 100);
    densite(&["replicate", &db, &bucket])
        .expect(1)
        .says("compress it first");
    densite(&["compress", &db, "--yes"]).expect(0);
    assert!(is_compressed(&db));
    densite(&["replicate", &db, "gs://bucket/x"])
        .expect(1)
        .says("s3://BUCKET/PREFIX");
    densite(&["replicate", &at(&dir, "no.db"), &bucket]).expect(1);
    densite(&["restore", &bucket, &at(&dir, "new.db")])
        .expect(1)
        .says("there is no replica here");
    densite(&["replicate", &db, &bucket, "--once"]).expect(0);
    let whole = dump(&db);
    // A second writer.
    let mut shipping = Shipping::start(&db, &bucket, &[]);
    shipping.event("began");
    densite(&["replicate", &db, &bucket, "--once"])
        .expect(1)
        .says("ships to this directory");
    shipping.kill();
    // Another database, and an existing destination.
    let other = at(&dir, "other.db");
    densite(&["sql", "--create", &other, SCHEMA]).expect(0);
    let before = snapshot(Path::new(&bucket));
    densite(&["replicate", &other, &bucket])
        .expect(1)
        .says("another database");
    assert!(snapshot(Path::new(&bucket)) == before);
    densite(&["restore", &bucket, &other])
        .expect(1)
        .says("exists already");
    assert_eq!(last_transaction(&other), 0);
    densite(&["restore", &bucket, &other, "--force"]).expect(6);
    let notes = at(&dir, "notes.txt");
    std::fs::write(&notes, "notes, and no database").expect("written");
    densite(&["restore", &bucket, &notes, "--force", "--yes"])
        .expect(5)
        .says("notes.txt");
    let kept = std::fs::read_to_string(&notes).expect("it stays");
    assert_eq!(kept, "notes, and no database");
    let mut reader = Other::on(&other);
    reader.run("BEGIN; SELECT count(*) FROM a");
    densite(&["restore", &bucket, &other, "--force", "--yes"])
        .expect(3)
        .says("is locked");
    reader.kill();
    // It is open without a lock: that process would continue with the old file.
    densite(&["sql", &other, "PRAGMA journal_mode=DELETE"]).expect(0);
    let mut idle = Other::on(&other);
    idle.run("SELECT count(*) FROM a");
    densite(&["restore", &bucket, &other, "--force", "--yes"])
        .expect(3)
        .says("close the database there");
    idle.kill();
    densite(&["restore", &bucket, &other, "--force", "--yes"]).expect(0);
    assert_eq!(dump(&other), whole);
    densite(&["restore", &bucket, "--verify-only"]).expect(0);
    // Damage.
    let base = before.iter().find(|(name, _)| name.contains("-base-"));
    let (name, bytes) = base.expect("a base");
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    std::fs::write(Path::new(&bucket).join(name), damaged).expect("written");
    let fresh = at(&dir, "fresh.db");
    densite(&["restore", &bucket, &fresh])
        .expect(5)
        .says("damaged");
    assert!(!Path::new(&fresh).exists());
    let left = names(dir.path());
    assert!(!left.iter().any(|name| name.contains("tmp")), "{left:?}");
}

/// With `--json` each line of the output is one object, also the last one.
#[test]
fn a_failure_is_the_last_event_on_a_line_of_its_own() {
    let dir = temp();
    let (db, bucket) = (at(&dir, "a.db"), at(&dir, "bucket"));
    densite(&["sql", "--create", &db, SCHEMA]).expect(0);
    densite(&["replicate", &db, &bucket, "--once"]).expect(0);
    std::fs::write(format!("{db}-replica"), "0123456789abcdef\n").expect("written");
    let refused = densite(&["replicate", &db, &bucket, "--json"]).expect(1);
    let lines: Vec<Value> = (refused.out.lines())
        .map(|line| serde_json::from_str(line).expect("a JSON object on each line"))
        .collect();
    let error = &lines.last().expect("an error")["error"];
    assert_eq!(error["exit_code"], 1, "{refused:?}");
}

#[test]
fn merging_while_shipping_is_an_event() {
    let dir = temp();
    let (db, bucket) = (at(&dir, "a.db"), at(&dir, "bucket"));
    densite(&["sql", "--create", &db, SCHEMA]).expect(0);
    let mut shipping = Shipping::start(&db, &bucket, &[]);
    shipping.event("began");
    let mut writer = Other::on(&db);
    for _ in 0..65 {
        writer.run(&transaction());
        shipping.event("shipped");
    }
    let event = shipping.next_event();
    assert_eq!(event["event"], "compacted", "{event}");
    assert!(event["bytes"].as_u64() > Some(0), "{event}");
}

/// A directory that was shipped is restored at once, and what exists already is passed over.
#[test]
fn all_databases_of_a_directory_are_restored() {
    let dir = temp();
    let (apps, url, copies) = (at(&dir, "apps"), at(&dir, "replicas"), at(&dir, "copies"));
    std::fs::create_dir(&apps).expect("made");
    for n in 1..=3 {
        let sql = format!("CREATE TABLE t(n); INSERT INTO t VALUES ({n})");
        densite(&["sql", "--create", &format!("{apps}/{n}.db"), &sql]).expect(0);
    }
    densite(&["replicate", &apps, &url, "--once"]).expect(0);
    let into = format!("{copies}/");
    let report = densite(&["restore", &url, &into, "--json"])
        .expect(0)
        .json();
    assert_eq!(report["restored"].as_array().map(Vec::len), Some(3));
    let value = |n: u32| {
        let db = format!("{copies}/{n}.db");
        let out = densite(&["sql", &db, "SELECT n FROM t", "--format", "csv"]);
        out.expect(0).out
    };
    assert_eq!(value(2), "n\n2\n");

    // One is missing, one is the user's own by now, and one cannot be restored.
    std::fs::remove_file(format!("{copies}/1.db")).expect("removed");
    std::fs::remove_file(format!("{copies}/3.db")).expect("removed");
    densite(&["sql", &format!("{copies}/2.db"), "UPDATE t SET n = 20"]).expect(0);
    let third = Path::new(&url).join("3.db");
    let base = names(&third).into_iter().find(|n| n.contains("-base-"));
    std::fs::write(third.join(base.expect("a base")), "nothing").expect("written");
    let report = densite(&["restore", &url, &copies, "--json"])
        .expect(5)
        .json();
    assert_eq!(
        report["restored"].as_array().map(Vec::len),
        Some(1),
        "{report}"
    );
    assert_eq!(report["existing"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["failed"][0]["kind"], "damaged", "{report}");
    assert_eq!((value(1), value(2)), ("n\n1\n".into(), "n\n20\n".into()));
    let report = densite(&["restore", &url, "--verify-only", "--all", "--json"]).expect(5);
    assert_eq!(report.json()["restored"].as_array().map(Vec::len), Some(2));
    densite(&["restore", &url, &copies, "--force", "--yes", "--json"]).expect(5);
    assert_eq!(value(2), "n\n2\n");
    densite(&["restore", &apps, &copies])
        .expect(1)
        .says("there are no replicas below this");
    densite(&["restore", &format!("{url}/1.db"), &copies])
        .expect(1)
        .says("the copy needs the name of a file");
    densite(&["restore", &url, &copies, "--number", "0"])
        .expect(2)
        .says("--at TIME");
}

/// `--metrics` replaces no file that it did not write.
#[test]
fn metrics_do_not_replace_a_database() {
    let dir = temp();
    let (db, bucket) = (at(&dir, "a.db"), at(&dir, "bucket"));
    densite(&["sql", "--create", &db, SCHEMA]).expect(0);
    let before = std::fs::read(&db).expect("read");
    let ship = ["replicate", &db, &bucket, "--once", "--metrics", &db];
    densite(&ship).expect(1).says("other contents");
    assert!(std::fs::read(&db).expect("read") == before);
    assert!(!Path::new(&bucket).exists(), "nothing was shipped");
    let file = at(&dir, "metrics.prom");
    std::fs::write(&file, "").expect("written");
    for _ in 0..2 {
        densite(&["replicate", &db, &bucket, "--once", "--metrics", &file]).expect(0);
    }
    assert!(
        std::fs::read_to_string(&file)
            .expect("read")
            .contains("densite_replica_lag")
    );
}

/// In a rollback mode, a vacuum that waits holds back restore points. The shipper lets it in.
#[test]
fn a_vacuum_gets_in_in_a_rollback_mode() {
    let dir = temp();
    let (db, bucket) = (at(&dir, "a.db"), at(&dir, "bucket"));
    densite(&["sql", "--create", &db, SCHEMA]).expect(0);
    let mut shipping = Shipping::start(&db, &bucket, &["--interval", "1"]);
    shipping.event("began");
    densite(&["sql", &db, &transaction()]).expect(0);
    shipping.event("shipped");
    densite(&["vacuum", &db, "--yes", "--timeout", "60"]).expect(0);
    densite(&["sql", &db, &transaction()]).expect(0);
    let generation = loop {
        let event = shipping.event("shipped");
        if event["restore_point"] == 0 || event["restore_point"] == 1 {
            break event;
        }
    };
    assert_eq!(shipping.stop(), Some(0), "{generation}");
    assert_eq!(restored(&dir, &bucket, &[]).1, 2);
}

/// What is not replicated is said.
#[test]
fn an_empty_directory_and_a_missing_log_are_told() {
    let dir = temp();
    let (empty, bucket) = (at(&dir, "empty"), at(&dir, "bucket"));
    std::fs::create_dir(&empty).expect("made");
    let ran = densite(&["replicate", &empty, &bucket, "--once"]).expect(0);
    assert!(
        ran.err.contains("there is no compressed database here"),
        "{ran:?}"
    );
    let db = at(&dir, "a.db");
    let sql = "CREATE TABLE t(a INTEGER PRIMARY KEY); CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t);
        INSERT INTO t_in VALUES (1); SELECT densite_wait()";
    densite(&["sql", "--create", &db, sql]).expect(0);
    let ran = densite(&["replicate", &db, &bucket, "--once"]).expect(0);
    assert!(!ran.err.contains("names a log"), "{ran:?}");
    std::fs::remove_dir_all(format!("{db}-log")).expect("removed");
    let ran = densite(&["replicate", &db, &bucket, "--once"]).expect(0);
    assert!(ran.err.contains("names a log"), "{ran:?}");
}

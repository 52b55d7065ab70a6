//! `densite replicate` to an object store, over a proxy that fails and counts.

use crate::common::{Other, at, densite, temp};
use crate::remote_s3::Store;
use densite_testing::Fault;

const URL: &str = "s3://bucket/folder/app";

/// Restores, and returns the number of rows.
fn rows_in(store: &Store, copy: &str) -> String {
    let _ = std::fs::remove_file(copy);
    store.run(&["restore", URL, copy]).expect(0);
    let sql = ["sql", copy, "SELECT count(*) FROM t", "--format", "csv"];
    densite(&sql).expect(0).out
}

/// Adds a row.
fn add(db: &str, bytes: u32) {
    let sql = format!("INSERT INTO t VALUES(randomblob({bytes}))");
    densite(&["sql", db, &sql]).expect(0);
}

#[test]
fn a_replica_in_an_object_store_takes_few_requests() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let (db, copy) = (at(&dir, "a.db"), at(&dir, "copy.db"));
    let create = "PRAGMA journal_mode=WAL; CREATE TABLE t(a)";
    densite(&["sql", "--create", &db, create]).expect(0);
    // A base of several parts.
    for _ in 0..20 {
        add(&db, 1 << 20);
    }
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    assert_eq!(rows_in(&store, &copy), "count(*)\n20\n");
    add(&db, 10);
    let _ = store.proxy.take_counts();
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    // The head, the list, the end of the chain, the delta.
    assert_eq!(store.proxy.requests(), 4);
    let _ = store.proxy.take_counts();
    assert_eq!(rows_in(&store, &copy), "count(*)\n21\n");
    // The head, the base, the delta, and the one that is not there.
    assert_eq!(store.proxy.requests(), 4);
    let info = store.run(&["replicas", URL, "--json"]).expect(0).json();
    assert_eq!(info["generations"][0]["last"]["restore_point"], 1, "{info}");
    assert_eq!(info["objects"], 3, "{info}");
}

/// Whatever request fails, and also if only its answer gets lost, the next run continues, and
/// nothing is shipped twice or lost.
#[test]
fn failed_requests_are_repeated_and_lost_answers_do_no_harm() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let (db, copy) = (at(&dir, "a.db"), at(&dir, "copy.db"));
    densite(&["sql", "--create", &db, "CREATE TABLE t(a)"]).expect(0);
    let mut rows = 0;
    for place in 0..5 {
        for fault in [Fault::Status(503), Fault::Reset, Fault::Cut] {
            add(&db, 100);
            rows += 1;
            let mut faults = vec![Fault::Header("x-none", "1"); place];
            faults.push(fault);
            store.proxy.next(faults);
            store.run(&["replicate", &db, URL, "--once"]).expect(0);
        }
    }
    assert_eq!(rows_in(&store, &copy), format!("count(*)\n{rows}\n"));
    let info = store.run(&["replicas", URL, "--json"]).expect(0).json();
    let last = &info["generations"][0]["last"]["restore_point"];
    assert_eq!(
        info["generations"].as_array().map(Vec::len),
        Some(1),
        "{info}"
    );
    assert_eq!(*last, rows - 1, "{info}");
}

#[test]
fn refusals_of_the_store_are_one_sentence() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let db = at(&dir, "a.db");
    densite(&["sql", "--create", &db, "CREATE TABLE t(a)"]).expect(0);
    store.proxy.always(Some(Fault::Status(403)));
    store
        .run(&["replicate", &db, URL, "--once"])
        .expect(1)
        .says("does not allow it (403)");
    store.proxy.always(None);
    store
        .run(&["replicate", &db, "s3://missing/x", "--once"])
        .expect(1);
    store
        .run(&["replicate", &db, "https://host/x", "--once"])
        .expect(1)
        .says("s3://BUCKET/PREFIX or in a directory");
    store
        .run(&["restore", "s3://bucket/none", &at(&dir, "b.db")])
        .expect(1)
        .says("there is no replica here");
}

/// A follower opens the URL of the prefix, with a slash at its end, and sees each restore point in
/// its next transaction.
#[test]
fn a_follower_reads_the_newest_state_of_a_bucket() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let db = at(&dir, "a.db");
    densite(&[
        "sql",
        "--create",
        &db,
        "PRAGMA journal_mode=WAL; CREATE TABLE t(a)",
    ])
    .expect(0);
    for _ in 0..50 {
        add(&db, 2000);
    }
    let url = format!("{URL}/");
    let rows = || {
        let sql = "SELECT count(*), sum(length(a)) FROM t";
        store.run(&["sql", &url, sql, "--format", "csv"])
    };
    rows().expect(1).says("there is no replica here");
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    let _ = store.proxy.take_counts();
    assert_eq!(rows().expect(0).out, "count(*),sum(length(a))\n50,100000\n");
    // The head, the base, the delta that is not there, and one or two parts of the base.
    assert!(
        store.proxy.requests() <= 5,
        "{} requests",
        store.proxy.requests()
    );
    // One connection stays open while the writer goes on.
    let mut follower = Other::with(&url, |command| {
        command.envs(store.env());
    });
    follower.run("SELECT count(*) FROM t");
    for n in 51..56 {
        add(&db, 2000);
        store.run(&["replicate", &db, URL, "--once"]).expect(0);
        let expected = format!("count(*)\n{n}\n");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while follower.ask("SELECT count(*) FROM t") != expected {
            assert!(std::time::Instant::now() < until, "row {n} does not come");
        }
        // It can be found by the whole content, too.
        let sum = follower.ask("SELECT sum(length(a)) FROM t");
        assert_eq!(sum, format!("sum(length(a))\n{}\n", n * 2000));
    }
    let mut status = || {
        follower.ask(
            "SELECT s ->> 'role', s ->> 'restore_point', s ->> 'restore_points_behind', s ->> 'lag_seconds' < 30,
             s ->> 'replica', s ->> 'generation' LIKE 'g0001-%', s ->> 'time' LIKE '20%Z'
             FROM (SELECT densite_replica_status() AS s)",
        )
    };
    let said = status();
    let line = said.lines().nth(1).unwrap_or_default();
    assert_eq!(line, format!("follower,5,0,1,{url},1,1"), "{said}");
    // A transaction sees one state.
    follower.run("BEGIN; SELECT count(*) FROM t");
    add(&db, 2000);
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert_eq!(follower.ask("SELECT count(*) FROM t"), "count(*)\n55\n");
    follower.run("COMMIT");
    assert_eq!(follower.ask("SELECT count(*) FROM t"), "count(*)\n56\n");
    // It writes nothing, and says so.
    store
        .run(&["sql", &url, "DELETE FROM t"])
        .expect(1)
        .says("readonly");
    store.run(&["check", &url]).expect(0);
    let info = store.run(&["info", &url, "--json"]).expect(0).json();
    assert_eq!(info["remote"]["replica_restore_point"], 6, "{info}");
}

/// A restore that failed half-way is continued: what it had read is not read again.
#[test]
fn a_restore_that_failed_is_continued() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let (db, copy) = (at(&dir, "a.db"), at(&dir, "copy.db"));
    densite(&["sql", "--create", &db, "CREATE TABLE t(a)"]).expect(0);
    let fill = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
        INSERT INTO t SELECT randomblob(1048576) FROM n";
    densite(&["sql", &db, fill]).expect(0);
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    let restore = ["restore", URL, &copy, "--json"];
    // The head, the end of the base, and two parts of it; then nothing more.
    let fail_half_way = || {
        let mut faults = vec![Fault::Header("x-none", "1"); 4];
        faults.extend(vec![Fault::Status(403); 50]);
        store.proxy.next(faults);
        store.run(&restore).expect(1);
        store.proxy.next(Vec::new());
    };
    let left = || {
        let names = crate::common::names(dir.path());
        names
            .into_iter()
            .find(|name| name.contains("-densite-tmp-"))
    };
    fail_half_way();
    assert!(left().is_some());
    // A restore to another name reads everything.
    let report = store.run(&["restore", URL, &at(&dir, "b.db"), "--json"]);
    let whole = report.expect(0).json()["bytes_read"].as_u64();
    let report = store.run(&restore).expect(0).json();
    let read = report["bytes_read"].as_u64();
    assert!(read < whole.map(|whole| whole - (31 << 20)), "{report}");
    let sql = "SELECT count(*), sum(length(a)) FROM t";
    let out = densite(&["sql", &copy, sql, "--format", "csv"])
        .expect(0)
        .out;
    assert_eq!(out.lines().nth(1), Some("60,62914560"));
    assert_eq!(left(), None);
    std::fs::remove_file(&copy).expect("removed");

    // Damage in what was read is found, and the next try begins again.
    fail_half_way();
    let partial = dir.path().join(left().expect("a file"));
    let mut bytes = std::fs::read(&partial).expect("read");
    assert_eq!(bytes.len(), 32 << 20);
    bytes[5_000_000] ^= 1;
    std::fs::write(&partial, bytes).expect("written");
    store.run(&restore).expect(5);
    assert_eq!(left(), None);
    let report = store.run(&restore).expect(0).json();
    assert_eq!(report["bytes_read"].as_u64(), whole);
}

/// A program ships by itself, and a follower sees what its wait acknowledged.
#[test]
fn a_program_ships_to_a_bucket() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let (db, copy) = (at(&dir, "a.db"), at(&dir, "copy.db"));
    let create = "PRAGMA journal_mode=WAL; CREATE TABLE t(a)";
    densite(&["sql", "--create", &db, create]).expect(0);
    let mut program = Other::with(&db, |command| {
        command.envs(store.env());
    });
    let start = format!("SELECT densite_replicate('{URL}', 'interval=60') ->> 'replica'");
    assert!(program.ask(&start).ends_with(&format!("{URL}\n")));
    let wait = "SELECT densite_replicate_wait(60)";
    for n in 1..=3 {
        program.run("INSERT INTO t VALUES(randomblob(100))");
        assert!(program.ask(wait).ends_with("1\n"));
        assert_eq!(rows_in(&store, &copy), format!("count(*)\n{n}\n"));
    }
    // A wait is no sooner true than the bucket has acknowledged. The delta that failed is sent
    // first, and does not have what was committed later.
    store.proxy.always(Some(Fault::Status(403)));
    program.run("INSERT INTO t VALUES(randomblob(100))");
    assert!(
        program
            .ask("SELECT densite_replicate_wait(1)")
            .ends_with("0\n")
    );
    store.proxy.always(None);
    program.run("INSERT INTO t VALUES(randomblob(100))");
    assert!(program.ask(wait).ends_with("1\n"));
    assert_eq!(rows_in(&store, &copy), "count(*)\n5\n");
    // The end of a program sends what is new.
    drop(program);
    let sql = format!(
        "SELECT densite_replicate('{URL}', 'interval=60'); INSERT INTO t VALUES(randomblob(100))"
    );
    store.run(&["sql", &db, &sql]).expect(0);
    assert_eq!(rows_in(&store, &copy), "count(*)\n6\n");
}

//! `densite replicate` to an object store, over a proxy that fails and counts.

use crate::common::shipping::Shipping;
use crate::common::{DENSITE, Other, at, densite, temp};
use crate::remote_s3::Store;
use densite_testing::Fault;
use std::time::{Duration, Instant};

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
    // The head, the list, the end of the chain, the head, which says that a delta comes, the delta.
    assert_eq!(store.proxy.requests(), 5);
    let _ = store.proxy.take_counts();
    assert_eq!(rows_in(&store, &copy), "count(*)\n21\n");
    // The head, the base, the list of deltas, the delta.
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
        .expect(1)
        .says("there is no such bucket (404); create it, or check the URL");
    for arguments in [
        &["restore", "s3://missing/x", &at(&dir, "b.db")][..],
        &["replicas", "s3://missing/x"],
        &["sql", "s3://missing/x/", "SELECT 1"],
    ] {
        store
            .run(arguments)
            .expect(1)
            .says("there is no such bucket (404); create it, or check the URL");
    }
    store
        .run(&["replicate", &db, "https://host/x", "--once"])
        .expect(1)
        .says("s3://BUCKET/PREFIX or in a directory");
    store
        .run(&["restore", "s3://bucket/none", &at(&dir, "b.db")])
        .expect(1)
        .says("there is no replica here");
    // Replicas below a prefix are named.
    store
        .run(&["replicate", &db, "s3://bucket/all/one.db", "--once"])
        .expect(0);
    for arguments in [
        &["restore", "s3://bucket/all", &at(&dir, "b.db")][..],
        &["replicas", "s3://bucket/all/"],
    ] {
        store
            .run(arguments)
            .expect(1)
            .says("is below this: one.db; name one, as in s3://bucket/all/one.db");
    }
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
    // The head, the base.
    assert_eq!(store.proxy.requests(), 2);
    // One connection stays open while the writer goes on.
    let mut follower = Other::with(&url, |command| {
        command.envs(store.env());
    });
    follower.run("SELECT count(*) FROM t");
    for n in 51..56 {
        add(&db, 2000);
        store.run(&["replicate", &db, URL, "--once"]).expect(0);
        let expected = format!("count(*)\n{n}\n");
        let until = Instant::now() + Duration::from_secs(10);
        while follower.ask("SELECT count(*) FROM t") != expected {
            assert!(Instant::now() < until, "row {n} does not come");
        }
        // It can be found by the whole content, too.
        let sum = follower.ask("SELECT sum(length(a)) FROM t");
        assert_eq!(sum, format!("sum(length(a))\n{}\n", n * 2000));
    }
    // A transaction sees one state.
    follower.run("BEGIN; SELECT count(*) FROM t");
    add(&db, 2000);
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    std::thread::sleep(Duration::from_millis(1200));
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

/// A delta that is deleted is an error everywhere, for a connection that is open within a few polls.
#[test]
fn a_missing_delta_in_a_bucket_is_an_error_that_names_it() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let (db, copy, out) = (at(&dir, "a.db"), at(&dir, "copy.db"), at(&dir, "out"));
    densite(&["sql", "--create", &db, "CREATE TABLE t(a)"]).expect(0);
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    let url = format!("{URL}/");
    let ship = || {
        add(&db, 100);
        store.run(&["replicate", &db, URL, "--once"]).expect(0);
    };
    // It asks all the time, until a statement fails.
    let count = "SELECT count(*) FROM t;\n";
    let file = std::fs::File::create(&out).expect("a file");
    let mut follower = std::process::Command::new(DENSITE)
        .args(["sql", &url, "--format", "csv"])
        .envs(store.env())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(file)
        .spawn()
        .expect("started");
    let mut statements = follower.stdin.take().expect("a pipe");
    let mut ask = || std::io::Write::write_all(&mut statements, count.as_bytes()).is_ok();
    assert!(ask());
    std::thread::sleep(Duration::from_millis(300));
    // Both come between two polls.
    ship();
    ship();
    let name = store.lose("-delta-000000000001");
    let begun = Instant::now();
    while ask() && follower.try_wait().expect("a child").is_none() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it says nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_ne!(follower.wait().expect("ended").code(), Some(0));
    let said = std::fs::read_to_string(&out).expect("read");
    assert!(said.contains(&name), "{said}");

    let opened = store.run(&["sql", &url, count]);
    assert!(opened.code != 0 && opened.err.contains(&name), "{opened:?}");
    store.run(&["restore", URL, &copy]).expect(5).says(&name);
    let listed = store.run(&["replicas", URL, "--json"]).expect(5).json();
    assert_eq!(listed["generations"][0]["missing"], *name, "{listed}");
    store
        .run(&["replicate", &db, URL, "--once"])
        .expect(5)
        .says(&name);
}

/// A large base is read by ranges. Its end has what a first query needs.
#[test]
fn a_first_query_of_a_large_replica_takes_few_requests() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let url = format!("{URL}/");
    for mib in [2, 12] {
        let db = at(&dir, &format!("{mib}.db"));
        let sql = format!(
            "CREATE TABLE t(a); CREATE TABLE large(id INTEGER PRIMARY KEY, a);
             WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250 * {mib})
             INSERT INTO large SELECT i, randomblob(4000) FROM n"
        );
        densite(&["sql", "--create", &db, &sql]).expect(0);
        store
            .run(&["replicate", &db, URL, "--once", "--takeover"])
            .expect(0);
        for deltas in 0..3 {
            let _ = store.proxy.take_counts();
            let sql = "SELECT count(*) FROM t";
            let rows = store.run(&["sql", &url, sql, "--format", "csv"]).expect(0);
            assert_eq!(rows.out, format!("count(*)\n{deltas}\n"));
            // The head, the end of the base; after a change, the list of deltas, and these.
            let requests = store.proxy.requests();
            let expected = 2 + deltas + u64::from(deltas > 0);
            assert_eq!(requests, expected, "{mib} MiB, {deltas} deltas");
            add(&db, 100);
            store.run(&["replicate", &db, URL, "--once"]).expect(0);
        }
        let _ = store.proxy.take_counts();
        let sql = "SELECT length(a) FROM large WHERE id = 123";
        store.run(&["sql", &url, sql]).expect(0);
        // And a leaf.
        assert_eq!(store.proxy.requests(), 3 + 3 + 1, "{mib} MiB");
    }
}

/// A lookup by a key, in a table with interior pages, by a new process: the head, the end of the base,
/// what was merged, and the leaf. Until a base was followed by a delta, there is nothing merged.
#[test]
fn a_first_lookup_takes_four_requests() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let db = at(&dir, "a.db");
    let sql = "PRAGMA journal_mode=WAL; CREATE TABLE large(id INTEGER PRIMARY KEY, a);
        WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
        INSERT INTO large SELECT i, randomblob(4000) FROM n";
    densite(&["sql", "--create", &db, sql]).expect(0);
    let url = format!("{URL}/");
    let lookup = |requests: u64| {
        let _ = store.proxy.take_counts();
        let sql = "SELECT length(a) FROM large WHERE id = 1717";
        let rows = store.run(&["sql", &url, sql, "--format", "csv"]).expect(0);
        assert_eq!(rows.out, "length(a)\n4000\n");
        assert_eq!(store.proxy.requests(), requests);
    };
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    lookup(3);
    let mut shipping = Shipping::start_with(&db, URL, &[], |command| {
        command.envs(store.env());
    });
    shipping.event("began");
    for n in 0..8 {
        let sql = format!(
            "UPDATE large SET a = randomblob(4000) WHERE id = {}",
            n * 300 + 5
        );
        densite(&["sql", &db, &sql]).expect(0);
        shipping.event("shipped");
    }
    shipping.event("compacted");
    lookup(4);
}

/// The model of a leaf is in the base's end, too.
#[test]
fn a_first_lookup_in_rows_with_a_model_takes_three_requests() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let (plain, db) = (at(&dir, "plain.db"), at(&dir, "a.db"));
    let sql = "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, born TEXT, code TEXT);
        WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
        INSERT INTO person
        SELECT i, 'Customer#' || (i * 7), date('1950-01-01', (i * 7919 % 20000) || ' days'), hex(randomblob(100)) FROM n;
        CREATE TABLE reading(id INTEGER PRIMARY KEY, at TEXT, celsius REAL, state TEXT);
        INSERT INTO reading
        SELECT id, datetime(1700000000 + id * 60, 'unixepoch'), (id % 317) / 8.0, 'state ' || (id % 7) FROM person;
        CREATE TABLE sale(id INTEGER PRIMARY KEY, cents INTEGER, code TEXT);
        INSERT INTO sale SELECT id, id * 7919 % 100000, 'A-' || (id * 31) FROM person";
    let con = rusqlite::Connection::open(&plain).expect("opens");
    con.execute_batch(sql).expect("rows");
    drop(con);
    densite(&["compress", &plain, &db]).expect(0);
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    for (column, table, found) in [
        ("name", "person", "Customer#120197"),
        ("state", "reading", "state 0"),
        ("code", "sale", "A-532301"),
    ] {
        let _ = store.proxy.take_counts();
        let sql = format!("SELECT {column} FROM {table} WHERE id = 17171");
        let rows = store.run(&["sql", &format!("{URL}/"), &sql, "--format", "csv"]);
        assert_eq!(rows.expect(0).out, format!("{column}\n{found}\n"));
        // The head, the base's end, and the leaf, which can be there, too.
        let requests = store.proxy.requests();
        assert!(requests <= 3, "{table}: {requests} requests");
    }
}

/// One request a second, also while it looks for missing deltas.
#[test]
fn a_follower_that_has_nothing_new_asks_once_a_second() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let db = at(&dir, "a.db");
    densite(&["sql", "--create", &db, "CREATE TABLE t(a)"]).expect(0);
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    let mut follower = Other::with(&format!("{URL}/"), |command| {
        command.envs(store.env());
    });
    follower.run("SELECT count(*) FROM t");
    let _ = store.proxy.take_counts();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(9) {
        follower.run("SELECT count(*) FROM t");
    }
    let requests = store.proxy.requests();
    assert!((8..=10).contains(&requests), "{requests} requests");
}

/// A restore that failed half-way is continued: what it had read is not read again. In this database,
/// what readers need first lies in many places, and a second time at the end of the base.
#[test]
fn a_restore_that_failed_is_continued() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let (db, copy) = (at(&dir, "a.db"), at(&dir, "copy.db"));
    let mut sql = String::from("BEGIN; CREATE TABLE t(a);");
    for n in 0..600 {
        sql += &format!("CREATE TABLE t{n}(a); INSERT INTO t VALUES(randomblob(70000));");
    }
    densite(&["sql", "--create", &db, &(sql + "COMMIT")]).expect(0);
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    let restore = ["restore", URL, &copy, "--json"];
    // The head, the end of the base, and three parts of it come, the fourth part does not.
    let fail_half_way = || {
        let mut faults = vec![Fault::Header("x-none", "1"); 5];
        faults.push(Fault::LateStatus(Duration::from_secs(1), 403));
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
    let _ = store.proxy.take_counts();
    let report = store.run(&["restore", URL, &at(&dir, "b.db"), "--json"]);
    let whole = report.expect(0).json()["bytes_read"].as_u64();
    assert!(whole > Some(40 << 20), "{whole:?}");
    // The head, the end of the base, four parts of it, the list of deltas.
    assert_eq!(store.proxy.requests(), 7);
    let report = store.run(&restore).expect(0).json();
    let read = report["bytes_read"].as_u64();
    assert!(read < whole.map(|whole| whole - (25 << 20)), "{report}");
    let sql = "SELECT count(*), sum(length(a)) FROM t";
    let out = densite(&["sql", &copy, sql, "--format", "csv"])
        .expect(0)
        .out;
    assert_eq!(out.lines().nth(1), Some("600,42000000"));
    assert_eq!(left(), None);
    std::fs::remove_file(&copy).expect("removed");

    // Damage in what was read is found, and all of it is read again.
    fail_half_way();
    let partial = dir.path().join(left().expect("a file"));
    let mut bytes = std::fs::read(&partial).expect("read");
    for at in [5_000_000, 25_000_000] {
        bytes[at] ^= 1;
    }
    std::fs::write(&partial, bytes).expect("written");
    let report = store.run(&restore).expect(0).json();
    assert!(report["bytes_read"].as_u64() > whole, "{report}");
    assert_eq!(left(), None);
    let again = densite(&["sql", &copy, sql, "--format", "csv"]).expect(0);
    assert_eq!(again.out, out);
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
    // It does not wait for ever: a bucket that does not answer delays it by 5 seconds.
    let late = std::time::Duration::from_secs(60);
    store.proxy.always(Some(Fault::Late(late)));
    let begun = std::time::Instant::now();
    store.run(&["sql", &db, &sql]).expect(0);
    assert!(begun.elapsed() < late / 2, "{:?}", begun.elapsed());
    store.proxy.always(None);
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    assert_eq!(rows_in(&store, &copy), "count(*)\n7\n");
}

/// All replicas right below a URL are restored at once.
#[test]
fn all_replicas_of_a_folder_of_a_bucket_are_restored() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let (apps, copies) = (at(&dir, "apps"), at(&dir, "copies"));
    std::fs::create_dir(&apps).expect("made");
    for n in 1..=3 {
        let sql = format!("CREATE TABLE t(n); INSERT INTO t VALUES ({n})");
        densite(&["sql", "--create", &format!("{apps}/{n}.db"), &sql]).expect(0);
    }
    store
        .run(&["replicate", &apps, "s3://bucket/all", "--once"])
        .expect(0);
    // Another folder beside them does not matter.
    store
        .run(&["publish", &format!("{apps}/1.db"), "s3://bucket/all/logs/x"])
        .expect(0);
    store
        .run(&["restore", "s3://bucket/all/", &format!("{copies}/")])
        .expect(0);
    assert_eq!(
        crate::common::names(copies.as_ref()),
        ["1.db", "2.db", "3.db"]
    );
}

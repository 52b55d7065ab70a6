//! `densite replicate` to an object store, over a proxy that fails and counts.

use crate::common::{Other, Ran, at, densite, temp};
use crate::remote::command;
use densite_testing::{Fault, FaultProxy, S3};
use std::path::Path;

/// Beside the build output, wherever that is.
const SERVER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../s3-server");
const URL: &str = "s3://bucket/folder/app";

struct Store {
    _s3: S3,
    proxy: FaultProxy,
    endpoint: String,
}

impl Store {
    /// `None` if there is no server.
    fn new() -> Option<Store> {
        let s3 = S3::start(Path::new(SERVER))?;
        let proxy = FaultProxy::start(s3.port());
        let endpoint = proxy.http("").trim_end_matches('/').to_owned();
        Some(Store {
            _s3: s3,
            proxy,
            endpoint,
        })
    }

    fn env(&self) -> [(&'static str, &str); 5] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint.as_str()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "5ec7e7"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ]
    }

    fn run(&self, args: &[&str]) -> Ran {
        command(args, &self.env())
    }

    /// A process that has a URL open.
    fn other(&self, url: &str) -> Other {
        Other::with(url, |command| {
            command.envs(self.env());
        })
    }

    /// Restores, and returns the number of rows.
    fn rows(&self, copy: &str) -> String {
        let _ = std::fs::remove_file(copy);
        self.run(&["restore", URL, copy]).expect(0);
        let sql = ["sql", copy, "SELECT count(*) FROM t", "--format", "csv"];
        densite(&sql).expect(0).out
    }
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
    assert_eq!(store.rows(&copy), "count(*)\n20\n");
    add(&db, 10);
    let _ = store.proxy.take_counts();
    store.run(&["replicate", &db, URL, "--once"]).expect(0);
    // The head, the list, the end of the chain, the delta.
    assert_eq!(store.proxy.requests(), 4);
    let _ = store.proxy.take_counts();
    assert_eq!(store.rows(&copy), "count(*)\n21\n");
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
    assert_eq!(store.rows(&copy), format!("count(*)\n{rows}\n"));
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
    let mut follower = store.other(&url);
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

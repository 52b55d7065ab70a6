//! `densite replicate` to versitygw, a server of another family than moto, which judges signatures
//! and whose conditional requests hold under races. `make crash` and `make remote-demo` install it,
//! and `make test` does not: the build takes minutes.

use crate::common::{DENSITE, Ran, at, densite, names, temp};
use crate::remote::command;
use densite_testing::{Fault, FaultProxy, Versitygw};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Beside the build output, wherever that is.
const SERVER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../versitygw");
const URL: &str = "s3://bucket/folder/app";

/// The server behind a proxy that injects faults.
struct Store {
    own: TempDir,
    _server: Versitygw,
    proxy: FaultProxy,
}

impl Store {
    /// `None` if the server is not installed.
    fn new() -> Option<Store> {
        let own = temp();
        let Some(server) = Versitygw::start(Path::new(SERVER), own.path()) else {
            eprintln!("versitygw is not installed: lab/testing/versitygw/setup.sh installs it");
            return None;
        };
        let proxy = FaultProxy::start(server.port());
        Some(Store {
            own,
            _server: server,
            proxy,
        })
    }

    fn run(&self, args: &[&str]) -> Ran {
        let variables = Versitygw::environment(self.proxy.port());
        let variables: Vec<_> = variables.iter().map(|(n, v)| (*n, v.as_str())).collect();
        command(args, &variables)
    }

    /// Begins to ship, and kills the command after this time.
    fn killed(&self, db: &str, after: Duration) {
        let mut child = Command::new(DENSITE)
            .args(["replicate", db, URL, "--once"])
            .envs(Versitygw::environment(self.proxy.port()))
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        std::thread::sleep(after);
        child.kill().expect("killed");
        child.wait().expect("ended");
    }

    /// The number of rows that a restore and a follower see.
    #[track_caller]
    fn has(&self, dir: &TempDir, rows: u64) {
        let copy = at(dir, "copy.db");
        let _ = std::fs::remove_file(&copy);
        self.run(&["restore", URL, &copy]).expect(0);
        for name in [copy, format!("{URL}/")] {
            let sql = ["sql", &name, "SELECT count(*) FROM t", "--format", "csv"];
            let found = self.run(&sql).expect(0).out;
            assert_eq!(found, format!("count(*)\n{rows}\n"), "{name}");
        }
    }
}

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        for shift in [-13, 7, -17] {
            self.0 ^= match shift {
                0.. => self.0 >> shift,
                _ => self.0 << -shift,
            };
        }
        self.0 % n
    }
}

/// Ships after kills, after failed requests and beside another shipper. Whatever happened, the next
/// run sends what is missing, and nothing else is in the replica.
fn under_faults(store: &Store, seed: u64, rounds: u64) {
    let mut random = Random(seed.wrapping_mul(2) + 1);
    let dir = temp();
    let db = at(&dir, "a.db");
    densite(&[
        "sql",
        "--create",
        &db,
        "PRAGMA journal_mode=WAL; CREATE TABLE t(a)",
    ])
    .expect(0);
    for rows in 1..=rounds {
        let bytes = 1 + random.below(200_000);
        let sql = format!("INSERT INTO t VALUES(randomblob({bytes}))");
        densite(&["sql", &db, &sql]).expect(0);
        match random.below(4) {
            0 => store.killed(&db, Duration::from_millis(random.below(150))),
            1 => {
                let fault = [Fault::Status(503), Fault::Reset, Fault::Cut];
                let good = (0..random.below(6)).map(|_| Fault::Header("x-none", "1"));
                let bad = fault.into_iter().nth(random.below(3) as usize);
                store.proxy.next(good.chain(bad));
            }
            // Two at once: one of them can stop because of the other.
            2 => std::thread::scope(|scope| {
                let run = || store.run(&["replicate", &db, URL, "--once"]);
                let both = [scope.spawn(run), scope.spawn(run)];
                let codes = both.map(|one| one.join().expect("ran").code);
                assert!(codes.contains(&0), "seed {seed}, row {rows}: {codes:?}");
            }),
            _ => {}
        }
        store.run(&["replicate", &db, URL, "--once"]).expect(0);
        store.proxy.next([]);
        store.has(&dir, rows);
    }
    // Another copy takes over; the one before does not continue.
    let copy = at(&dir, "copy.db");
    store
        .run(&["replicate", &copy, URL, "--once"])
        .expect(1)
        .says("another copy");
    store
        .run(&["replicate", &copy, URL, "--once", "--takeover"])
        .expect(0);
    store
        .run(&["replicate", &db, URL, "--once"])
        .expect(1)
        .says("another copy");
    // A missing delta is an error.
    for _ in 0..3 {
        densite(&["sql", &copy, "INSERT INTO t VALUES(1)"]).expect(0);
        store.run(&["replicate", &copy, URL, "--once"]).expect(0);
    }
    let objects = store.own.path().join("objects/bucket/folder/app");
    let mut all = names(&objects).into_iter().rev();
    let name = all.find(|name| name.ends_with("-delta-000000000002"));
    let name = name.expect("a delta of the newest generation");
    std::fs::remove_file(objects.join(&name)).expect("removed");
    store
        .run(&["restore", URL, &at(&dir, "c.db")])
        .expect(5)
        .says(&name);
    let follower = store.run(&["sql", &format!("{URL}/"), "SELECT count(*) FROM t"]);
    assert!(follower.err.contains(&name), "{follower:?}");
}

#[test]
fn a_replica_in_a_second_store_survives_faults_and_races() {
    if let Some(store) = Store::new() {
        under_faults(&store, 1, 8);
    }
}

/// A part of `make crash`, which installs the server if Go is there.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_second_store() {
    if !Path::new(SERVER).join("bin/versitygw").is_file() {
        densite_testing::skip("versitygw is not installed: a second object store is not tested");
        println!("long run: 0 runs, 0 rounds, skipped");
        return;
    }
    densite_testing::long_run("rounds", |seed| {
        let store = Store::new().expect("a server");
        under_faults(&store, seed, 20);
        20
    });
}

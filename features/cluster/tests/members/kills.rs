//! Members as processes of their own that are killed and paused, on a stream whose server is killed
//! and cut off. At the end, all members have the same tables, rejects and digests. Every
//! acknowledged row is in them, once.

use super::loss::assert_same;
use super::{Cluster, ingest};
use crate::common::{self, all, one};
use densite_testing::acknowledged;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

const SCHEMA: &str = "CREATE TABLE own(id INTEGER PRIMARY KEY, writer INT, n INT);
    CREATE TABLE hits(page TEXT PRIMARY KEY, n INT);
    CREATE TABLE first(id INTEGER PRIMARY KEY, writer INT, n INT CHECK (n % 7 != 3));
    CREATE TABLE last(id INTEGER PRIMARY KEY)";
const NAMES: [&str; 3] = ["a", "b", "c"];
/// The ids of a writer's rows begin at its number times this.
const WRITER: i64 = 1_000_000;

/// The variables of a child: its database, and its number.
const PATH: &str = "DENSITE_MEMBER_CHILD";
const NUMBER: &str = "DENSITE_MEMBER_WRITER";

fn tables(con: &Connection) {
    ingest(con, "own", "");
    ingest(con, "hits", ", on_conflict='update(n = n + excluded.n)'");
    ingest(con, "first", "");
    ingest(con, "last", "");
}

/// Not a test by itself: the body of the child processes. It appends transactions and reports each
/// acknowledged one.
#[test]
fn child() {
    let Ok(path) = std::env::var(PATH) else {
        return;
    };
    let number = std::env::var(NUMBER).expect("a number");
    let writer: i64 = number.parse().expect("a number");
    let open = || {
        let con = common::open(Path::new(&path));
        tables(&con);
        con
    };
    let mut con = open();
    let mut n = 0;
    while n < WRITER - 1 {
        let id = writer * WRITER + n;
        let done = con.execute_batch(&format!(
            "BEGIN;
             INSERT INTO own_in VALUES ({id}, {writer}, {n});
             INSERT INTO hits_in VALUES ('page {}', {}), ('all', 1);
             INSERT INTO first_in VALUES ({n}, {writer}, {n});
             INSERT INTO last_in VALUES ({id});
             DELETE FROM last_in WHERE id = {};
             COMMIT",
            n % 3,
            n + 1,
            id - 1
        ));
        match done {
            Ok(()) => println!("acknowledged {n}"),
            // Another process of this database is paused in the middle of a transaction.
            Err(e) if e.to_string().contains("try again") => {
                con.execute_batch("ROLLBACK").expect("rolled back");
                continue;
            }
            Err(e) => panic!("a transaction: {e}"),
        }
        n += 1;
        if n % 16 == 0 {
            std::thread::sleep(Duration::from_millis(3));
        }
        // An ordinary close, while rows are being sent.
        if n % 100 == 0 {
            con.close().expect("closes");
            con = open();
        }
    }
}

/// A process of a member.
struct Writer {
    number: i64,
    child: Child,
    acknowledged: Receiver<i64>,
}

impl Writer {
    fn start(cluster: &Cluster, name: &str, number: i64) -> Writer {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "members::kills::child", "--nocapture"])
            .env(PATH, cluster.path(name))
            .env(NUMBER, number.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let acknowledged = acknowledged(&mut child);
        Writer {
            number,
            child,
            acknowledged,
        }
    }

    /// Sends it a signal.
    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let done = Command::new("kill").args([name, &id]).status();
        assert!(done.expect("kill").success());
    }

    /// Kills it. Notes the last transaction that it reported as acknowledged; -1: none.
    fn kill(mut self, done: &mut BTreeMap<i64, i64>) {
        if let Some(status) = self.child.try_wait().expect("a child") {
            panic!("writer {} ended by itself: {status}", self.number);
        }
        self.child.kill().expect("kills");
        self.child.wait().expect("is gone");
        let last = self.acknowledged.iter().last();
        done.insert(self.number, last.unwrap_or(-1));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A test that fails leaves no process behind.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// What was killed or cut.
#[derive(Debug, Default)]
struct Kills {
    members: u64,
    servers: u64,
    networks: u64,
}

/// Kills, pauses and cuts so many times. Returns how many kills and cuts there were.
fn run(cluster: &Cluster, seed: u64, steps: u64) -> u64 {
    println!("seed {seed}");
    let mut random = Random(seed);
    let a = cluster.founder(NAMES[0], SCHEMA);
    for name in &NAMES[1..] {
        drop(cluster.copy(&a, name));
    }
    drop(a);
    let (mut done, mut next, mut kills) = (BTreeMap::new(), 0, Kills::default());
    let has_server = cluster.place().has_server();
    let mut writers: Vec<(usize, Writer)> = Vec::new();
    let mut start = |member: usize| {
        next += 1;
        (member, Writer::start(cluster, NAMES[member], next))
    };
    for member in 0..NAMES.len() {
        writers.push(start(member));
    }
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..steps {
        std::thread::sleep(Duration::from_millis(random.below(400)));
        let place = random.below(writers.len() as u64) as usize;
        match random.below(8) {
            0..3 => {
                let (member, writer) = writers.swap_remove(place);
                writer.kill(&mut done);
                kills.members += 1;
                std::thread::sleep(Duration::from_millis(random.below(200)));
                writers.push(start(member));
            }
            // A second process of the same database.
            3 if writers.len() < 5 => {
                let member = random.below(NAMES.len() as u64) as usize;
                writers.push(start(member));
            }
            4 if has_server => {
                cluster.place().cut();
                kills.networks += 1;
            }
            5 if has_server => {
                cluster.place().set_away(true);
                std::thread::sleep(Duration::from_millis(random.below(1500)));
                cluster.place().set_away(false);
                kills.networks += 1;
            }
            6 => {
                let (_, writer) = &writers[place];
                writer.signal("-STOP");
                std::thread::sleep(Duration::from_millis(random.below(700)));
                writer.signal("-CONT");
            }
            _ if has_server => {
                cluster.place().restart();
                kills.servers += 1;
            }
            _ => {}
        }
    }
    for (_, writer) in writers {
        writer.kill(&mut done);
        kills.members += 1;
    }
    let members = NAMES.map(|name| {
        let con = common::open(&cluster.path(name));
        tables(&con);
        con
    });
    let [a, b, c] = &members;
    assert_same(&[a, b, c]);
    for con in &members {
        check(con, &done);
    }
    for sql in [
        "SELECT * FROM own ORDER BY id",
        "SELECT * FROM hits ORDER BY page",
        "SELECT * FROM first ORDER BY id",
        "SELECT seq, \"table\", \"row\", error FROM densite_rejects ORDER BY seq",
    ] {
        let of_a = all(a, sql);
        for other in [b, c] {
            assert!(of_a == all(other, sql), "seed {seed}: {sql} differs");
        }
    }
    println!("seed {seed}: {kills:?}");
    kills.members + kills.servers + kills.networks
}

/// A member has every transaction of each writer up to the last acknowledged one, or one more whose
/// acknowledgement was not reported, once.
fn check(con: &Connection, done: &BTreeMap<i64, i64>) {
    let mut all_rows = 0;
    for (writer, last) in done {
        let found = all(
            con,
            &format!("SELECT count(*), ifnull(max(n), -1) FROM own WHERE writer = {writer}"),
        );
        let count = found[0].split('|').next().expect("a count");
        let count: i64 = count.parse().expect("a number");
        assert_eq!(
            found[0],
            format!("{count}|{}", count - 1),
            "writer {writer}"
        );
        assert!(
            (last + 1..=last + 2).contains(&count),
            "writer {writer}: {count} after {last}"
        );
        let kept = format!(
            "SELECT id FROM last WHERE id BETWEEN {} AND {}",
            writer * WRITER - 1,
            writer * WRITER + WRITER - 2
        );
        let expected = match count {
            0 => Vec::new(),
            _ => vec![(writer * WRITER + count - 1).to_string()],
        };
        assert_eq!(all(con, &kept), expected, "writer {writer}");
        all_rows += count;
    }
    assert_eq!(one::<i64>(con, "SELECT count(*) FROM own"), all_rows);
    let expected = all(
        con,
        "SELECT 'page ' || (n % 3) AS page, sum(n + 1) FROM own GROUP BY page UNION ALL SELECT 'all', count(*) FROM own ORDER BY 1",
    );
    assert_eq!(all(con, "SELECT * FROM hits ORDER BY page"), expected);
    // The first one of each number that its table takes; all others are rejected.
    let taken = "SELECT count(DISTINCT n) FROM own WHERE n % 7 != 3";
    assert_eq!(all(con, "SELECT count(*) FROM first"), all(con, taken));
    let rejected: i64 = one(con, "SELECT count(*) FROM densite_rejects");
    assert_eq!(
        rejected + one::<i64>(con, "SELECT count(*) FROM first"),
        all_rows
    );
    let wrong = "SELECT count(*) FROM densite_rejects WHERE \"table\" != 'first'";
    assert_eq!(one::<i64>(con, wrong), 0);
}

#[test]
fn killed_members_of_a_directory_have_all_rows_once() {
    run(&Cluster::new(), densite_testing::fresh_seed(), 12);
}

#[test]
fn killed_members_and_a_killed_server_have_all_rows_once() {
    if let Some(cluster) = Cluster::on_nats("") {
        run(&cluster, densite_testing::fresh_seed(), 12);
    }
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_members() {
    densite_testing::long_run("kills and cuts", |seed| {
        Cluster::all()
            .iter()
            .map(|cluster| run(cluster, seed, 40))
            .sum()
    });
}

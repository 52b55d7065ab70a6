//! Random histories, with kills: a copy made of the changes equals the tables.
//!
//! A child process writes: ordinary statements with every conflict clause, savepoints, cascades,
//! triggers, and rows through ingest that are applied or rejected. It is killed at a random moment.
//! Meanwhile and afterwards the copy follows, acknowledges sometimes, and reads changes again.

use super::copy::{Copy, rows};
use crate::common::{self, Db, functions, one, open};
use densite_testing::Effort;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long an acknowledgement waits for the write lock.
const PATIENCE: Duration = Duration::from_millis(30);

/// Number of histories of a run. `make crash` runs more.
const HISTORIES: u64 = 6;

const SCHEMA: &str = "
CREATE TABLE parent(id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE, n INT CHECK (n % 10 <> 7));
CREATE TABLE child(a INT, b, parent INT REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE, x REAL, PRIMARY KEY (a, b)) WITHOUT ROWID;
CREATE TABLE loose(parent REFERENCES parent ON DELETE SET NULL, what, double AS (2 * what) STORED);
CREATE TABLE history(at INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT);
CREATE TABLE other(id INTEGER PRIMARY KEY, n);
CREATE TABLE middle(x REAL, k TEXT COLLATE NOCASE, y, n INT, PRIMARY KEY (n, k)) WITHOUT ROWID;
CREATE TABLE keyless(a, b REAL);
CREATE UNIQUE INDEX some ON loose(what) WHERE what > 50;
CREATE TRIGGER noted AFTER UPDATE OF n ON parent BEGIN
  INSERT INTO history(what) VALUES (old.n || ' to ' || new.n);
  UPDATE child SET x = x + 1 WHERE parent = new.id;
END;
CREATE TRIGGER kept BEFORE DELETE ON child WHEN old.a = 3 BEGIN
  INSERT OR REPLACE INTO other VALUES (old.a, old.b);
  SELECT raise(IGNORE) WHERE old.b = 1;
END;
CREATE TRIGGER changed_again AFTER INSERT ON parent WHEN new.n > 15 BEGIN
  UPDATE parent SET n = n - 1 WHERE id = new.id;
END";

/// Rows that are stored without the columns that are added then. The default is a number that a REAL
/// column would change.
const ROWS_WITHOUT_COLUMNS: &str = "
WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < 29)
INSERT INTO middle SELECT n / 4.0, 'k' || n % 4, 9007199254740993, n % 10 FROM i WHERE true ON CONFLICT DO NOTHING;
WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < 29)
INSERT INTO keyless SELECT n, n / 7.0 FROM i;
ALTER TABLE middle ADD COLUMN added DEFAULT 9007199254740993;
ALTER TABLE keyless ADD COLUMN added INT NOT NULL DEFAULT '5';
ALTER TABLE keyless ADD COLUMN more TEXT DEFAULT x'0102'";

/// The recorded tables, and their columns in a copy.
const TABLES: [(&str, &str); 6] = [
    ("parent", "id, name, n"),
    ("child", "a, b, parent, x"),
    ("loose", "parent, what"),
    ("history", "at, what"),
    ("middle", "x, k, y, n, added"),
    ("keyless", "a, b, added, more"),
];

/// Not a test by itself: the body of the child processes, which writes until it is killed.
#[test]
fn child() {
    let Ok(path) = std::env::var("DENSITE_CHANGES_CHILD") else {
        return;
    };
    let seed = std::env::var("DENSITE_CHANGES_SEED").expect("a seed");
    let r = &mut StdRng::seed_from_u64(seed.parse().expect("a number"));
    let con = open(Path::new(&path));
    let on = |setting: &str, r: &mut StdRng| {
        if r.random::<bool>() {
            con.execute_batch(setting).expect("set");
        }
    };
    on("PRAGMA foreign_keys = ON", r);
    on("PRAGMA recursive_triggers = ON", r);
    let policies = [
        "",
        ", on_conflict=replace",
        ", on_conflict=ignore",
        ", on_conflict='update(n = n + excluded.n)'",
    ];
    let policy = policies[r.random_range(0..policies.len())];
    common::create(&con, "parent", policy).expect("an ingest table");
    loop {
        transaction(&con, r);
    }
}

/// One transaction, which can fail.
fn transaction(con: &Connection, r: &mut StdRng) {
    if r.random_range(0..4) == 0 {
        for _ in 0..r.random_range(1..4) {
            let (id, n) = (r.random_range(0..30), r.random_range(0..20));
            let sql = match r.random_range(0..4) {
                0 => format!("DELETE FROM parent_in WHERE id = {id}"),
                1 => format!("UPDATE parent_in SET n = {n} WHERE id = {id}"),
                _ => format!("INSERT INTO parent_in VALUES ({id}, 'n{n}', {n}), ({n}, 'N{id}', 3)"),
            };
            con.execute_batch(&sql).ok();
        }
        return;
    }
    let in_transaction = r.random::<bool>();
    if in_transaction {
        con.execute_batch("BEGIN IMMEDIATE").ok();
    }
    for _ in 0..r.random_range(1..8) {
        con.execute_batch(&statement(r)).ok();
    }
    if in_transaction {
        let end = ["COMMIT", "COMMIT", "ROLLBACK"][r.random_range(0..3)];
        con.execute_batch(end).ok();
        if !con.is_autocommit() {
            con.execute_batch("ROLLBACK").ok();
        }
    }
}

fn statement(r: &mut StdRng) -> String {
    let or = ["", "", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ROLLBACK"][r.random_range(0..6)];
    let (a, b, n) = (
        r.random_range(0..30),
        r.random_range(0..4),
        r.random_range(0..60),
    );
    match r.random_range(0..23) {
        0 => "SAVEPOINT s".to_owned(),
        1 => "ROLLBACK TO s".to_owned(),
        2 => "RELEASE s".to_owned(),
        3 => format!("INSERT {or} INTO parent VALUES ({a}, 'n{n}', {n}), ({n}, 'N{a}', 1)"),
        4 => format!("UPDATE {or} parent SET id = {n}, name = 'n{b}' WHERE id = {a}"),
        5 => format!("UPDATE {or} parent SET n = n + 1 WHERE id BETWEEN {a} AND {a} + {b}"),
        6 => format!("DELETE FROM parent WHERE id = {a}"),
        7 => format!(
            "INSERT {or} INTO child VALUES ({b}, {n} % 3, {a}, {n} / 7.0), ({b}, x'{b}0', {a}, {n})"
        ),
        8 => format!("UPDATE {or} child SET b = {b} WHERE a = {n} % 4"),
        9 => format!("DELETE FROM child WHERE parent = {a}"),
        10 => format!("INSERT {or} INTO loose VALUES ({a}, {n} + {b})"),
        11 => format!("UPDATE {or} loose SET what = {n} WHERE what = {a}"),
        12 => format!(
            "INSERT INTO parent VALUES ({a}, 'x{n}', 5) ON CONFLICT(id) DO UPDATE SET name = excluded.name ON CONFLICT DO NOTHING"
        ),
        13 if b == 0 => "DELETE FROM child".to_owned(),
        13 if b == 1 => "DELETE FROM history".to_owned(),
        16 => {
            format!("INSERT {or} INTO middle(n, k, x, y) VALUES ({a} % 10, 'K{b}', {n}, {n} / 3.0)")
        }
        17 => format!("UPDATE {or} middle SET x = x + 1, y = {n} WHERE n = {a} % 10"),
        18 => format!(
            "UPDATE {or} middle SET k = 'k{b}', added = {n} WHERE n = {a} % 10 AND k >= 'K2'"
        ),
        19 => format!("DELETE FROM middle WHERE n = {a} % 10 AND k = 'k{b}'"),
        20 => format!("INSERT INTO keyless(a, b) VALUES ({a}, {n}), (NULL, x'{b}0')"),
        21 => format!("UPDATE keyless SET b = b + 0.5, more = {n} WHERE a = {a}"),
        22 => format!("DELETE FROM keyless WHERE a = {a}"),
        14 => format!("INSERT INTO other VALUES ({n}, {a}) ON CONFLICT DO UPDATE SET n = {a}"),
        _ => format!("INSERT INTO loose SELECT id, {n} FROM parent WHERE id < {a}"),
    }
}

/// Follows at a random pace, as another process would.
struct Follower {
    con: Connection,
    copy: Copy,
    /// The state of the copy that was acknowledged.
    acknowledged: i64,
}

impl Follower {
    fn step(&mut self, r: &mut StdRng) {
        let most = [50, 50, 50, 5000][r.random_range(0..4)];
        self.copy.follow(&self.con, r.random_range(0..most));
        if r.random_range(0..3) == 0 {
            let to = r.random_range(self.acknowledged..=self.copy.seq);
            // The writers hold the lock most of the time. They would go on while this waits.
            self.con.busy_timeout(PATIENCE).expect("set");
            let sql = "SELECT densite_changes_ack('s', ?1)";
            match self.con.query_row(sql, [to], |row| row.get::<_, i64>(0)) {
                Ok(at) => {
                    assert_eq!(at, to);
                    self.acknowledged = to;
                }
                Err(e) => assert!(e.to_string().contains("locked"), "{e}"),
            }
            self.con.busy_timeout(Duration::from_secs(20)).expect("set");
        }
    }
}

fn history(seed: u64) -> u64 {
    println!("seed {seed}");
    let r = &mut StdRng::seed_from_u64(seed);
    let encoding = ["UTF-8", "UTF-8", "UTF-16le", "UTF-16be"][r.random_range(0..4)];
    let db = Db::with_schema_first(&format!(
        "PRAGMA encoding = '{encoding}'; {SCHEMA}; {ROWS_WITHOUT_COLUMNS}"
    ));
    let con = db.open();
    if r.random::<bool>() {
        // Only the recorder's own triggers are left.
        con.execute_batch("DROP TRIGGER noted; DROP TRIGGER kept; DROP TRIGGER changed_again")
            .expect("drops");
    }
    for (table, _) in TABLES {
        one::<String>(
            &con,
            &format!("SELECT densite_config('changes', '{table}', 'on')"),
        );
    }
    one::<i64>(&con, "SELECT densite_changes_subscribe('s')");
    let copy = Copy::new(&TABLES, &con);
    let mut follower = Follower {
        con,
        copy,
        acknowledged: 0,
    };
    for _ in 0..r.random_range(1..3) {
        let writers = r.random_range(1..3);
        let mut children: Vec<_> = (0..writers).map(|_| spawn(&db, r.random())).collect();
        let until = Instant::now() + Duration::from_millis(r.random_range(60..400));
        while Instant::now() < until {
            follower.step(r);
            std::thread::sleep(Duration::from_millis(r.random_range(0..20)));
        }
        for child in &mut children {
            child.kill().expect("kills");
            child.wait().expect("is gone");
        }
    }
    // Rows that wait in the log are applied now.
    common::create(&follower.con, "parent", "").expect("an ingest table");
    common::wait(&follower.con);
    let last = last(&follower.con);
    while follower.copy.seq < last {
        follower.step(r);
    }
    for (table, _) in TABLES {
        let (copy, own) = (follower.copy.rows(table), rows(&follower.con, table));
        assert_eq!(copy, own, "seed {seed}, {table}");
    }
    let check = common::all(&follower.con, "PRAGMA integrity_check");
    assert_eq!(check, ["ok"], "seed {seed}");
    follower.copy.seq as u64
}

fn last(con: &Connection) -> i64 {
    let sql = "SELECT ifnull(max(seq), 0) FROM densite_changes('s', 1000000000)";
    let position: i64 = one(
        con,
        "SELECT seq FROM densite_change_subscribers WHERE name = 's'",
    );
    one::<i64>(con, sql).max(position)
}

fn spawn(db: &Db, seed: u64) -> std::process::Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "changed::histories::child", "--nocapture"])
        .env("DENSITE_CHANGES_CHILD", db.path())
        .env("DENSITE_CHANGES_SEED", seed.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts")
}

#[test]
fn copies_equal_after_random_histories_with_kills() {
    let changes: u64 = densite_testing::fresh_seeds(HISTORIES).map(history).sum();
    println!("{changes} changes");
    assert!(changes > Effort::wanted().least(100), "{changes}");
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_changes() {
    densite_testing::long_run("changes", history);
}

/// A statement fails if its connection has no recorder. So the application's must not be closed
/// before.
#[test]
fn a_recorder_can_be_registered_twice() {
    let db = Db::new("CREATE TABLE t(a)");
    let con = db.open();
    functions(common::api(), &con);
    one::<String>(&con, "SELECT densite_config('changes', 't', 'on')");
    one::<i64>(&con, "SELECT densite_changes_subscribe('s')");
    con.execute_batch("INSERT INTO t VALUES (1)")
        .expect("inserts");
    assert_eq!(
        one::<i64>(&con, "SELECT count(*) FROM densite_changes('s')"),
        1
    );
}

//! Rows that are applied in another order than that of the log: the result is that of the log's order, and whoever reads meanwhile sees all rows, once.

mod common;
#[path = "common/small.rs"]
mod small;

use common::{Db, all, create, one, wait};
use densite_ingest::Sweeps;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;
use std::time::{Duration, Instant};

/// Sweeps of some hundred rows, with transactions of a few.
const FEW: Sweeps = Sweeps {
    least: 40,
    most: 300,
    bytes: 1 << 20,
    together: 20,
    at_once: 2,
};

/// As [`FEW`], but slower.
const ONE: Sweeps = Sweeps { at_once: 1, ..FEW };

/// A table, and the values of a random row.
struct Shape {
    schema: &'static str,
    columns: fn(&mut StdRng) -> String,
    /// The key's columns.
    key: &'static str,
}

fn text(random: &mut StdRng) -> String {
    let letter = ["a", "A", "b", "B ", "b", "cc", "Cc", "d  ", "d"][random.random_range(0..9)];
    format!("'{letter}{}'", random.random_range(0..12))
}

const SHAPES: [Shape; 6] = [
    Shape {
        schema: "CREATE TABLE t(u INTEGER NOT NULL, s INTEGER NOT NULL, v, PRIMARY KEY(u, s)); CREATE INDEX by_s ON t(s)",
        columns: |r| {
            format!(
                "{}, {}, {}",
                r.random_range(0..30),
                r.random_range(0..8),
                r.random_range(0..99)
            )
        },
        key: "u, s",
    },
    Shape {
        schema: "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, v COLLATE NOCASE, x) WITHOUT ROWID; CREATE INDEX by_v ON t(v)",
        columns: |r| format!("{}, {}, {}", text(r), text(r), r.random_range(0..99)),
        key: "k",
    },
    Shape {
        schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, v, CHECK (v % 9 <> 4)); CREATE INDEX by_a ON t(a); CREATE INDEX by_v ON t(v, a)",
        columns: |r| {
            format!(
                "{}, {}, {}",
                r.random_range(-80..80),
                text(r),
                r.random_range(0..99)
            )
        },
        key: "id",
    },
    Shape {
        schema: "CREATE TABLE t(k TEXT COLLATE RTRIM PRIMARY KEY, v)",
        columns: |r| format!("{}, {}", text(r), r.random_range(0..99)),
        key: "k",
    },
    Shape {
        schema: "CREATE TABLE t(k PRIMARY KEY NOT NULL, v, w); CREATE INDEX odd ON t(v + 1); CREATE INDEX by_w ON t(w DESC, v) WHERE w > 3; CREATE INDEX by_v ON t(v)",
        columns: |r| {
            let n = r.random_range(0..40);
            let k = match r.random_range(0..4) {
                0 => format!("{n}.0"),
                1 => format!("{n}.5"),
                2 => format!("x'{n:02x}'"),
                _ => n.to_string(),
            };
            format!("{k}, {}, {}", r.random_range(0..20), r.random_range(0..9))
        },
        key: "k",
    },
    Shape {
        schema: "CREATE TABLE t(k TEXT PRIMARY KEY, v REAL); CREATE INDEX by_v ON t(v)",
        columns: |r| format!("'{}', {}.25", r.random::<u32>(), r.random_range(0..99)),
        key: "k",
    },
];

const POLICIES: [(&str, &str); 4] = [
    ("abort", "INSERT"),
    ("ignore", "INSERT OR IGNORE"),
    ("replace", "REPLACE"),
    ("'update(v)'", "INSERT"),
];

/// A random change of the table `t`, as plain SQL says it.
fn change(random: &mut StdRng, shape: &Shape, verb: &str, update: bool) -> String {
    let values = (shape.columns)(random);
    let keys = shape.key.split(", ").count();
    let key: Vec<&str> = values.split(", ").take(keys).collect();
    match random.random_range(0..12) {
        0 => format!("DELETE FROM t WHERE ({}) = ({})", shape.key, key.join(", ")),
        1 => format!(
            "UPDATE t SET v = 7 WHERE ({}) = ({})",
            shape.key,
            key.join(", ")
        ),
        _ if update => format!(
            "{verb} INTO t VALUES ({values}) ON CONFLICT({}) DO UPDATE SET v = excluded.v",
            shape.key
        ),
        _ => format!("{verb} INTO t VALUES ({values})"),
    }
}

/// The same for the ingest table.
fn through(sql: &str) -> String {
    let plain = sql.split(" ON CONFLICT").next().unwrap_or_default();
    plain
        .replace("INSERT OR IGNORE INTO t ", "INSERT INTO t_in ")
        .replace("REPLACE INTO t ", "INSERT INTO t_in ")
        .replace(" INTO t ", " INTO t_in ")
        .replace(" FROM t ", " FROM t_in ")
        .replace("UPDATE t ", "UPDATE t_in ")
}

fn rows(con: &Connection, table: &str) -> Vec<String> {
    let mut rows = all(con, &format!("SELECT * FROM {table}"));
    rows.sort_unstable();
    rows
}

/// Writes changes to the log; answers those that it has, one for each number, as they will be applied.
fn log(con: &Connection, shape: &Shape, changes: Vec<String>, what: &str) -> Vec<String> {
    let (mut logged, count) = (Vec::new(), changes.len());
    for (i, sql) in changes.into_iter().enumerate() {
        if i % 10 == 0 {
            con.execute_batch("BEGIN").expect("begins");
        }
        con.execute_batch(&through(&sql))
            .unwrap_or_else(|e| panic!("{what}: {sql}: {e}"));
        // What changes nothing that is there is not logged.
        if con.changes() == 1 {
            logged.push(whole(con, shape, sql));
        }
        if i % 10 == 9 || i + 1 == count {
            con.execute_batch("COMMIT").expect("commits");
        }
    }
    assert_eq!(
        one::<i64>(con, "SELECT densite_log_last()"),
        logged.len() as i64,
        "{what}"
    );
    logged
}

/// The log has an update's whole row.
fn whole(con: &Connection, shape: &Shape, sql: String) -> String {
    let Some(key) = sql.strip_prefix("UPDATE t SET v = 7 ") else {
        return sql;
    };
    let columns: Vec<String> = all(con, "SELECT name FROM pragma_table_info('t')")
        .into_iter()
        .filter(|c| !shape.key.split(", ").any(|k| k == c))
        .collect();
    let set: Vec<String> = columns
        .iter()
        .map(|c| {
            format!(
                "{c} = {}",
                one::<String>(con, &format!("SELECT quote({c}) FROM t_in {key}"))
            )
        })
        .collect();
    format!("UPDATE t SET {} {key}", set.join(", "))
}

/// Where a sweep is: `seq`, its last number, places done, and its definition.
fn place(con: &Connection) -> (i64, i64, i64, Vec<u32>) {
    let (seq, last, done) = con
        .query_row(
            "SELECT seq, sweep_last, sweep_done FROM densite_applied",
            [],
            |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)),
        )
        .expect("a position");
    let blob: Option<Vec<u8>> = con
        .query_row(
            "SELECT places FROM densite_sweep WHERE id = (SELECT sweep FROM densite_applied)",
            [],
            |r| r.get(0),
        )
        .ok();
    let places = blob.unwrap_or_default();
    let places = places
        .chunks(4)
        .map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")));
    (seq, last, done, places.collect())
}

/// A database in memory with the rows that a table of another one has.
fn copy(con: &Connection, shape: &Shape) -> Connection {
    let copy = Connection::open_in_memory().expect("opens");
    copy.execute_batch(shape.schema).expect("the table");
    let mut from = con.prepare("SELECT * FROM t").expect("reads");
    let columns = from.column_count();
    let places = vec!["?"; columns].join(", ");
    let mut into = copy
        .prepare(&format!("INSERT INTO t VALUES ({places})"))
        .expect("an insert");
    let mut rows = from.query([]).expect("reads");
    while let Some(row) = rows.next().expect("a row") {
        let values: Vec<rusqlite::types::Value> =
            (0..columns).map(|i| row.get(i).expect("a value")).collect();
        into.execute(rusqlite::params_from_iter(values))
            .expect("inserts");
    }
    drop(into);
    copy
}

/// The log from `seq` on, but for what a sweep has done, applied to what the table has.
fn expected(con: &Connection, shape: &Shape, changes: &[String]) -> Vec<String> {
    let model = copy(con, shape);
    let (seq, last, done, places) = place(con);
    for (number, sql) in (1i64..).zip(changes) {
        let is_swept = number > seq
            && number <= last
            && i64::from(places[usize::try_from(number - seq - 1).expect("a place")]) < done;
        if number > seq && !is_swept {
            model.execute_batch(sql).ok();
        }
    }
    rows(&model, "t")
}

/// The lock, taken when a sweep is between its first and its last transaction; `None` when there is nothing left to apply.
fn caught(con: &Connection, changes: usize) -> Option<(i64, i64)> {
    let until = Instant::now() + Duration::from_secs(20);
    con.busy_timeout(Duration::ZERO).expect("a timeout");
    while Instant::now() < until {
        // Asks again at once: the worker gives the lock back for a moment only.
        if con.execute_batch("BEGIN IMMEDIATE").is_err() {
            continue;
        }
        let (seq, _, done, _) = place(con);
        if done > 0 || seq >= changes as i64 {
            return (done > 0).then_some((seq, done));
        }
        con.execute_batch("ROLLBACK").expect("gives it back");
        std::thread::yield_now();
    }
    panic!("nothing is applied");
}

/// Random changes of each shape, waiting in the log, applied by sweeps; somebody else now and then changes the table itself, or its schema, in the middle. Two readers, that share nothing but
/// the files, see what the model says at every stage.
#[test]
fn a_sweep_does_what_the_log_order_does() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut caught_up = 0;
    for (i, shape) in SHAPES.iter().enumerate() {
        for (policy, verb) in POLICIES {
            let what = format!("seed {seed}, shape {i}, {policy}");
            caught_up += run(&mut random, shape, policy, verb, &what);
        }
    }
    assert!(
        caught_up > 30,
        "sweeps were seen on their way {caught_up} times"
    );
}

fn run(random: &mut StdRng, shape: &Shape, policy: &str, verb: &str, what: &str) -> u64 {
    let db = Db::new(shape.schema);
    let con = small::connect(&db.path(), FEW, 0);
    create(&con, "t", &format!(", on_conflict={policy}")).expect("the ingest table");
    let other = small::connect(&db.path(), FEW, 1);
    create(&other, "t", &format!(", on_conflict={policy}")).expect("the ingest table");
    let plain = Connection::open(db.path()).expect("opens");
    plain
        .busy_timeout(Duration::from_secs(10))
        .expect("a timeout");
    plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let changes: Vec<String> = (0..random.random_range(100..600))
        .map(|_| change(random, shape, verb, policy.contains("update")))
        .collect();
    let changes = log(&con, shape, changes, what);
    let mut end = expected(&plain, shape, &changes);
    plain.execute_batch("ROLLBACK").expect("gives it back");
    let mut seen = 0;
    while caught(&plain, changes.len()).is_some() {
        seen += 1;
        let now = expected(&plain, shape, &changes);
        // What the table will refuse is shown until then.
        if !shape.schema.contains("CHECK") {
            assert_eq!(rows(&con, "t_in"), now, "{what}");
            assert_eq!(rows(&other, "t_in"), now, "{what}, of another process");
        }
        assert_eq!(now, end, "{what}: between");
        match random.random_range(0..4) {
            // What somebody else does to the table is there at once, and stays.
            0 => {
                let sql = change(random, shape, verb, policy.contains("update"));
                plain.execute_batch(&sql).ok();
                end = expected(&plain, shape, &changes);
                plain.execute_batch("COMMIT").expect("commits");
            }
            1 if random.random_range(0..10) == 0 => {
                let n: u32 = random.random();
                plain
                    .execute_batch(&format!(
                        "CREATE INDEX by_{n} ON t(v); CREATE TABLE more_{n}(x); COMMIT"
                    ))
                    .expect("changes");
            }
            _ => plain.execute_batch("ROLLBACK").expect("gives it back"),
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..500)));
    }
    plain.execute_batch("ROLLBACK").expect("gives it back");
    wait(&con);
    assert_eq!(rows(&con, "t"), end, "{what}: the end");
    assert_eq!(rows(&other, "t_in"), end, "{what}: the end");
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM densite_sweep"), 0);
    assert_eq!(all(&con, "PRAGMA integrity_check"), ["ok"], "{what}");
    seen
}

/// A database with a table and another index, and a log with changes that wait; nothing is applied as long as the lock is held, which the last connection has.
fn waiting(
    shape: &Shape,
    count: usize,
    random: &mut StdRng,
) -> (Db, Connection, Connection, Vec<String>) {
    let db = Db::new(shape.schema);
    let con = small::connect(&db.path(), ONE, 0);
    create(&con, "t", ", on_conflict=replace").expect("the ingest table");
    let plain = Connection::open(db.path()).expect("opens");
    plain
        .busy_timeout(Duration::from_secs(10))
        .expect("a timeout");
    plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let changes = (0..count).map(|_| change(random, shape, "REPLACE", false));
    let changes = log(&con, shape, changes.collect(), "waiting");
    (db, con, plain, changes)
}

/// What becomes of the changes that are not applied yet, one after the other; and which of them the table refuses. Everything is taken back.
fn one_by_one(plain: &Connection, changes: &[String]) -> (Vec<String>, Vec<String>) {
    let (seq, last, done, places) = place(plain);
    let mut rejects = all(plain, "SELECT seq FROM densite_rejects");
    plain.execute_batch("SAVEPOINT model").expect("begins");
    for (number, sql) in (1i64..).zip(changes).skip_while(|(n, _)| *n <= seq) {
        let at = usize::try_from(number - seq - 1).expect("a number behind it");
        if number <= last && i64::from(places[at]) < done {
            continue;
        }
        // Columns that came later have their defaults.
        let sql = sql.replace("INTO t VALUES", "INTO t(u, s, v) VALUES");
        let is_done = plain.execute(&sql, []);
        if is_done.is_err() || sql.starts_with("UPDATE") && is_done == Ok(0) {
            rejects.push(number.to_string());
        }
    }
    let there: i64 = one(plain, "SELECT count(*) FROM sqlite_schema WHERE name = 't'");
    let rows = match there {
        0 => Vec::new(),
        _ => rows(plain, "t"),
    };
    plain
        .execute_batch("ROLLBACK TO model; RELEASE model")
        .expect("takes it back");
    rejects.sort_unstable();
    (rows, rejects)
}

/// What makes order matter may come in the middle of a sweep: then what is left of it is applied in the order of the log. So it is when rows cannot be applied any more.
#[test]
fn a_schema_that_changes_in_the_middle_leaves_the_order_of_the_log() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let stop = "CREATE TRIGGER stop BEFORE INSERT ON t WHEN new.u % 3 = 1 BEGIN SELECT RAISE(ABORT, 'no'); END";
    let sooner = [
        "DELETE FROM t WHERE rowid NOT IN (SELECT min(rowid) FROM t GROUP BY s); CREATE UNIQUE INDEX one ON t(s)",
        "CREATE TABLE seen(n, s); INSERT INTO seen VALUES (0, 0); CREATE TRIGGER look AFTER INSERT ON t BEGIN UPDATE seen SET n = (n * 3 + new.u) % 1000003; UPDATE t SET v = (SELECT n FROM seen) WHERE rowid = new.rowid; END",
        stop,
        "ALTER TABLE t RENAME COLUMN v TO other",
        "ALTER TABLE t ADD COLUMN more DEFAULT 5",
        "DROP TABLE t; CREATE TABLE t(u, s, v, w, PRIMARY KEY(u, s)) WITHOUT ROWID; CREATE INDEX by_v ON t(v)",
        "DROP TABLE t",
    ];
    for sql in sooner {
        let (_db, con, plain, changes) = waiting(&SHAPES[0], 500, &mut random);
        plain.execute_batch("ROLLBACK").expect("gives it back");
        assert!(
            caught(&plain, changes.len()).is_some(),
            "it was over too soon"
        );
        plain.execute_batch(sql).expect("changes");
        let (end, rejects) = one_by_one(&plain, &changes);
        if sql == stop {
            // The worker's whole transaction is gone each time.
            let harder = stop.replace("ABORT", "ROLLBACK");
            plain
                .execute_batch(&format!("DROP TRIGGER stop; {harder}"))
                .expect("changes");
        }
        plain.execute_batch("COMMIT").expect("commits");
        wait(&con);
        let what = format!("seed {seed}: {sql}");
        if sql != "DROP TABLE t" {
            assert_eq!(rows(&plain, "t"), end, "{what}");
        }
        let mut found = all(&plain, "SELECT seq FROM densite_rejects");
        found.sort_unstable();
        assert_eq!(found, rejects, "{what}");
    }
}

/// Not a test by itself: a process that applies what waits, until it is killed.
#[test]
fn child() {
    let Ok(path) = std::env::var("DENSITE_INGEST_SWEEPER") else {
        return;
    };
    let con = small::connect(std::path::Path::new(&path), ONE, 0);
    create(&con, "t", ", on_conflict=replace").expect("the ingest table");
    let rows = rows(&con, "t_in");
    println!("rows {}", rows.join(";"));
    wait(&con);
}

/// Processes that apply are killed one after the other in the middle of sweeps; each first reads what its predecessors left.
#[test]
fn killed_processes_leave_what_the_next_one_goes_on_with() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (db, con, plain, changes) = waiting(&SHAPES[0], 6000, &mut random);
    let (end, rejects) = one_by_one(&plain, &changes);
    // Without a connection that ingests nobody applies.
    drop(con);
    plain.execute_batch("ROLLBACK").expect("gives it back");
    let (mut in_the_middle, mut rounds) = (0, 0);
    while place(&plain).0 < changes.len() as i64 && rounds < 500 {
        rounds += 1;
        let mut child = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "child", "--nocapture"])
            .env("DENSITE_INGEST_SWEEPER", db.path())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("starts");
        std::thread::sleep(Duration::from_millis(random.random_range(8..60)));
        child.kill().expect("kills");
        let told = child.wait_with_output().expect("is gone").stdout;
        let told = String::from_utf8_lossy(&told).into_owned();
        if let Some((_, read)) = told.split_once("rows ")
            && let Some((read, _)) = read.split_once('\n')
        {
            assert_eq!(read, end.join(";"), "seed {seed}");
        }
        in_the_middle += u32::from(place(&plain).2 > 0);
    }
    println!("{rounds} rounds, {in_the_middle} in the middle of a sweep");
    assert!(in_the_middle > 2, "{in_the_middle} of {rounds}");
    assert_eq!(rows(&plain, "t"), end, "seed {seed}");
    let mut found = all(&plain, "SELECT seq FROM densite_rejects");
    found.sort_unstable();
    assert_eq!(found, rejects, "seed {seed}");
    assert_eq!(all(&plain, "PRAGMA integrity_check"), ["ok"]);
}

/// Numbers that a sweep has are not given to other rows, though the log that is put back ends before them; and what is not there is not taken for applied.
#[test]
fn a_shorter_log_gives_no_number_twice() {
    let mut random = StdRng::seed_from_u64(1);
    let (db, con, plain, _) = waiting(&SHAPES[0], 100, &mut random);
    let aside = db.path().with_extension("aside");
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        std::fs::create_dir_all(to).expect("a folder");
        for entry in std::fs::read_dir(from).expect("a folder") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copies");
        }
    };
    let shorter: i64 = one(&con, "SELECT densite_log_last()");
    drop(con);
    copy(&db.log_dir(), &aside);
    let con = small::connect(&db.path(), ONE, 0);
    create(&con, "t", ", on_conflict=replace").expect("the ingest table");
    con.execute_batch("BEGIN").expect("begins");
    for n in 0..4000 {
        con.execute_batch(&format!(
            "INSERT INTO t_in VALUES ({}, 1, 1)",
            n * 1777 % 4001
        ))
        .expect("inserts");
        if n % 50 == 49 {
            con.execute_batch("COMMIT; BEGIN").expect("commits");
        }
    }
    con.execute_batch("COMMIT").expect("commits");
    plain.execute_batch("ROLLBACK").expect("gives it back");
    // A sweep that has numbers beyond the shorter log.
    let until = Instant::now() + Duration::from_secs(20);
    let last = loop {
        assert!(Instant::now() < until, "no such sweep");
        match caught(&plain, usize::MAX) {
            Some(_) if place(&plain).1 > shorter => break place(&plain).1,
            _ => plain.execute_batch("ROLLBACK").expect("gives it back"),
        }
    };
    drop(con);
    plain.execute_batch("ROLLBACK").expect("gives it back");
    std::fs::remove_dir_all(db.log_dir()).expect("goes");
    copy(&aside, &db.log_dir());
    let con = small::connect(&db.path(), ONE, 0);
    create(&con, "t", ", on_conflict=replace").expect("the ingest table");
    con.execute_batch("INSERT INTO t_in VALUES (-5, -5, -5)")
        .expect("inserts");
    assert!(one::<i64>(&con, "SELECT densite_last_seq()") > last);
    wait(&con);
    assert_eq!(one::<i64>(&con, "SELECT count(*) FROM t WHERE u = -5"), 1);
}

/// Rows that get the next id when their turn comes may not be moved, nor may others be moved across them.
#[test]
fn rows_without_an_id_keep_their_turn() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE INDEX by_v ON t(v)";
    let db = Db::new(schema);
    let con = small::connect(&db.path(), FEW, 0);
    create(&con, "t", "").expect("the ingest table");
    let plain = Connection::open(db.path()).expect("opens");
    plain.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let model = Connection::open_in_memory().expect("opens");
    model.execute_batch(schema).expect("the table");
    con.execute_batch("BEGIN").expect("begins");
    for i in 0..400 {
        let id = match i % 90 < 60 || random.random_bool(0.8) {
            true => random.random_range(0..5000).to_string(),
            false => "NULL".to_owned(),
        };
        let sql = format!(
            "INSERT INTO t VALUES ({id}, {})",
            random.random_range(0..99)
        );
        model.execute_batch(&sql).ok();
        con.execute_batch(&through(&sql)).expect("inserts");
        if i % 10 == 9 {
            con.execute_batch("COMMIT; BEGIN").expect("commits");
        }
    }
    con.execute_batch("COMMIT").expect("commits");
    plain.execute_batch("ROLLBACK").expect("gives it back");
    wait(&con);
    assert_eq!(rows(&plain, "t"), rows(&model, "t"), "seed {seed}");
}

/// Before the first release `densite_applied` had fewer columns.
#[test]
fn a_database_of_an_earlier_version_is_told_from_others() {
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE densite_applied(id INTEGER PRIMARY KEY CHECK (id = 1), log BLOB NOT NULL, seq INTEGER NOT NULL);
         INSERT INTO densite_applied VALUES (1, zeroblob(16), 3)",
    );
    let said = create(&db.open(), "t", "")
        .expect_err("refused")
        .to_string();
    assert!(said.contains("from before its first release"), "{said}");
}

/// Rows in front of a damaged place are applied, also where all of them and those behind it would have been put in order together.
#[test]
fn rows_in_front_of_damage_are_applied() {
    let mut random = StdRng::seed_from_u64(1);
    let (db, con, plain, changes) = waiting(&SHAPES[0], 200, &mut random);
    drop(con);
    // The last record but a few: its bytes are overwritten.
    let segment = db.log_dir().join("000000000001.seg");
    let mut bytes = std::fs::read(&segment).expect("reads");
    let end = bytes.iter().rposition(|b| *b != 0).expect("records");
    for byte in bytes.iter_mut().take(end - 2000).skip(end - 2100) {
        *byte ^= 0x55;
    }
    std::fs::write(&segment, bytes).expect("writes");
    plain.execute_batch("ROLLBACK").expect("gives it back");
    let con = small::connect(&db.path(), FEW, 0);
    create(&con, "t", ", on_conflict=replace").expect("the ingest table");
    let until = Instant::now() + Duration::from_secs(20);
    while place(&plain).0 < 40 {
        assert!(Instant::now() < until, "it stays at {}", place(&plain).0);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(place(&plain).0 < changes.len() as i64);
    con.query_row("SELECT densite_wait()", [], |_| Ok(()))
        .expect_err("the rest cannot be read");
}

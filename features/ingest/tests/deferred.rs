//! Foreign keys that COMMIT checks. Each transaction of the log is judged as if it were committed
//! alone, whatever it is applied together with. This also holds if the key is added in the middle
//! of a clustered apply.

use crate::common::storage;
use crate::common::waiting;

use crate::common::{Db, Held, all, create, wait};
use densite_ingest::ClusteredLimits;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;

use waiting::{caught, place};

const SELF: &str =
    "CREATE TABLE t(id INTEGER PRIMARY KEY, up REFERENCES t(id) DEFERRABLE INITIALLY DEFERRED, v)";
const FREE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, up, v); CREATE INDEX by_v ON t(v)";

/// A later transaction does not repair an earlier one, even if both are applied together.
#[test]
fn a_later_transaction_does_not_repair_an_earlier_one() {
    let db = Db::new(SELF);
    let con = db.ingest("t", ", on_conflict=replace");
    con.execute_batch("INSERT INTO t_in VALUES (1, NULL, 0), (2, 1, 0)")
        .expect("inserts");
    let held = Held::new(&db);
    for sql in [
        "INSERT INTO t_in VALUES (10, 11, 0)",
        "INSERT INTO t_in VALUES (11, NULL, 0)",
        "DELETE FROM t_in WHERE id = 1",
        "INSERT INTO t_in VALUES (1, NULL, 5)",
        "INSERT INTO t_in VALUES (12, 11, 0)",
    ] {
        con.execute_batch(sql).expect("logged");
    }
    drop(held);
    wait(&con);
    assert_eq!(
        all(&con, "SELECT seq FROM densite_rejects"),
        ["3", "5"],
        "as if each were committed alone"
    );
    assert_eq!(
        all(&con, "SELECT id, v FROM t"),
        ["1|5", "2|0", "11|0", "12|0"]
    );
}

/// Copies the rows of `t` to another table of that name, except what violates its key. SQLite
/// counts violations, and earlier ones could offset others.
const ANEW: &str = "INSERT INTO n SELECT * FROM t; UPDATE n SET up = NULL WHERE up NOT IN (SELECT id FROM n); DROP TABLE t; ALTER TABLE n RENAME TO t";

/// Changes by transaction, each with its table.
type Transactions = Vec<Vec<String>>;

/// Random transactions of changes of `t`, whose rows refer to each other, and of other tables.
fn transactions(r: &mut StdRng, count: usize, tables: &[&str]) -> Transactions {
    let change = |r: &mut StdRng| {
        let table = tables[r.random_range(0..tables.len())];
        let id = r.random_range(0..60);
        match r.random_range(0..6) {
            0 => format!("DELETE FROM {table} WHERE id = {id}"),
            1 => format!(
                "REPLACE INTO {table} VALUES ({id}, NULL, {})",
                r.random_range(0..9)
            ),
            _ => format!(
                "REPLACE INTO {table} VALUES ({id}, {}, {})",
                r.random_range(0..62),
                r.random_range(0..9)
            ),
        }
    };
    (0..count)
        .map(|_| {
            let rows = r.random_range(1..12);
            (0..rows).map(|_| change(r)).collect()
        })
        .collect()
}

/// Writes them to the log. Returns the logged changes of each transaction.
fn log(con: &Connection, transactions: Transactions) -> Transactions {
    let mut logged = Vec::new();
    for changes in transactions {
        con.execute_batch("BEGIN").expect("begins");
        let mut some = Vec::new();
        for sql in changes {
            let through = sql.replace("REPLACE INTO ", "INSERT INTO ");
            let through = through.replace(" VALUES", "_in VALUES");
            let through = through.replace(" WHERE", "_in WHERE");
            con.execute_batch(&through)
                .unwrap_or_else(|e| panic!("{through}: {e}"));
            // A change of a row that does not exist is not logged.
            if con.changes() == 1 {
                some.push(sql);
            }
        }
        con.execute_batch("COMMIT").expect("commits");
        logged.push(some);
    }
    logged
}

/// The result of plain SQLite for the unapplied transactions, one after the other, with the
/// remaining part of one alone; and the rows that it refuses.
fn one_by_one(from: &Connection, transactions: &Transactions) -> (Vec<String>, Vec<String>) {
    let model = Connection::open_in_memory().expect("opens");
    for sql in all(
        from,
        "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'densite_%' ORDER BY rowid",
    ) {
        model.execute_batch(&sql).expect("a table");
    }
    model
        .execute_batch("PRAGMA foreign_keys = OFF")
        .expect("set");
    for table in tables(&model) {
        for row in all(
            from,
            &format!("SELECT id, quote(up), quote(v) FROM {table}"),
        ) {
            let row = row.replace('|', ", ");
            model
                .execute_batch(&format!("INSERT INTO {table} VALUES ({row})"))
                .expect("a row");
        }
    }
    model
        .execute_batch("PRAGMA foreign_keys = ON")
        .expect("set");
    let (seq, last, done, places) = place(from);
    let mut rejects = all(from, "SELECT seq FROM densite_rejects");
    let mut number = 0;
    for changes in transactions {
        model.execute_batch("BEGIN").expect("begins");
        let (mut all_of_it, mut refused) = (Vec::new(), Vec::new());
        for sql in changes {
            number += 1;
            let at = usize::try_from(number - seq - 1).ok();
            let is_applied = number <= last && at.is_some_and(|at| i64::from(places[at]) < done);
            if number <= seq || is_applied {
                continue;
            }
            all_of_it.push(number.to_string());
            if model.execute_batch(sql).is_err() {
                refused.push(number.to_string());
            }
        }
        rejects.extend(match model.execute_batch("COMMIT") {
            Ok(()) => refused,
            Err(_) => {
                model.execute_batch("ROLLBACK").expect("rolls back");
                all_of_it
            }
        });
    }
    rejects.sort_unstable();
    (rows(&model), rejects)
}

fn tables(con: &Connection) -> Vec<String> {
    all(
        con,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'densite_%' ORDER BY 1",
    )
}

fn rows(con: &Connection) -> Vec<String> {
    let of = |table: &String| {
        let mut rows = all(con, &format!("SELECT '{table}', * FROM {table}"));
        rows.sort_unstable();
        rows
    };
    tables(con).iter().flat_map(of).collect()
}

fn rejects(con: &Connection) -> Vec<String> {
    let mut found = all(con, "SELECT seq FROM densite_rejects");
    found.sort_unstable();
    found
}

/// Tables without foreign keys are sorted, and still belong to their transactions.
#[test]
fn random_transactions_are_checked_one_by_one() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..12 {
        let db = Db::new(&format!(
            "{SELF}; CREATE TABLE w(id INTEGER PRIMARY KEY, up, v)"
        ));
        let con = db.ingest("t", ", on_conflict=replace");
        create(&con, "w", ", on_conflict=replace").expect("w_in");
        let plain = Connection::open(db.path()).expect("opens");
        let held = Held::new(&db);
        let logged = log(&con, transactions(&mut random, 60, &["t", "t", "w"]));
        let (expected, refused) = one_by_one(&plain, &logged);
        drop(held);
        wait(&con);
        assert_eq!(rows(&plain), expected, "seed {seed}, round {round}");
        assert_eq!(rejects(&plain), refused, "seed {seed}, round {round}");
    }
}

/// A database with waiting rows, and the logged changes. The last connection holds the lock in the
/// middle of a clustered apply of at most this many rows. `None` if that ended too soon.
fn in_the_middle(
    random: &mut StdRng,
    most: usize,
) -> Option<(Db, Connection, Connection, Transactions)> {
    let db = Db::new(&format!(
        "{FREE}; CREATE TABLE w(id INTEGER PRIMARY KEY, up, v)"
    ));
    let limits = ClusteredLimits {
        most,
        ..storage::ONE
    };
    let con = ingest(&db, limits, 0);
    let plain = Connection::open(db.path()).expect("opens");
    plain
        .execute_batch("PRAGMA foreign_keys = OFF")
        .expect("set");
    let held = Held::new(&db);
    let mut logged = log(&con, transactions(random, 30, &["t"]));
    logged.extend(log(&con, transactions(random, 10, &["t", "w"])));
    drop(held);
    if !is_caught(&plain, &logged) {
        return None;
    }
    Some((db, con, plain, logged))
}

fn ingest(db: &Db, limits: ClusteredLimits, process: u64) -> Connection {
    let con = storage::with_limits(&db.path(), limits, process);
    create(&con, "t", ", on_conflict=replace").expect("t_in");
    create(&con, "w", ", on_conflict=replace").expect("w_in");
    con
}

/// Whether the lock was taken in the middle of a clustered apply.
fn is_caught(plain: &Connection, logged: &Transactions) -> bool {
    let is_caught = caught(plain, logged.iter().map(Vec::len).sum()).is_some();
    if !is_caught {
        plain.execute_batch("ROLLBACK").ok();
    }
    is_caught
}

/// As [`is_caught`], for a clustered apply that now is in the order of the log.
fn is_caught_in_log_order(plain: &Connection, logged: &Transactions) -> bool {
    while is_caught(plain, logged) {
        if all(plain, "SELECT basis FROM densite_clustered") == [""] {
            return true;
        }
        plain.execute_batch("ROLLBACK").expect("rolls back");
        std::thread::yield_now();
    }
    false
}

/// Lets the worker continue. Its result must be that of one transaction after the other.
fn ends_as_one_by_one(con: &Connection, plain: &Connection, logged: &Transactions, what: &str) {
    let (expected, refused) = one_by_one(plain, logged);
    plain.execute_batch("COMMIT").expect("commits");
    wait(con);
    assert_eq!(rows(plain), expected, "{what}");
    assert_eq!(rejects(plain), refused, "{what}");
}

/// The remaining rows of each transaction are judged as one, in the log's order. This includes the
/// transaction at the end of the clustered apply, which continues behind it.
#[test]
fn a_foreign_key_added_during_a_clustered_apply_is_checked_by_transaction() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut seen = 0;
    for round in 0..20 {
        let most = random.random_range(60..200);
        let Some((_db, con, plain, logged)) = in_the_middle(&mut random, most) else {
            continue;
        };
        seen += 1;
        let sql = match round % 4 {
            // An earlier change has already led to the order of the log.
            0 => "CREATE TABLE seen(id INTEGER PRIMARY KEY, up, v); CREATE TRIGGER look AFTER INSERT ON seen BEGIN DELETE FROM t; END".to_owned(),
            1 => format!("{}; INSERT INTO c SELECT id, id, 0 FROM t", SELF.replace("TABLE t", "TABLE c")),
            2 => "CREATE TABLE \"c\"(id INTEGER PRIMARY KEY, up REFERENCES \"T\" dEfErRaBlE /* DEFERRED */ initially\n--\ndeferred, v); INSERT INTO c SELECT id, id, 0 FROM t".to_owned(),
            _ => format!("{}; {ANEW}", SELF.replace("TABLE t", "TABLE n")),
        };
        plain.execute_batch(&sql).expect("changes");
        if round % 4 == 0 {
            plain.execute_batch("COMMIT").expect("commits");
            if !is_caught_in_log_order(&plain, &logged) {
                continue;
            }
            plain
                .execute_batch(&format!(
                    "DROP TRIGGER look; {}; {ANEW}",
                    SELF.replace("TABLE t", "TABLE n")
                ))
                .expect("changes");
        }
        ends_as_one_by_one(
            &con,
            &plain,
            &logged,
            &format!("seed {seed}, round {round}"),
        );
    }
    assert!(seen > 5, "seed {seed}: it was over too soon");
}

/// A clustered apply ends where a transaction continues with rows of another table. If that table
/// gets the key, the rows of the clustered apply can still be sorted, and are rejected with their
/// transactions all the same.
#[test]
fn a_key_of_another_table_keeps_transactions_together() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut seen = 0;
    for round in 0..16 {
        let Some((_db, con, plain, logged)) = in_the_middle(&mut random, 400) else {
            continue;
        };
        if round % 2 == 0 {
            // It is already in the order of the log, for another reason.
            let look = "CREATE TABLE seen(id INTEGER PRIMARY KEY, up, v); CREATE TRIGGER look AFTER INSERT ON seen BEGIN DELETE FROM t; END; COMMIT";
            plain.execute_batch(look).expect("changes");
            if !is_caught_in_log_order(&plain, &logged) {
                continue;
            }
        }
        seen += 1;
        plain
            .execute_batch(&format!(
                "DROP TABLE w; {}",
                SELF.replace("TABLE t", "TABLE w")
                    .replace("REFERENCES t", "REFERENCES w")
            ))
            .expect("the key comes");
        ends_as_one_by_one(
            &con,
            &plain,
            &logged,
            &format!("seed {seed}, round {round}"),
        );
    }
    assert!(seen > 3, "seed {seed}: it was over too soon");
}

/// Another process continues it in the same way. When the key is dropped, its order is still valid,
/// although transactions are no longer judged.
#[test]
fn a_clustered_apply_of_whole_transactions_is_taken_over() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut seen = 0;
    for round in 0..16 {
        let most = random.random_range(60..200);
        let Some((db, con, plain, logged)) = in_the_middle(&mut random, most) else {
            continue;
        };
        plain
            .execute_batch(&format!(
                "{}; {ANEW}; COMMIT",
                SELF.replace("TABLE t", "TABLE n")
            ))
            .expect("the key comes");
        if !is_caught(&plain, &logged) {
            continue;
        }
        seen += 1;
        if round % 2 == 0 {
            plain
                .execute_batch(&format!(
                    "{}; {ANEW}",
                    FREE.replace("TABLE t", "TABLE n").replace("ON t", "ON n")
                ))
                .expect("the key goes");
        }
        // The lock is held, so its worker ends without another row.
        drop(con);
        let con = ingest(&db, storage::ONE, 1);
        ends_as_one_by_one(
            &con,
            &plain,
            &logged,
            &format!("seed {seed}, round {round}"),
        );
    }
    assert!(seen > 3, "seed {seed}: it was over too soon");
}

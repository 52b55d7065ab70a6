//! Virtual tables under real SQLite.

use crate::common;

use densite_disk::sync::{Mutex, MutexGuard};
use densite_sqlite::{
    Arguments, Change, Code, Conflict, Connection, Error, Existence, Operator, Origin, Plan,
    Result, TableCursor, Value, ValueRef, VirtualTable, create_module, ffi,
};
use std::collections::BTreeMap;
use std::sync::Arc;

type Rows = BTreeMap<i64, Value>;

/// The contents of a module's tables, and the calls that they got.
#[derive(Default)]
struct Inner {
    rows: Rows,
    savepoints: Vec<(i32, Rows)>,
    before: Option<Rows>,
    calls: Vec<String>,
    origin: Option<Origin>,
    sync_fails: bool,
}

type Shared = Arc<Mutex<Inner>>;

/// Keys and values with transactions.
struct Store(Shared);

struct Scan {
    rows: Vec<(i64, Value)>,
    at: usize,
    shared: Shared,
}

impl Store {
    fn note(&self, call: impl Into<String>) -> MutexGuard<'_, Inner> {
        let mut inner = self.0.lock();
        inner.calls.push(call.into());
        inner
    }
}

impl VirtualTable for Store {
    type Shared = Shared;
    type Cursor = Scan;
    const EXISTENCE: Existence = Existence::Created;
    const WRITABLE: bool = true;
    const DIRECT_ONLY: bool = true;

    fn connect(shared: &Shared, _: &Connection, origin: &Origin) -> Result<(Store, String)> {
        if origin.arguments.iter().any(|a| a == "broken") {
            return Err(Error::new(Code::ERROR, "the argument is broken"));
        }
        shared.lock().origin = Some(origin.clone());
        let declaration = "CREATE TABLE x(k INTEGER, v TEXT COLLATE NOCASE)".to_owned();
        Ok((Store(Arc::clone(shared)), declaration))
    }

    fn best_index(&self, plan: &mut Plan<'_>) -> Result<bool> {
        for (place, c) in plan.constraints().iter().enumerate() {
            let key = matches!(c.column, None | Some(0));
            if c.column == Some(1) {
                let collation = plan.collation(place);
                drop(self.note(format!("collation {collation}")));
            }
            if key && c.operator == Operator::Equal && c.usable {
                plan.ask(place, true);
                plan.choose(1, "by key");
                plan.cost(1.0, 1);
                return Ok(true);
            }
        }
        if plan.order() == [(Some(0), false)] {
            plan.is_ordered();
        }
        plan.choose(0, "");
        plan.cost(1e6, 1_000_000);
        Ok(true)
    }

    fn open(&self) -> Result<Scan> {
        Ok(Scan {
            rows: Vec::new(),
            at: 0,
            shared: Arc::clone(&self.0),
        })
    }

    fn destroy(&self) -> Result<()> {
        self.note("destroy").rows.clear();
        Ok(())
    }

    fn update(&self, _: &Connection, change: &Change<'_>) -> Result<i64> {
        let mut inner = self.0.lock();
        match *change {
            Change::Insert {
                columns, conflict, ..
            } => {
                let key = columns[0].as_i64();
                let key = key.ok_or_else(|| Error::new(Code::MISMATCH, "k must be a number"))?;
                assert!(key != 13, "thirteen");
                if inner.rows.contains_key(&key) {
                    match conflict {
                        Conflict::Ignore => return Ok(key),
                        Conflict::Replace => {}
                        other => {
                            let message = format!("{key} is there already: {other:?}");
                            return Err(Error::new(Code::CONSTRAINT, message));
                        }
                    }
                }
                inner.rows.insert(key, columns[1].to_owned());
                Ok(key)
            }
            Change::Update {
                row_id, columns, ..
            } => {
                inner.rows.remove(&row_id.as_i64().expect("a number"));
                let key = columns[0].as_i64().expect("a number");
                inner.rows.insert(key, columns[1].to_owned());
                Ok(0)
            }
            Change::Delete { row_id } => {
                inner.rows.remove(&row_id.as_i64().expect("a number"));
                Ok(0)
            }
        }
    }

    fn begin(&self, _: &Connection) -> Result<()> {
        let mut inner = self.note("begin");
        inner.before = Some(inner.rows.clone());
        Ok(())
    }

    fn sync(&self, _: &Connection) -> Result<()> {
        if self.note("sync").sync_fails {
            return Err(Error::new(Code::FULL, "no room for the log"));
        }
        Ok(())
    }

    fn commit(&self) {
        self.note("commit").savepoints.clear();
    }

    fn rollback(&self) {
        let mut inner = self.note("rollback");
        inner.rows = inner.before.take().expect("begun");
        inner.savepoints.clear();
    }

    fn savepoint(&self, n: i32) -> Result<()> {
        let mut inner = self.note(format!("savepoint {n}"));
        let rows = inner.rows.clone();
        inner.savepoints.push((n, rows));
        Ok(())
    }

    fn release(&self, n: i32) -> Result<()> {
        self.note(format!("release {n}"))
            .savepoints
            .retain(|(m, _)| *m < n);
        Ok(())
    }

    fn rollback_to(&self, n: i32) -> Result<()> {
        let mut inner = self.note(format!("rollback to {n}"));
        inner.savepoints.retain(|(m, _)| *m <= n);
        if let Some((_, rows)) = inner.savepoints.last().filter(|(m, _)| *m == n).cloned() {
            inner.rows = rows;
        }
        Ok(())
    }
}

impl TableCursor for Scan {
    fn filter(
        &mut self,
        _: &Connection,
        number: i32,
        text: &str,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        let values: Vec<ValueRef<'_>> = arguments.iter().collect();
        assert_eq!(arguments.with(<[ValueRef<'_>]>::to_vec), values);
        let inner = self.shared.lock();
        self.at = 0;
        self.rows = match (number, text, values.as_slice()) {
            (1, "by key", [key]) => {
                let key = key.as_i64().unwrap_or(i64::MIN);
                inner
                    .rows
                    .get(&key)
                    .map(|v| (key, v.clone()))
                    .into_iter()
                    .collect()
            }
            (0, "", []) => inner.rows.iter().map(|(k, v)| (*k, v.clone())).collect(),
            other => panic!("not the chosen plan: {other:?}"),
        };
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.rows.len()
    }

    fn column(&mut self, column: usize) -> Result<ValueRef<'_>> {
        let (key, value) = &self.rows[self.at];
        match column {
            0 => Ok(ValueRef::Integer(*key)),
            _ if *value == Value::Text("unreadable".into()) => {
                Err(Error::new(Code::CORRUPT.explained(), "the row is damaged"))
            }
            _ => Ok(value.as_ref()),
        }
    }

    fn row_id(&mut self) -> Result<i64> {
        Ok(self.rows[self.at].0)
    }
}

fn database() -> (Connection, Shared) {
    let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_MEMORY;
    let db = Connection::open(common::api(), ":memory:", flags, None).expect("opens");
    let shared = Shared::default();
    create_module::<Store>(&db, "store", Arc::clone(&shared)).expect("registers");
    db.exec("CREATE VIRTUAL TABLE temp.t USING store(one, two words , \"three\")")
        .expect("creates");
    (db, shared)
}

fn calls(shared: &Shared) -> Vec<String> {
    std::mem::take(&mut shared.lock().calls)
}

fn all(db: &Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut select = db.prepare(sql).expect("compiles");
    let mut rows = Vec::new();
    while select.step().expect("runs") {
        let columns = 0..select.column_count();
        rows.push(columns.map(|i| select.column(i).to_owned()).collect());
    }
    rows
}

#[test]
fn rows_come_and_go() {
    let (db, shared) = database();
    let origin = shared.lock().origin.clone();
    let origin = origin.expect("created");
    assert_eq!(
        (&*origin.module, &*origin.schema, &*origin.table),
        ("store", "temp", "t")
    );
    assert_eq!(origin.arguments, ["one", "two words", "\"three\""]);
    assert!(origin.is_new);
    db.exec("INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, 2.5), (-4, x'0001')")
        .expect("inserts");
    db.exec("UPDATE t SET v = 'two' WHERE k = 2; DELETE FROM t WHERE v = 2.5")
        .expect("changes");
    let rows = all(&db, "SELECT rowid, k, v FROM t ORDER BY k");
    let row = |k: i64, v: Value| vec![k.into(), k.into(), v];
    assert_eq!(
        rows,
        [
            row(-4, vec![0u8, 1].into()),
            row(1, "one".into()),
            row(2, "two".into())
        ]
    );
    // A key is looked up, also a key from another table.
    db.exec("CREATE TABLE keys(k); INSERT INTO keys VALUES (2), (7), (1)")
        .expect("creates");
    let joined = all(
        &db,
        "SELECT v FROM keys JOIN t USING (k) ORDER BY keys.rowid",
    );
    assert_eq!(joined, [[Value::from("two")], [Value::from("one")]]);
    let plan = all(&db, "EXPLAIN QUERY PLAN SELECT v FROM t WHERE k IN (1, 2)");
    assert!(
        format!("{plan:?}").contains("VIRTUAL TABLE INDEX 1:by key"),
        "{plan:?}"
    );
    // The table can be written to while it is read.
    db.exec("INSERT INTO t SELECT k + 100, v FROM t")
        .expect("inserts");
    assert_eq!(all(&db, "SELECT count(*) FROM t"), [[Value::from(6)]]);
    calls(&shared);
    all(
        &db,
        "SELECT 1 FROM t WHERE v = 'a' AND v = 'b' COLLATE BINARY",
    );
    let mut told = calls(&shared);
    told.sort();
    told.dedup();
    assert_eq!(told, ["collation BINARY", "collation NOCASE"]);
    db.exec("DROP TABLE t").expect("drops");
    assert_eq!(calls(&shared).last().map(String::as_str), Some("destroy"));
}

#[test]
fn errors_and_panics_are_the_statements() {
    let (db, _shared) = database();
    let error = |sql: &str| {
        let e = db.exec(sql).expect_err(sql);
        (e.code, e.message)
    };
    let made = error("CREATE VIRTUAL TABLE temp.u USING store(broken)");
    assert_eq!(made, (Code::ERROR, "the argument is broken".into()));
    assert_eq!(
        error("INSERT INTO t VALUES ('a', 1)"),
        (Code::MISMATCH, "k must be a number".into())
    );
    let (code, message) = error("INSERT INTO t VALUES (13, 1)");
    assert_eq!(
        (code, &*message),
        (Code::INTERNAL, densite_sqlite::INTERNAL_ERROR)
    );
    db.exec("INSERT INTO t VALUES (1, 'unreadable')")
        .expect("inserts");
    assert_eq!(
        error("SELECT max(v) FROM t"),
        (Code::CORRUPT.explained(), "the row is damaged".into())
    );
    let direct = error("CREATE VIEW v AS SELECT * FROM temp.t; SELECT * FROM v");
    assert!(
        direct.1.contains("unsafe use of virtual table") || direct.1.contains("temp"),
        "{direct:?}"
    );
}

#[test]
fn the_conflict_clause_reaches_the_table() {
    let (db, _shared) = database();
    db.exec("INSERT INTO t VALUES (1, 'a')").expect("inserts");
    for (clause, told) in [
        ("", "Abort"),
        ("OR FAIL", "Fail"),
        ("OR ABORT", "Abort"),
        ("OR ROLLBACK", "Rollback"),
    ] {
        let sql = format!("INSERT {clause} INTO t VALUES (2, 'b'), (1, 'c')");
        let e = db.exec(&sql).expect_err("it is there");
        assert_eq!(
            (e.code.primary(), &*e.message),
            (Code::CONSTRAINT, &*format!("1 is there already: {told}"))
        );
        db.exec("DELETE FROM t WHERE k = 2").expect("deletes");
    }
    db.exec("INSERT OR IGNORE INTO t VALUES (1, 'd')")
        .expect("ignores");
    assert_eq!(all(&db, "SELECT v FROM t"), [[Value::from("a")]]);
    db.exec("INSERT OR REPLACE INTO t VALUES (1, 'e')")
        .expect("replaces");
    assert_eq!(all(&db, "SELECT v FROM t"), [[Value::from("e")]]);
}

#[test]
fn transactions_and_savepoints_are_followed() {
    let (db, shared) = database();
    calls(&shared);
    db.exec("INSERT INTO t VALUES (1, 'a')").expect("inserts");
    assert_eq!(calls(&shared), ["begin", "sync", "commit"]);
    db.exec("BEGIN; INSERT INTO t VALUES (2, 'b'); ROLLBACK")
        .expect("rolls back");
    let told = calls(&shared);
    assert_eq!(
        (
            told.first().map(String::as_str),
            told.last().map(String::as_str)
        ),
        (Some("begin"), Some("rollback"))
    );
    assert!(!told.contains(&"sync".to_owned()), "{told:?}");
    db.exec(
        "BEGIN; INSERT INTO t VALUES (3, 'c'); SAVEPOINT s; INSERT INTO t VALUES (4, 'd'); ROLLBACK TO s;
         INSERT INTO t VALUES (5, 'e'); RELEASE s; COMMIT",
    )
    .expect("commits");
    assert_eq!(
        all(&db, "SELECT group_concat(k) FROM t"),
        [[Value::from("1,3,5")]]
    );
    let told = calls(&shared);
    assert!(
        told.iter().any(|c| c.starts_with("rollback to")),
        "{told:?}"
    );
    // A statement that fails in the middle is undone, and earlier statements stay.
    db.exec("BEGIN; INSERT INTO t VALUES (6, 'f')")
        .expect("inserts");
    db.exec("INSERT INTO t VALUES (7, 'g'), (1, 'h')")
        .expect_err("1 is there");
    db.exec("COMMIT").expect("commits");
    assert_eq!(
        all(&db, "SELECT group_concat(k) FROM t"),
        [[Value::from("1,3,5,6")]]
    );
    // If the log cannot be written, the COMMIT fails and the transaction is rolled back.
    shared.lock().sync_fails = true;
    db.exec("BEGIN; INSERT INTO t VALUES (8, 'i')")
        .expect("inserts");
    let e = db.exec("COMMIT").expect_err("the disk is full");
    assert_eq!((e.code, &*e.message), (Code::FULL, "no room for the log"));
    assert!(db.is_autocommit());
    assert_eq!(calls(&shared).last().map(String::as_str), Some("rollback"));
    assert_eq!(
        all(&db, "SELECT group_concat(k) FROM t"),
        [[Value::from("1,3,5,6")]]
    );
}

//! A database with ingest tables and its whole history, compared with the same history in plain
//! SQLite.

mod changes;
mod compare;
mod full_disk;
mod kinds;
mod looks;
mod questions;
mod random;
mod schema;
mod tight;

use crate::common::storage::{FEW, ONE, Own};
use crate::common::{Db, all, create, one};
use compare::*;
use densite_ingest::ClusteredLimits;
use kinds::*;
use rand::RngExt;
use rand::rngs::StdRng;
use rusqlite::{Connection, ErrorCode};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// An ingest table.
struct Table {
    name: &'static str,
    kind: Kind,
    policy: &'static str,
    exact: bool,
    /// Its current columns that can be set, those of the key first.
    columns: Vec<Column>,
}

/// A column of a table.
#[derive(Clone, PartialEq)]
struct Column {
    name: String,
    /// Its index in the kind's rows; `None` if it was added later.
    from: Option<usize>,
}

impl Column {
    /// The columns of a new table.
    fn of(kind: &Kind) -> Vec<Column> {
        let columns = kind.columns.iter().enumerate();
        let column = |(i, name): (usize, &String)| Column {
            name: name.clone(),
            from: Some(i),
        };
        columns.map(column).collect()
    }
}

impl Table {
    fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|c| c.name.as_str()).collect()
    }

    /// Values of a random row.
    fn row(&self, r: &mut StdRng) -> Vec<String> {
        let row = (self.kind.row)(r);
        let value = |c: &Column| c.from.map_or_else(|| n(r, 9), |i| row[i].clone());
        self.columns.iter().map(value).collect()
    }

    /// The condition that a row has this one's key.
    fn key(&self, row: &[String]) -> String {
        self.key_terms(row).join(" AND ")
    }

    /// The same, one term for each column.
    fn key_terms(&self, row: &[String]) -> Vec<String> {
        let key = self.columns.iter().zip(row).zip(&self.kind.compared);
        let key = key.map(|((c, v), how)| match how {
            Some(how) => format!("{} = {v} COLLATE {how}", c.name),
            None => format!("{} = {v}", c.name),
        });
        key.collect()
    }

    /// The same condition, written so that SQLite searches twice: both sides of the OR differ.
    fn key_twice(&self, row: &[String]) -> String {
        let other: Vec<String> = row.iter().map(|v| format!("(SELECT {v})")).collect();
        let others = self.key_terms(&other);
        format!(
            "({}) OR ({} AND {})",
            self.key(row),
            others.join(" AND "),
            others[0]
        )
    }

    /// The clause that makes a statement refuse conflicts. Empty if the declaration has no conflict
    /// clause that SQLite would use instead.
    fn or_abort(&self) -> &'static str {
        match self.kind.schema.contains("CONFLICT") {
            true => " OR ABORT",
            false => "",
        }
    }

    /// The column that the policy `update` sets.
    fn updated(&self) -> &str {
        let first = self.kind.columns.iter().position(|c| *c == "v");
        let found = self.columns.iter().find(|c| c.from == first);
        found.map_or("v", |c| c.name.as_str())
    }

    /// The conflict option of its ingest table.
    fn on_conflict(&self) -> String {
        self.policy.replace("(v)", &format!("({})", self.updated()))
    }
}

/// The model at one time: the expected tables, and the expected rejects.
struct Model {
    con: Connection,
    rejects: Vec<i64>,
}

/// See the module.
pub(crate) struct World {
    plain: Connection,
    tables: Vec<Table>,
    con: Vec<Connection>,
    storage: Own,
    /// The changes in the log, by number.
    changes: BTreeMap<i64, String>,
    /// Its transactions: the first number of each, by the last number.
    transactions: BTreeMap<i64, i64>,
    model: Model,
    backup: Option<(Connection, Model, Vec<Vec<Column>>)>,
    /// The bytes of waiting rows are limited.
    limited: bool,
    /// A writer beyond the limit gets an error and does not wait.
    refuses: bool,
    /// How far the reading subscriber has read.
    heard: i64,
    what: String,
    indexes: u32,
    /// Checks of the database, and those in the middle of a clustered apply.
    pub(crate) looks: u64,
    pub(crate) clustered: u64,
    /// COMMITs that found no room, and pruned segments.
    pub(crate) refused: u64,
    pub(crate) pruned: u64,
    /// Dropped last, because it removes files that the others have open.
    db: Db,
}

impl World {
    pub(crate) fn new(r: &mut StdRng, seed: u64) -> World {
        // Most tables are random.
        let is_known = r.random_range(0..3) == 0;
        let names: &[&'static str] = match r.random_range(0..3) {
            0 => &["t", "w"],
            _ => &["t"],
        };
        let tables: Vec<Table> = names
            .iter()
            .map(|name| {
                let kind = match is_known {
                    true => Kind::known(r),
                    false => random::kind(r),
                };
                let policies = ["abort", "ignore", "replace", "'update(v)'"];
                let policies = match kind.keys == 2 && kind.columns[1] == "v" {
                    true => &policies[..3],
                    false => &policies[..],
                };
                Table {
                    name,
                    policy: policies[r.random_range(0..policies.len())],
                    exact: kind.exact,
                    columns: Column::of(&kind),
                    kind,
                }
            })
            .collect();
        let encoding = ["UTF-8", "UTF-8", "UTF-16le", "UTF-16be"][r.random_range(0..4)];
        let schemas: Vec<String> = tables
            .iter()
            .map(|t| t.kind.schema.replace('$', t.name))
            .collect();
        let schema = format!("PRAGMA encoding = '{encoding}'; {}", schemas.join("; "));
        let db = Db::with_schema_first(&schema);
        let plain = Connection::open(db.path()).expect("opens");
        plain
            .execute_batch("PRAGMA foreign_keys = ON")
            .expect("set");
        plain
            .busy_timeout(Duration::from_secs(20))
            .expect("a timeout");
        if r.random_range(0..4) == 0 {
            plain
                .query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
                .expect("the mode");
        }
        let model = Model {
            con: copy(&plain),
            rejects: Vec::new(),
        };
        let kinds: Vec<String> = tables
            .iter()
            .map(|t| format!("{} {}", t.policy, t.kind.schema.replace('$', t.name)))
            .collect();
        let limits = match r.random_range(0..3) {
            0 => ONE,
            1 => FEW,
            _ => ClusteredLimits {
                least: 15,
                most: r.random_range(30..400),
                together: r.random_range(1..60),
                at_once: r.random_range(1..40),
                ..FEW
            },
        };
        let mut world = World {
            what: format!("seed {seed}, {encoding}, {}", kinds.join(" and ")),
            db,
            plain,
            tables,
            con: Vec::new(),
            storage: Own {
                // Small enough that some segments are pruned.
                segments: Some((8 << 10, 1 << 10)),
                wal: (256 << 10, 1 << 20),
                ..Own::with_limits(limits, 0)
            },
            changes: BTreeMap::new(),
            transactions: BTreeMap::new(),
            model,
            backup: None,
            indexes: 0,
            limited: false,
            refuses: r.random(),
            heard: 0,
            looks: 0,
            clustered: 0,
            refused: 0,
            pruned: 0,
        };
        world.connect(2);
        // One subscriber keeps what a backup needs, the other one reads.
        for name in ["all", "one"] {
            let sql = format!("SELECT densite_subscribe('{name}', 'start')");
            world.con[0]
                .query_row(&sql, [], |_| Ok(()))
                .expect("subscribes");
        }
        world
    }

    /// Replaces the connections by those of other processes.
    fn connect(&mut self, count: usize) {
        let old = std::mem::take(&mut self.con);
        for _ in 0..count {
            self.storage.process += 1;
            let con = tight::connect(&self.db.path(), self.storage.clone());
            let full = if self.refuses { "error" } else { "wait" };
            for table in &self.tables {
                let options = format!(", on_conflict={}, on_full={full}", table.on_conflict());
                create(&con, table.name, &options).unwrap_or_else(|e| panic!("{}: {e}", self.what));
            }
            self.con.push(con);
        }
        drop(old);
    }

    pub(crate) fn step(&mut self, r: &mut StdRng) {
        match r.random_range(0..48) {
            0..14 => self.write(r, 1, 12),
            14..20 => self.pile(r),
            20..26 => self.look(r, |_, _| {}),
            26..29 => self.look(r, World::change_plainly),
            29..31 => self.change_schema(r),
            31 => self.connect(2),
            32..34 => self.read(r),
            34 => self.back_up(),
            35 => self.restore(),
            36 => {
                self.plain
                    .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                    .ok();
            }
            37 => {
                // Other connections write only sometimes.
                self.plain.execute_batch("VACUUM").ok();
            }
            38..40 => self.be_full(r),
            40 => self.limit(r.random_range(0..3) * 300),
            41..43 => self.listen(r),
            43..45 => self.prune(r),
            _ => std::thread::sleep(Duration::from_millis(r.random_range(0..40))),
        }
    }

    /// Waits until a clustered apply is between two of its transactions, or all rows are applied.
    fn in_the_middle(&mut self) {
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            let (seq, _, done, _) = self.place();
            let last = self.changes.last_key_value().map_or(0, |(seq, _)| *seq);
            if done > 0 || seq >= last {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn lock(&mut self) {
        let until = Instant::now() + Duration::from_secs(20);
        // Polls at once: the worker releases the lock only for a moment.
        self.plain.busy_timeout(Duration::ZERO).expect("a timeout");
        while let Err(e) = self.plain.execute_batch("BEGIN IMMEDIATE") {
            assert!(Instant::now() < until, "{}: {e}", self.what);
        }
        self.plain
            .busy_timeout(Duration::from_secs(20))
            .expect("a timeout");
        let (_, _, done, _) = self.place();
        self.looks += 1;
        self.clustered += u64::from(done > 0);
    }

    fn back_up(&mut self) {
        self.lock();
        self.check("before a backup");
        self.plain.execute_batch("ROLLBACK").expect("rolls back");
        let mut to = Connection::open_in_memory().expect("opens");
        let backup = rusqlite_backup(&self.plain, &mut to);
        assert!(backup, "{}: a backup", self.what);
        // Rows may have been applied meanwhile. That does not change the expected result.
        self.backup = Some((
            to,
            Model {
                con: copy(&self.model.con),
                rejects: self.model.rejects.clone(),
            },
            self.columns(),
        ));
    }

    /// Restores an older state of the database in place.
    fn restore(&mut self) {
        let Some((from, model, columns)) = self.backup.take() else {
            return;
        };
        let until = Instant::now() + Duration::from_secs(20);
        while !rusqlite_backup(&from, &mut self.plain) {
            assert!(Instant::now() < until, "{}: it is not restored", self.what);
        }
        self.model = model;
        // The schema can differ, and with it the refused rows.
        let is_other = columns != self.columns();
        for (table, columns) in self.tables.iter_mut().zip(columns) {
            table.exact &= table.kind.exact;
            table.columns = columns;
        }
        if is_other {
            self.connect(2);
        }
        self.lock();
        self.check("restored");
        self.plain.execute_batch("ROLLBACK").expect("rolls back");
    }

    fn columns(&self) -> Vec<Vec<Column>> {
        self.tables.iter().map(|t| t.columns.clone()).collect()
    }

    /// Applies everything, then prunes everything, and checks that the database still works.
    pub(crate) fn end(&mut self, r: &mut StdRng) {
        self.all_is_applied("the end");
        // A previous connection may still read what must be pruned.
        self.connect(2);
        self.backup = None;
        self.empty_the_log();
        self.write(r, 4, 12);
        self.look(r, |_, _| {});
        self.listen(r);
        self.all_is_applied("behind the end");
    }

    fn all_is_applied(&mut self, when: &str) {
        let until = Instant::now() + Duration::from_secs(20);
        for con in &self.con {
            while let Err(e) = con.query_row("SELECT densite_wait(NULL, 60)", [], |_| Ok(())) {
                // The worker is about to retry after an error of the full disk.
                assert!(Instant::now() < until, "{}: {e}", self.what);
            }
        }
        self.lock();
        same(&dump(&self.plain), &dump(&self.model.con), || {
            format!("{}: {when}", self.what)
        });
        self.check(when);
        self.see(when);
        let (seq, last, done, _) = crate::common::waiting::place(&self.plain);
        assert_eq!((last, done), (0, 0), "{}: at {seq}", self.what);
        assert_eq!(
            one::<i64>(&self.plain, "SELECT count(*) FROM densite_clustered"),
            0
        );
        assert_eq!(
            all(&self.plain, "PRAGMA integrity_check"),
            ["ok"],
            "{}",
            self.what
        );
        self.plain.execute_batch("ROLLBACK").expect("rolls back");
    }
}

//! A database with ingest tables and all that happened to it, beside the same history in plain SQLite.

mod changes;
mod compare;
mod kinds;
mod looks;

use crate::common::{Db, all, create, one};
use crate::small::{self, FEW, ONE};
use compare::*;
use densite_ingest::Sweeps;
use kinds::*;
use rand::RngExt;
use rand::rngs::StdRng;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An ingest table.
struct Table {
    name: &'static str,
    kind: &'static Kind,
    policy: &'static str,
    exact: bool,
}

/// The model at a time: what is to become of the tables, and which rows are rejected.
struct Model {
    con: Connection,
    rejects: Vec<i64>,
}

/// See the module.
pub(crate) struct World {
    db: Db,
    plain: Connection,
    tables: Vec<Table>,
    con: Vec<Connection>,
    process: u64,
    sweeps: Sweeps,
    /// What the log has, by number.
    changes: BTreeMap<i64, String>,
    model: Model,
    backup: Option<(Connection, Model)>,
    what: String,
    indexes: u32,
    /// Looks at the database, and those in the middle of a sweep.
    pub(crate) looks: u64,
    pub(crate) swept: u64,
}

impl World {
    pub(crate) fn new(r: &mut StdRng, seed: u64) -> World {
        let names: &[&'static str] = match r.random_range(0..3) {
            0 => &["t", "w"],
            _ => &["t"],
        };
        let tables: Vec<Table> = names
            .iter()
            .map(|name| {
                let kind = &KINDS[r.random_range(0..KINDS.len())];
                let policies = ["abort", "ignore", "replace", "'update(v)'"];
                let policies = match kind.keys == 2 && kind.columns[1] == "v" {
                    true => &policies[..3],
                    false => &policies[..],
                };
                Table {
                    name,
                    kind,
                    policy: policies[r.random_range(0..policies.len())],
                    exact: kind.exact,
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
        let sweeps = match r.random_range(0..3) {
            0 => ONE,
            1 => FEW,
            _ => Sweeps {
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
            process: 0,
            sweeps,
            changes: BTreeMap::new(),
            model,
            backup: None,
            indexes: 0,
            looks: 0,
            swept: 0,
        };
        world.connect(2);
        world.con[0]
            .query_row("SELECT densite_subscribe('all', 'start')", [], |_| Ok(()))
            .expect("subscribes");
        world
    }

    /// Other processes in place of those there are.
    fn connect(&mut self, count: usize) {
        let old = std::mem::take(&mut self.con);
        for _ in 0..count {
            self.process += 1;
            let con = small::connect(&self.db.path(), self.sweeps, self.process);
            for table in &self.tables {
                create(&con, table.name, &format!(", on_conflict={}", table.policy))
                    .unwrap_or_else(|e| panic!("{}: {e}", self.what));
            }
            self.con.push(con);
        }
        drop(old);
    }

    pub(crate) fn step(&mut self, r: &mut StdRng) {
        match r.random_range(0..40) {
            0..14 => self.write(r, 1, 12),
            14..20 => self.pile(r),
            20..26 => self.look(r, |_, _| {}),
            26..29 => self.look(r, World::change_plainly),
            29..31 => self.look(r, World::change_schema),
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
                // Others write now and then only.
                self.plain.execute_batch("VACUUM").ok();
            }
            _ => std::thread::sleep(Duration::from_millis(r.random_range(0..40))),
        }
    }

    /// Waits until a sweep is between two of its transactions, or there is nothing left to apply.
    fn in_the_middle(&mut self) {
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            let (seq, _, done, _) = crate::waiting::place(&self.plain);
            let last = self.changes.last_key_value().map_or(0, |(seq, _)| *seq);
            if done > 0 || seq >= last {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn lock(&mut self) {
        let until = Instant::now() + Duration::from_secs(20);
        // Asks again at once: the worker gives the lock back for a moment only.
        self.plain.busy_timeout(Duration::ZERO).expect("a timeout");
        while let Err(e) = self.plain.execute_batch("BEGIN IMMEDIATE") {
            assert!(Instant::now() < until, "{}: {e}", self.what);
        }
        self.plain
            .busy_timeout(Duration::from_secs(20))
            .expect("a timeout");
        let (_, _, done, _) = crate::waiting::place(&self.plain);
        self.looks += 1;
        self.swept += u64::from(done > 0);
    }

    fn back_up(&mut self) {
        self.lock();
        self.check("before a backup");
        self.plain.execute_batch("ROLLBACK").expect("gives it back");
        let mut to = Connection::open_in_memory().expect("opens");
        let backup = rusqlite_backup(&self.plain, &mut to);
        assert!(backup, "{}: a backup", self.what);
        // Rows may have been applied meanwhile: that changes nothing of what is expected.
        self.backup = Some((
            to,
            Model {
                con: copy(&self.model.con),
                rejects: self.model.rejects.clone(),
            },
        ));
    }

    /// An older state of the database, in place.
    fn restore(&mut self) {
        let Some((from, model)) = self.backup.take() else {
            return;
        };
        let until = Instant::now() + Duration::from_secs(20);
        while !rusqlite_backup(&from, &mut self.plain) {
            assert!(Instant::now() < until, "{}: it is not restored", self.what);
        }
        self.model = model;
        // The schema may be another one, and what is refused with it.
        for table in &mut self.tables {
            table.exact &= table.kind.exact;
        }
        self.lock();
        self.check("restored");
        self.plain.execute_batch("ROLLBACK").expect("gives it back");
    }

    /// Everything is applied.
    pub(crate) fn end(&mut self) {
        for con in &self.con {
            if let Err(e) = con.query_row("SELECT densite_wait(NULL, 60)", [], |_| Ok(())) {
                panic!("{}: {e}", self.what);
            }
        }
        self.lock();
        same(&dump(&self.plain), &dump(&self.model.con), || {
            format!("{}: the end", self.what)
        });
        self.check("the end");
        self.see("the end");
        let (seq, last, done, _) = crate::waiting::place(&self.plain);
        assert_eq!((last, done), (0, 0), "{}: at {seq}", self.what);
        assert_eq!(
            one::<i64>(&self.plain, "SELECT count(*) FROM densite_sweep"),
            0
        );
        assert_eq!(
            all(&self.plain, "PRAGMA integrity_check"),
            ["ok"],
            "{}",
            self.what
        );
        self.plain.execute_batch("ROLLBACK").expect("gives it back");
    }
}

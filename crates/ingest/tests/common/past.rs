//! A database with ingest tables and all that happened to it, beside the same history in plain SQLite.

use crate::common::{Db, all, create, one};
use crate::small::{self, FEW, ONE};
use densite_ingest::Sweeps;
use rand::RngExt;
use rand::rngs::StdRng;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A table; `$` stands for its name.
struct Kind {
    schema: &'static str,
    columns: &'static [&'static str],
    keys: usize,
    row: fn(&mut StdRng) -> Vec<String>,
    /// Readers see what will be in the table, for it refuses nothing.
    exact: bool,
}

fn pick(r: &mut StdRng, of: &[&str]) -> String {
    of[r.random_range(0..of.len())].to_owned()
}

fn n(r: &mut StdRng, to: i64) -> String {
    r.random_range(0..to).to_string()
}

fn text(r: &mut StdRng) -> String {
    let letter = pick(r, &["a", "A", "b", "B ", "é", "É", "ÿ", "😀", "d  ", ""]);
    format!("'{letter}{}'", r.random_range(0..12))
}

fn any(r: &mut StdRng) -> String {
    let n = r.random_range(0..25);
    match r.random_range(0..8) {
        0 => format!("{n}.0"),
        1 => format!("{n}.5"),
        2 => format!("x'{n:02x}'"),
        3 => format!("'{n}'"),
        4 => pick(
            r,
            &[
                "9223372036854775807",
                "-9223372036854775808",
                "9223372036854775807.0",
                "9223372036854775295.0",
                "-9223372036854775808.0",
                "1e300",
                "-1e300",
                "9e999",
                "0.1",
                "576460752303423488",
                "576460752303423489",
                "'long text that no word has A'",
                "'long text that no word has B'",
                "x''",
                "''",
            ],
        ),
        _ => n.to_string(),
    }
}

const KINDS: [Kind; 12] = [
    Kind {
        schema: "CREATE TABLE $(u INTEGER NOT NULL, s INTEGER NOT NULL, v, PRIMARY KEY(u, s)); CREATE INDEX $_s ON $(s)",
        columns: &["u", "s", "v"],
        keys: 2,
        row: |r| vec![n(r, 40), n(r, 8), n(r, 99)],
        exact: true,
    },
    Kind {
        schema: "CREATE TABLE $(k TEXT COLLATE NOCASE PRIMARY KEY, v COLLATE NOCASE, x) WITHOUT ROWID; CREATE INDEX $_v ON $(v)",
        columns: &["k", "v", "x"],
        keys: 1,
        row: |r| vec![text(r), text(r), n(r, 99)],
        exact: true,
    },
    Kind {
        schema: "CREATE TABLE $(id INTEGER PRIMARY KEY, v, x, CHECK (v % 9 <> 4)); CREATE INDEX $_v ON $(v, x)",
        columns: &["id", "v", "x"],
        keys: 1,
        row: |r| vec![(r.random_range(-80..80)).to_string(), n(r, 99), any(r)],
        exact: false,
    },
    Kind {
        schema: "CREATE TABLE $(a, b, v, PRIMARY KEY(b DESC, a COLLATE RTRIM)) WITHOUT ROWID; CREATE INDEX $_v ON $(v DESC)",
        columns: &["b", "a", "v"],
        keys: 2,
        row: |r| vec![n(r, 12), text(r), n(r, 50)],
        exact: true,
    },
    Kind {
        schema: "CREATE TABLE $(k BLOB PRIMARY KEY NOT NULL, v, w); CREATE INDEX $_w ON $(w)",
        columns: &["k", "v", "w"],
        keys: 1,
        row: |r| vec![any(r), n(r, 50), any(r)],
        exact: true,
    },
    Kind {
        schema: "CREATE TABLE $(k PRIMARY KEY, v, u UNIQUE); CREATE INDEX $_v ON $(v)",
        columns: &["k", "v", "u"],
        keys: 1,
        row: |r| {
            vec![
                match r.random_bool(0.1) {
                    true => "NULL".to_owned(),
                    false => any(r),
                },
                n(r, 50),
                n(r, 300),
            ]
        },
        exact: false,
    },
    Kind {
        schema: "CREATE TABLE $(v, x, id INTEGER, g AS (v || 'x') STORED, PRIMARY KEY(id)); CREATE INDEX $_g ON $(g)",
        columns: &["id", "v", "x"],
        keys: 1,
        row: |r| {
            let id = match r.random_range(0..6) {
                0 => pick(
                    r,
                    &[
                        "9223372036854775806",
                        "-9223372036854775808",
                        "576460752303423488",
                        "-576460752303423489",
                    ],
                ),
                _ => r.random_range(-60..60).to_string(),
            };
            vec![id, n(r, 50), any(r)]
        },
        exact: true,
    },
    Kind {
        schema: "CREATE TABLE $(k REAL, v TEXT, x INTEGER, PRIMARY KEY(k, v)) WITHOUT ROWID; CREATE INDEX $_x ON $(x); CREATE INDEX $_xv ON $(v, x)",
        columns: &["k", "v", "x"],
        keys: 2,
        row: |r| {
            vec![
                format!("{}.{}", n(r, 20), pick(r, &["0", "25", "5"])),
                n(r, 3),
                n(r, 90),
            ]
        },
        exact: true,
    },
    Kind {
        schema: "CREATE TABLE $(k TEXT PRIMARY KEY, v INTEGER, x ANY) STRICT; CREATE INDEX $_v ON $(v)",
        columns: &["k", "v", "x"],
        keys: 1,
        row: |r| vec![text(r), n(r, 50), "NULL".to_owned()],
        exact: true,
    },
    Kind {
        schema: "CREATE TABLE $(k TEXT PRIMARY KEY COLLATE RTRIM, v, x); CREATE INDEX $_e ON $(v + 1); CREATE INDEX $_p ON $(x) WHERE v > 3",
        columns: &["k", "v", "x"],
        keys: 1,
        row: |r| vec![text(r), n(r, 50), any(r)],
        exact: true,
    },
    Kind {
        schema: "CREATE TABLE $(a INTEGER NOT NULL, b TEXT COLLATE NOCASE NOT NULL, c BLOB NOT NULL, v, PRIMARY KEY(a, b, c)); CREATE INDEX $_c ON $(c)",
        columns: &["a", "b", "c", "v"],
        keys: 3,
        row: |r| vec![n(r, 5), text(r), any(r), n(r, 50)],
        exact: true,
    },
    Kind {
        schema: "CREATE TABLE $(id INTEGER PRIMARY KEY AUTOINCREMENT, v, x UNIQUE ON CONFLICT REPLACE); CREATE TABLE $_child(id INTEGER PRIMARY KEY, p REFERENCES $(id) ON DELETE CASCADE); CREATE TRIGGER $_t AFTER INSERT ON $ WHEN new.id % 3 = 0 BEGIN INSERT OR IGNORE INTO $_child VALUES (new.id * 7 % 50, new.id); SELECT CASE WHEN new.v = 13 THEN RAISE(ABORT, 'no') WHEN new.v = 14 THEN RAISE(IGNORE) END; END",
        columns: &["id", "v", "x"],
        keys: 1,
        row: |r| vec![n(r, 90), n(r, 50), n(r, 120)],
        exact: false,
    },
];

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

const OWN: &str = "name NOT LIKE 'densite_%' AND name NOT LIKE 'sqlite_%'";

/// All rows of all tables.
fn dump(con: &Connection) -> Vec<String> {
    let tables = all(
        con,
        &format!("SELECT name FROM sqlite_schema WHERE type = 'table' AND {OWN} ORDER BY 1"),
    );
    let mut lines = Vec::new();
    for table in tables {
        let mut rows = all(con, &format!("SELECT * FROM {table}"));
        rows.sort_unstable();
        lines.extend(rows.into_iter().map(|r| format!("{table}: {r}")));
    }
    lines
}

/// A database in memory with the tables that another has, without what is Densite's.
fn copy(con: &Connection) -> Connection {
    let to = Connection::open_in_memory().expect("opens");
    let encoding: String = one(con, "PRAGMA encoding");
    to.execute_batch(&format!(
        "PRAGMA encoding = '{encoding}'; PRAGMA foreign_keys = OFF"
    ))
    .expect("set");
    let schema = |kind: &str| {
        all(
            con,
            &format!(
                "SELECT sql FROM sqlite_schema WHERE type = '{kind}' AND {OWN} AND tbl_name NOT LIKE 'densite_%' AND sql IS NOT NULL ORDER BY rowid"
            ),
        )
    };
    for sql in schema("table") {
        to.execute_batch(&sql).expect("a table");
    }
    let tables = all(
        con,
        &format!("SELECT name FROM sqlite_schema WHERE type = 'table' AND {OWN}"),
    );
    for table in tables {
        let columns = all(
            con,
            &format!("SELECT name FROM pragma_table_xinfo('{table}') WHERE hidden = 0"),
        );
        let has_rowid: bool = one(
            con,
            &format!(
                "SELECT wr = 0 FROM pragma_table_list WHERE name = '{table}' AND schema = 'main'"
            ),
        );
        let mut names = columns.join(", ");
        let is_alias = all(
            con,
            &format!(
                "SELECT 1 FROM pragma_table_info('{table}') WHERE pk = 1 AND type = 'INTEGER'"
            ),
        );
        if has_rowid && is_alias.is_empty() {
            names.push_str(", rowid");
        }
        let mut from = con
            .prepare(&format!("SELECT {names} FROM {table}"))
            .expect("reads");
        let width = from.column_count();
        let places = vec!["?"; width].join(", ");
        let mut into = to
            .prepare(&format!("INSERT INTO {table}({names}) VALUES ({places})"))
            .expect("an insert");
        let mut rows = from.query([]).expect("reads");
        while let Some(row) = rows.next().expect("a row") {
            let values: Vec<rusqlite::types::Value> =
                (0..width).map(|i| row.get(i).expect("a value")).collect();
            into.execute(rusqlite::params_from_iter(values))
                .expect("inserts");
        }
    }
    for kind in ["index", "trigger"] {
        for sql in schema(kind) {
            to.execute_batch(&sql).expect("an index or a trigger");
        }
    }
    to.execute_batch("PRAGMA foreign_keys = ON").expect("set");
    to
}

/// Tells what is different.
fn same(found: &[String], expected: &[String], what: impl Fn() -> String) {
    if found != expected {
        let only = |a: &[String], b: &[String]| -> Vec<String> {
            let mut left = b.to_vec();
            let mut is_extra = |line: &&String| match left.iter().position(|l| l == *line) {
                Some(at) => {
                    left.swap_remove(at);
                    false
                }
                None => true,
            };
            a.iter()
                .filter(|line| is_extra(line))
                .take(9)
                .cloned()
                .collect()
        };
        panic!(
            "{}: only found {:?}, only expected {:?}",
            what(),
            only(found, expected),
            only(expected, found)
        );
    }
}

/// One change; whether the table takes it.
fn apply(con: &Connection, sql: &str) -> bool {
    match con.execute(sql, []) {
        Err(_) => false,
        Ok(0) => !sql.starts_with("UPDATE"),
        Ok(_) => true,
    }
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

    /// The plain statement of a random change, and the same for the ingest table.
    fn change(table: &Table, r: &mut StdRng) -> (String, String) {
        let (kind, name) = (table.kind, table.name);
        let row = (kind.row)(r);
        let key: Vec<String> = kind.columns[..kind.keys]
            .iter()
            .zip(&row)
            .map(|(c, v)| format!("{c} = {v}"))
            .collect();
        let key = key.join(" AND ");
        let (columns, values) = (kind.columns.join(", "), row.join(", "));
        match r.random_range(0..14) {
            0 => (
                format!("DELETE FROM {name} WHERE {key}"),
                format!("DELETE FROM {name}_in WHERE {key}"),
            ),
            1 | 2 => {
                let column = kind.columns[r.random_range(kind.keys..kind.columns.len())];
                let place = kind.columns.iter().position(|c| *c == column).unwrap_or(0);
                (
                    format!("UPDATE {name} SET {key}"),
                    format!("UPDATE {name}_in SET {column} = {} WHERE {key}", row[place]),
                )
            }
            way => {
                let policy = match way {
                    3 => "ignore",
                    4 => "replace",
                    _ => table.policy,
                };
                let verb = match way {
                    3 => " OR IGNORE",
                    4 => " OR REPLACE",
                    _ => "",
                };
                let keys = kind.columns[..kind.keys].join(", ");
                let insert = format!("{name}({columns}) VALUES ({values})");
                let plain = match policy {
                    "replace" => format!("INSERT OR REPLACE INTO {insert}"),
                    "ignore" => format!("INSERT OR ABORT INTO {insert} ON CONFLICT DO NOTHING"),
                    "abort" => format!("INSERT OR ABORT INTO {insert}"),
                    _ => format!(
                        "INSERT OR ABORT INTO {insert} ON CONFLICT({keys}) DO UPDATE SET v = excluded.v"
                    ),
                };
                let through = format!("INSERT{verb} INTO {name}_in({columns}) VALUES ({values})");
                (plain, through)
            }
        }
    }

    /// The log has an update's whole row: as a statement.
    fn whole(con: &Connection, table: &Table, through: &str) -> String {
        let kind = table.kind;
        let (_, key) = through.split_once(" WHERE ").expect("a condition");
        let set: Vec<String> = kind.columns[kind.keys..]
            .iter()
            .map(|c| {
                let sql = format!("SELECT quote({c}) FROM {}_in WHERE {key}", table.name);
                format!("{c} = {}", one::<String>(con, &sql))
            })
            .collect();
        format!(
            "UPDATE OR ABORT {} SET {} WHERE {key}",
            table.name,
            set.join(", ")
        )
    }

    /// Writes some transactions through one of the connections.
    fn write(&mut self, r: &mut StdRng, transactions: usize, most: usize) {
        let at = r.random_range(0..self.con.len());
        for _ in 0..transactions {
            let con = &mut self.con[at];
            let is_undone = r.random_range(0..12) == 0;
            con.execute_batch("BEGIN").expect("begins");
            let mut logged = Vec::new();
            let table = &self.tables[r.random_range(0..self.tables.len())];
            for _ in 0..r.random_range(1..=most) {
                let is_inner = r.random_range(0..20) == 0;
                if is_inner {
                    con.execute_batch("SAVEPOINT s").expect("begins");
                }
                let (mut plain, through) = World::change(table, r);
                if let Err(e) = con.execute_batch(&through) {
                    panic!("{}: {through}: {e}", self.what);
                }
                // What changes nothing that is there is not logged.
                if con.changes() == 1 {
                    if plain.starts_with("UPDATE") {
                        plain = World::whole(con, table, &through);
                    }
                    logged.push(plain);
                    if is_inner && r.random_bool(0.5) {
                        con.execute_batch("ROLLBACK TO s").expect("takes it back");
                        logged.pop();
                    }
                }
                if is_inner {
                    con.execute_batch("RELEASE s").expect("ends");
                }
            }
            if is_undone && r.random_bool(0.5) {
                con.execute_batch("ROLLBACK").expect("takes it back");
                continue;
            }
            if is_undone {
                // After xSync: SQLite asks this hook later, where a table of temp was written.
                con.execute_batch(
                    "CREATE TABLE IF NOT EXISTS temp.x(x); INSERT INTO temp.x VALUES (1)",
                )
                .expect("writes");
                con.commit_hook(Some(|| true)).expect("a hook");
                con.execute_batch("COMMIT").expect_err("the hook says no");
                con.commit_hook(None::<fn() -> bool>).expect("no hook");
                continue;
            }
            if let Err(e) = con.execute_batch("COMMIT") {
                panic!("{}: COMMIT: {e}", self.what);
            }
            if logged.is_empty() {
                continue;
            }
            let last: i64 = one(con, "SELECT densite_last_seq()");
            let first = last - logged.len() as i64 + 1;
            for (seq, sql) in (first..).zip(logged) {
                let before = [
                    Some(&mut self.model),
                    self.backup.as_mut().map(|b| &mut b.1),
                ];
                for model in before.into_iter().flatten() {
                    if !apply(&model.con, &sql) {
                        model.rejects.push(seq);
                    }
                }
                self.changes.insert(seq, sql);
            }
        }
    }

    /// Rows that wait until there are many, and looks at what becomes of them.
    fn pile(&mut self, r: &mut StdRng) {
        self.lock();
        self.write(r, 10, 80);
        self.plain.execute_batch("ROLLBACK").expect("gives it back");
        for _ in 0..r.random_range(0..5) {
            if r.random_bool(0.5) {
                self.in_the_middle();
            }
            match r.random_range(0..9) {
                0 | 1 => self.look(r, World::change_plainly),
                2 => self.look(r, World::change_schema),
                3 => self.connect(2),
                4 => self.read(r),
                5 => self.restore(),
                6 => self.back_up(),
                _ => self.look(r, |_, _| {}),
            }
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

    /// What becomes of the tables when the rest of the log is applied to them; and the rejects.
    fn replay(&self) -> (Vec<String>, Vec<i64>) {
        let (seq, last, done, places) = crate::waiting::place(&self.plain);
        let mut rejects: Vec<i64> = all(&self.plain, "SELECT seq FROM densite_rejects")
            .iter()
            .map(|s| s.parse().expect("a number"))
            .collect();
        self.plain
            .execute_batch("SAVEPOINT replay")
            .expect("begins");
        for (number, sql) in self.changes.range(seq + 1..) {
            let at = usize::try_from(number - seq - 1).expect("a number behind it");
            if *number <= last && i64::from(places[at]) < done {
                continue;
            }
            if !apply(&self.plain, sql) {
                rejects.push(*number);
            }
        }
        let rows = dump(&self.plain);
        self.plain
            .execute_batch("ROLLBACK TO replay; RELEASE replay")
            .expect("takes it back");
        rejects.sort_unstable();
        (rows, rejects)
    }

    fn check(&mut self, when: &str) {
        let (rows, rejects) = self.replay();
        self.model.rejects.sort_unstable();
        let seqs = self.changes.len();
        same(&rows, &dump(&self.model.con), || {
            format!("{}: {when}, {seqs} rows", self.what)
        });
        assert_eq!(rejects, self.model.rejects, "{}: {when}", self.what);
    }

    /// What readers see, where the table refuses nothing.
    fn see(&self, when: &str) {
        for table in self.tables.iter().filter(|t| t.exact) {
            let columns = table.kind.columns.join(", ");
            let of = |con: &Connection, name: &str| {
                let mut rows = all(con, &format!("SELECT {columns} FROM {name}"));
                rows.sort_unstable();
                rows
            };
            let expected = of(&self.model.con, table.name);
            for (i, con) in self.con.iter().enumerate() {
                let seen = of(con, &format!("{}_in", table.name));
                same(&seen, &expected, || {
                    format!("{}: {when}, reader {i}", self.what)
                });
            }
        }
    }

    /// Under the lock; `then` may change something.
    fn look(&mut self, r: &mut StdRng, then: impl Fn(&mut World, &mut StdRng)) {
        self.lock();
        self.check("a look");
        self.see("a look");
        then(self, r);
        self.plain.execute_batch("COMMIT").expect("commits");
    }

    /// The tables were changed, and so becomes what is expected.
    fn learn(&mut self) {
        let (seq, last, done, places) = crate::waiting::place(&self.plain);
        let con = copy(&self.plain);
        let mut rejects: Vec<i64> = all(&self.plain, "SELECT seq FROM densite_rejects")
            .iter()
            .map(|s| s.parse().expect("a number"))
            .collect();
        for (number, sql) in self.changes.range(seq + 1..) {
            let at = usize::try_from(number - seq - 1).expect("a number behind it");
            let is_swept = *number <= last && i64::from(places[at]) < done;
            if !is_swept && !apply(&con, sql) {
                rejects.push(*number);
            }
        }
        self.model = Model { con, rejects };
        self.check("after a change from elsewhere");
    }

    /// Somebody changes a table itself.
    fn change_plainly(&mut self, r: &mut StdRng) {
        let table = &self.tables[r.random_range(0..self.tables.len())];
        for _ in 0..r.random_range(1..6) {
            let (plain, _) = World::change(table, r);
            if !plain.starts_with("UPDATE") {
                self.plain.execute_batch(&plain).ok();
            }
        }
        if r.random_range(0..6) == 0 {
            self.plain
                .execute_batch(&format!("DELETE FROM {}", table.name))
                .expect("deletes");
        }
        self.learn();
    }

    fn change_schema(&mut self, r: &mut StdRng) {
        self.indexes += 1;
        let i = self.indexes;
        let at = r.random_range(0..self.tables.len());
        let table = &mut self.tables[at];
        let name = table.name;
        let v = table.kind.columns[table.kind.columns.len() - 1];
        match r.random_range(0..7) {
            0 => self
                .plain
                .execute_batch(&format!("CREATE INDEX more_{i} ON {name}({v})"))
                .expect("an index"),
            1 => {
                let unique = format!("CREATE UNIQUE INDEX more_{i} ON {name}(v, {v})");
                if self.plain.execute_batch(&unique).is_ok() {
                    table.exact = false;
                }
            }
            2 => {
                let triggers = all(
                    &self.plain,
                    "SELECT name FROM sqlite_schema WHERE type = 'trigger'",
                );
                for trigger in triggers {
                    self.plain
                        .execute_batch(&format!("DROP TRIGGER {trigger}"))
                        .expect("goes");
                }
            }
            3 => {
                self.plain
                    .execute_batch(&format!(
                        "CREATE TABLE IF NOT EXISTS seen(n); CREATE TRIGGER more_{i} AFTER INSERT ON {name} BEGIN INSERT INTO seen SELECT count(*) FROM {name}; END"
                    ))
                    .expect("a trigger");
            }
            4 => {
                let indexes = all(
                    &self.plain,
                    "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL",
                );
                for index in indexes {
                    self.plain
                        .execute_batch(&format!("DROP INDEX {index}"))
                        .expect("goes");
                }
            }
            5 if self.tables[at].kind.exact => {
                // The same table, empty.
                let schema = self.tables[at].kind.schema.replace('$', name);
                self.plain
                    .execute_batch(&format!("DROP TABLE {name}; {schema}"))
                    .expect("anew");
            }
            _ => self
                .plain
                .execute_batch(&format!("CREATE TABLE other_{i}(x)"))
                .expect("a table"),
        }
        self.learn();
    }

    /// Reads without the lock, while rows are applied: keys, ranges, and everything.
    fn read(&mut self, r: &mut StdRng) {
        for _ in 0..8 {
            let table = &self.tables[r.random_range(0..self.tables.len())];
            if !table.exact {
                continue;
            }
            let con = &self.con[r.random_range(0..self.con.len())];
            let kind = table.kind;
            let row = (kind.row)(r);
            let columns = kind.columns.join(", ");
            let first = kind.columns[0];
            let condition = match r.random_range(0..5) {
                0 => "1".to_owned(),
                1 => format!("{first} >= {}", row[0]),
                2 => format!("{first} = {}", row[0]),
                3 => format!("{first} < {}", row[0]),
                _ => {
                    let key = kind.columns[..kind.keys].iter().zip(&row);
                    let key: Vec<String> = key.map(|(c, v)| format!("{c} = {v}")).collect();
                    key.join(" AND ")
                }
            };
            let of = |con: &Connection, name: &str| {
                let sql = format!("SELECT {columns} FROM {name} WHERE {condition}");
                let mut rows = all(con, &sql);
                rows.sort_unstable();
                rows
            };
            let expected = of(&self.model.con, table.name);
            let seen = of(con, &format!("{}_in", table.name));
            same(&seen, &expected, || format!("{}: {condition}", self.what));
        }
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

/// Copies one database over another, all at once; false if somebody is in the way.
fn rusqlite_backup(from: &Connection, to: &mut Connection) -> bool {
    use rusqlite::ffi;
    // SAFETY: open connections, which nobody else uses meanwhile.
    unsafe {
        let backup = ffi::sqlite3_backup_init(
            to.handle(),
            c"main".as_ptr(),
            from.handle(),
            c"main".as_ptr(),
        );
        if backup.is_null() {
            return false;
        }
        let done = ffi::sqlite3_backup_step(backup, -1);
        ffi::sqlite3_backup_finish(backup);
        done == ffi::SQLITE_DONE
    }
}

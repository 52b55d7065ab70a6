//! Changes of the tables: rows through ingest, and direct changes.

use super::*;

/// The open savepoints of a transaction, the outermost first: their names, and the number of
/// changes at their beginning.
#[derive(Default)]
struct Savepoints(Vec<(&'static str, usize)>);

impl Savepoints {
    /// Begins a savepoint, rolls back to one, or releases one.
    fn change(&mut self, con: &Connection, r: &mut StdRng, logged: &mut Vec<String>) {
        let name = ["s", "S", "o", "p"][r.random_range(0..4)];
        let known = self.0.iter();
        let known = known.rev().position(|(n, _)| n.eq_ignore_ascii_case(name));
        let known = known.map(|from_behind| self.0.len() - 1 - from_behind);
        let verb = match (r.random_range(0..4), known) {
            (1, Some(at)) => {
                self.0.truncate(at);
                "RELEASE"
            }
            (2 | 3, Some(at)) => {
                self.0.truncate(at + 1);
                logged.truncate(self.0[at].1);
                "ROLLBACK TO"
            }
            _ => {
                self.0.push((name, logged.len()));
                "SAVEPOINT"
            }
        };
        con.execute_batch(&format!("{verb} {name}")).expect(verb);
    }
}

impl World {
    /// A random change as a plain statement, and as one for the ingest table.
    pub(super) fn change(table: &Table, r: &mut StdRng) -> (String, String) {
        let name = table.name;
        let names = table.names();
        let row = table.row(r);
        let key = table.key(&row);
        let asked = match r.random_range(0..4) {
            0 => table.key_twice(&row),
            _ => key.clone(),
        };
        let (columns, values) = (names.join(", "), row.join(", "));
        match r.random_range(0..14) {
            0 => (
                format!("DELETE FROM {name} WHERE {key}"),
                format!("DELETE FROM {name}_in WHERE {asked}"),
            ),
            1 | 2 => {
                let place = r.random_range(table.kind.keys..names.len());
                let (column, value) = (names[place], &row[place]);
                (
                    format!("UPDATE {name} SET {key}"),
                    format!("UPDATE {name}_in SET {column} = {value} WHERE {asked}"),
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
                let keys = names[..table.kind.keys].join(", ");
                let or_abort = table.or_abort();
                let insert = format!("{name}({columns}) VALUES ({values})");
                let plain = match policy {
                    "replace" => format!("INSERT OR REPLACE INTO {insert}"),
                    "ignore" => format!("INSERT{or_abort} INTO {insert} ON CONFLICT DO NOTHING"),
                    "abort" => format!("INSERT{or_abort} INTO {insert}"),
                    _ => format!(
                        "INSERT{or_abort} INTO {insert} ON CONFLICT({keys}) DO UPDATE SET {0} = excluded.{0}",
                        table.updated()
                    ),
                };
                let through = format!("INSERT{verb} INTO {name}_in({columns}) VALUES ({values})");
                (plain, through)
            }
        }
    }

    /// The log stores the column that an update sets, with its value: returns it as a statement.
    pub(super) fn logged_update(con: &Connection, table: &Table, through: &str) -> String {
        let (set, key) = through.rsplit_once(" WHERE ").expect("a condition");
        let (_, set) = set.split_once(" SET ").expect("an assignment");
        let (column, _) = set.split_once(" = ").expect("an assignment");
        let value = format!("SELECT quote({column}) FROM {}_in WHERE {key}", table.name);
        let value: String = one(con, &value);
        let (or_abort, name) = (table.or_abort(), table.name);
        format!("UPDATE{or_abort} {name} SET {column} = {value} WHERE {key}")
    }

    /// Writes some transactions through one of the connections.
    pub(super) fn write(&mut self, r: &mut StdRng, transactions: usize, most: usize) {
        let at = r.random_range(0..self.con.len());
        'transactions: for _ in 0..transactions {
            let con = &mut self.con[at];
            let is_undone = r.random_range(0..12) == 0;
            con.execute_batch("BEGIN").expect("begins");
            let mut logged = Vec::new();
            let mut savepoints = Savepoints::default();
            let some = r.random_range(1..=self.tables.len());
            for _ in 0..r.random_range(1..=most) {
                while r.random_range(0..6) == 0 {
                    savepoints.change(con, r, &mut logged);
                }
                let table = &self.tables[r.random_range(0..some)];
                let (mut plain, through) = World::change(table, r);
                if let Err(e) = con.execute_batch(&through) {
                    // A transaction checks for room when it begins to write.
                    let is_busy = e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
                    assert!(self.limited && is_busy, "{}: {through}: {e}", self.what);
                    con.execute_batch("ROLLBACK").expect("rolls back");
                    self.refused += 1;
                    continue 'transactions;
                }
                // A change of a row that does not exist is not logged.
                if con.changes() == 1 {
                    if plain.starts_with("UPDATE") {
                        plain = World::logged_update(con, table, &through);
                    }
                    logged.push(plain);
                }
            }
            savepoints.change(con, r, &mut logged);
            // If a rollback after xSync cannot be stored, the rows behind it are hidden until it
            // can.
            let is_full = self.storage.faults.full.load(Ordering::SeqCst);
            if is_undone && (is_full || r.random_bool(0.5)) {
                con.execute_batch("ROLLBACK").expect("rolls back");
                continue;
            }
            if is_undone {
                // This runs after xSync: SQLite calls the commit hook later if a table of temp was
                // written.
                con.execute_batch(
                    "CREATE TABLE IF NOT EXISTS temp.x(x); INSERT INTO temp.x VALUES (1)",
                )
                .expect("writes");
                con.commit_hook(Some(|| true)).expect("a hook");
                con.execute_batch("COMMIT").expect_err("the hook says no");
                con.commit_hook(None::<fn() -> bool>).expect("no hook");
                if !con.is_autocommit() {
                    // The log had no room, which is checked before the hook.
                    con.execute_batch("ROLLBACK").expect("rolls back");
                }
                continue;
            }
            if let Err(e) = con.execute_batch("COMMIT") {
                // The disk or the log had no room, or waiting for it was not possible: the
                // transaction left nothing.
                let may_be = match e.sqlite_error_code() {
                    Some(ErrorCode::DiskFull) => self.limited || is_full,
                    Some(ErrorCode::DatabaseBusy) => self.limited,
                    _ => false,
                };
                assert!(may_be, "{}: COMMIT: {e}", self.what);
                if !con.is_autocommit() {
                    con.execute_batch("ROLLBACK").expect("rolls back");
                }
                self.refused += 1;
                continue;
            }
            if logged.is_empty() {
                continue;
            }
            let last: i64 = one(con, "SELECT densite_last_seq()");
            let first = last - logged.len() as i64 + 1;
            self.transactions.insert(last, first);
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

    /// Lets rows wait until there are many, and then checks how they are applied.
    pub(super) fn pile(&mut self, r: &mut StdRng) {
        self.lock();
        if !self.refuses {
            // No process applies rows now, so a wait for room would never end.
            self.limit(0);
        }
        self.write(r, 10, 80);
        self.plain.execute_batch("ROLLBACK").expect("rolls back");
        for _ in 0..r.random_range(0..5) {
            if r.random_bool(0.5) {
                self.in_the_middle();
            }
            match r.random_range(0..9) {
                0 | 1 => self.look(r, World::change_plainly),
                2 => self.change_schema(r),
                3 => self.connect(2),
                4 => self.read(r),
                5 => self.restore(),
                6 => self.back_up(),
                _ => self.look(r, |_, _| {}),
            }
        }
    }

    /// Changes a table directly.
    pub(super) fn change_plainly(&mut self, r: &mut StdRng) {
        let table = &self.tables[r.random_range(0..self.tables.len())];
        for _ in 0..r.random_range(1..6) {
            let (plain, _) = World::change(table, r);
            if !plain.starts_with("UPDATE") {
                self.plain.execute_batch(&plain).ok();
            }
        }
        if r.random_range(0..6) == 0 {
            let all = self
                .plain
                .execute(&format!("DELETE FROM {}", table.name), []);
            let code = all.err().and_then(|e| e.sqlite_error_code());
            let refused = Some(rusqlite::ErrorCode::ConstraintViolation);
            assert!(code.is_none() || code == refused, "{code:?}");
        }
        self.learn();
    }
}

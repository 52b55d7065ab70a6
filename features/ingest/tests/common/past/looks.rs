//! Checks of the tables, the waiting rows, the rejects and the reads.

use super::*;

impl World {
    /// The tables and rejects that result if the rest of the log is applied.
    pub(super) fn replay(&self) -> (Vec<String>, Vec<i64>) {
        let (seq, last, done, places) = self.place();
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

    /// The position of the database, at the end of a transaction of the log. A clustered apply also
    /// ends there.
    pub(super) fn place(&self) -> (i64, i64, i64, Vec<u32>) {
        let place = crate::common::waiting::place(&self.plain);
        for seq in [place.0, place.1] {
            let next = self.transactions.range(seq + 1..).next();
            assert!(
                next.is_none_or(|(_, first)| *first > seq),
                "{}: {seq} of {:?} is within the transaction {next:?} (last and first)",
                self.what,
                (place.0, place.1, place.2)
            );
        }
        place
    }

    pub(super) fn check(&mut self, when: &str) {
        let (rows, rejects) = self.replay();
        self.model.rejects.sort_unstable();
        let seqs = self.changes.len();
        same(&rows, &dump(&self.model.con), || {
            format!("{}: {when}, {seqs} rows", self.what)
        });
        assert_eq!(rejects, self.model.rejects, "{}: {when}", self.what);
    }

    /// Checks what readers see, if the table refuses nothing.
    pub(super) fn see(&self, when: &str) {
        for table in self.tables.iter().filter(|t| t.exact) {
            let columns = table.names().join(", ");
            let of = |con: &Connection, name: &str| {
                let mut rows = all(con, &format!("SELECT {columns} FROM {name}"));
                rows.sort_unstable();
                rows
            };
            let expected = of(&self.model.con, table.name);
            for (i, con) in self.con.iter().enumerate() {
                let seen = of(con, &format!("{}_in", table.name));
                same(&seen, &expected, || {
                    let end: i64 = one(con, "SELECT densite_log_last()");
                    let (seq, last, done, places) = crate::common::waiting::place(&self.plain);
                    let there = self.changes.last_key_value().map(|(seq, _)| *seq);
                    let schema = all(&self.plain, "SELECT sql FROM sqlite_schema");
                    let is_done = |number: i64| {
                        let at = usize::try_from(number - seq - 1).expect("a number behind it");
                        number <= last && i64::from(places[at]) < done
                    };
                    let (has, waits): (Vec<_>, Vec<_>) =
                        (self.changes.range(seq + 1..)).partition(|(number, _)| is_done(**number));
                    format!(
                        "{}: {when}, reader {i}, whose log ends at {end} of {there:?}; at {seq}, clustered to {last}, {done} done: {has:?}; {schema:?}; {waits:?}",
                        self.what
                    )
                });
            }
        }
    }

    /// Checks under the lock; `then` can change something.
    pub(super) fn look(&mut self, r: &mut StdRng, then: impl Fn(&mut World, &mut StdRng)) {
        self.lock();
        self.check("a look");
        self.see("a look");
        self.ask(r);
        then(self, r);
        self.plain.execute_batch("COMMIT").expect("commits");
    }

    /// The tables were changed, so the expected result changes.
    pub(super) fn learn(&mut self) {
        let (seq, last, done, places) = self.place();
        let con = copy(&self.plain);
        let mut rejects: Vec<i64> = all(&self.plain, "SELECT seq FROM densite_rejects")
            .iter()
            .map(|s| s.parse().expect("a number"))
            .collect();
        for (number, sql) in self.changes.range(seq + 1..) {
            let at = usize::try_from(number - seq - 1).expect("a number behind it");
            let is_applied = *number <= last && i64::from(places[at]) < done;
            if !is_applied && !apply(&con, sql) {
                rejects.push(*number);
            }
        }
        self.model = Model { con, rejects };
        self.check("after a change from elsewhere");
    }

    /// Reads without the lock while rows are applied: keys, ranges, and whole tables.
    pub(super) fn read(&mut self, r: &mut StdRng) {
        for _ in 0..8 {
            let table = &self.tables[r.random_range(0..self.tables.len())];
            if !table.exact {
                continue;
            }
            let con = &self.con[r.random_range(0..self.con.len())];
            let row = table.row(r);
            let names = table.names();
            let (columns, first) = (names.join(", "), names[0]);
            let condition = match r.random_range(0..5) {
                0 => "1".to_owned(),
                1 => format!("{first} >= {}", row[0]),
                2 => format!("{first} = {}", row[0]),
                3 => format!("{first} < {}", row[0]),
                _ => table.key(&row),
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
}

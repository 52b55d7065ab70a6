//! Queries of an ingest table, compared with those of a plain table: conditions, orders, joins,
//! groups.

use super::kinds::{any, n, pick, text};
use super::*;

/// A cell for comparison, because equal values need not be identical.
fn roughly(line: &str) -> String {
    let cell = |cell: &str| {
        let cell = cell.trim_end().to_ascii_lowercase();
        // An integer and an equal real, however each is written.
        cell.parse()
            .map_or(cell.clone(), |number: f64| format!("{number:?}"))
    };
    let cells: Vec<String> = line.split('|').map(cell).collect();
    cells.join("|")
}

fn value(r: &mut StdRng) -> String {
    match r.random_range(0..4) {
        0 => text(r),
        1 => n(r, 60),
        2 => format!("CAST({} AS TEXT)", n(r, 60)),
        _ => any(r),
    }
}

/// A condition on a row of `s`: one term, or several that SQLite may search for one after the
/// other.
fn condition(r: &mut StdRng, table: &Table, row: &[String]) -> String {
    let names = table.names();
    let key = names.iter().zip(row).take(table.kind.keys);
    let key: Vec<String> = key.map(|(c, v)| format!("s.{c} = {v}")).collect();
    let first = key[..r.random_range(1..=key.len())].join(" AND ");
    // Written differently, because SQLite would not search twice otherwise.
    let again = format!("s.{} = (SELECT {})", names[0], row[0]);
    let mut one = || term(r, &names, row);
    let (a, b, c) = (one(), one(), one());
    match r.random_range(0..9) {
        0 => format!("({a}) OR ({b}) OR {again}"),
        1 => format!("({a}) OR ({first}) OR ({c})"),
        2 => format!("({first}) OR ({again} AND ({b}))"),
        3 => format!("NOT ({a}) OR NOT ({b} AND {c})"),
        4 => format!("({first}) OR (({a}) AND NOT ({b}))"),
        _ => a,
    }
}

fn term(r: &mut StdRng, names: &[&str], row: &[String]) -> String {
    let at = match r.random_bool(0.6) {
        true => 0,
        false => r.random_range(0..names.len()),
    };
    let column = format!("s.{}", names[at]);
    let value = |r: &mut StdRng| match r.random_bool(0.5) {
        true => row[at].clone(),
        false => value(r),
    };
    let how = pick(
        r,
        &[
            "",
            "",
            "",
            " COLLATE NOCASE",
            " COLLATE BINARY",
            " COLLATE RTRIM",
        ],
    );
    match r.random_range(0..10) {
        0..4 => {
            let sign = pick(r, &["=", "=", "<", "<=", ">", ">=", "<>", "IS"]);
            format!("{column} {sign} {}{how}", value(r))
        }
        4 => format!("{column}{how} BETWEEN {} AND {}", value(r), value(r)),
        5 => format!(
            "{column}{how} IN ({}, {}, {})",
            value(r),
            value(r),
            value(r)
        ),
        6 => format!("{column} IS NULL OR {column} = {}", value(r)),
        7 => format!("{column} LIKE 'A%'"),
        8 if names.len() > 1 => format!(
            "(s.{}, s.{}) > ({}, {})",
            names[0], names[1], row[0], row[1]
        ),
        _ => {
            let other = r.random_range(0..names.len());
            format!(
                "{column} = {} AND s.{} >= {}",
                row[at], names[other], row[other]
            )
        }
    }
}

impl World {
    /// Runs queries under the lock, if the table refuses nothing.
    pub(super) fn ask(&self, r: &mut StdRng) {
        for table in self.tables.iter().filter(|t| t.exact) {
            for con in &self.con {
                for _ in 0..8 {
                    self.ask_one(r, table, con);
                }
            }
        }
    }

    fn ask_one(&self, r: &mut StdRng, table: &Table, con: &Connection) {
        let names = table.names();
        let row = table.row(r);
        let condition = condition(r, table, &row);
        let all_of = |of: &str| -> String {
            let columns = names
                .iter()
                .map(|c| format!("typeof({of}.{c}), quote({of}.{c})"));
            columns.collect::<Vec<String>>().join(", ")
        };
        let by = names[..table.kind.keys].iter();
        let by: Vec<String> = match r.random_bool(0.7) {
            true => by.map(|c| format!("s.{c}")).collect(),
            false => by
                .map(|c| format!("s.{c}{}", pick(r, &["", " DESC"])))
                .collect(),
        };
        let key: Vec<String> = names[..table.kind.keys]
            .iter()
            .map(|c| format!("s.{c}"))
            .collect();
        let (by, key) = (by.join(", "), key.join(", "));
        let other = names[r.random_range(0..names.len())];
        let first = names[0];
        // Whether the query has an order.
        let (sql, is_ordered) = match r.random_range(0..13) {
            0 | 1 => (
                format!("SELECT {} FROM $ s WHERE {condition}", all_of("s")),
                false,
            ),
            2 => (format!("SELECT {key} FROM $ s ORDER BY {by}"), true),
            3 => (
                format!("SELECT {key} FROM $ s WHERE {condition} ORDER BY {by}"),
                true,
            ),
            4 => (
                format!("SELECT {key} FROM $ s ORDER BY {by} LIMIT 5 OFFSET 2"),
                true,
            ),
            5 => (
                format!(
                    "SELECT {}, {} FROM $ s JOIN $ o ON o.{first} = s.{other} WHERE {}",
                    all_of("s"),
                    all_of("o"),
                    without_collation(&condition)
                ),
                false,
            ),
            6 => (
                format!(
                    "SELECT count(*), count({other}), count(DISTINCT s.{first}) FROM $ s WHERE {condition}"
                ),
                false,
            ),
            7 => (
                format!("SELECT count(*), count({other}) FROM $ s GROUP BY s.{first}"),
                false,
            ),
            8 => (
                format!("SELECT DISTINCT {} FROM $ s WHERE {condition}", all_of("s")),
                false,
            ),
            9 => (
                format!(
                    "SELECT {}, o.{first} IS NULL FROM (SELECT {other} AS {first} FROM $ UNION ALL SELECT 1) o RIGHT JOIN $ s ON s.{first} = o.{first}",
                    all_of("s")
                ),
                false,
            ),
            10 => (
                format!(
                    "SELECT count(*), count(s.{first}), count(o.{first}) FROM $ s FULL JOIN $ o ON ({condition}) AND o.{first} = s.{other} WHERE o.{first} IS NULL OR {condition}"
                ),
                false,
            ),
            11 => (
                format!(
                    "SELECT {} FROM $ s WHERE ({key}) IN (SELECT {} FROM $ o WHERE o.{other} >= {}) OR {condition}",
                    all_of("s"),
                    key.replace("s.", "o."),
                    row[0]
                ),
                false,
            ),
            _ => (
                format!(
                    "SELECT {}, (SELECT count(*) FROM $ o WHERE o.{first} = s.{first}) FROM $ s WHERE EXISTS (SELECT 1 FROM $ o WHERE o.{other} = s.{first})",
                    all_of("s")
                ),
                false,
            ),
        };
        let answer = |con: &Connection, name: &str| {
            let mut rows = all(con, &sql.replace('$', name));
            match is_ordered {
                true => rows.iter_mut().for_each(|row| *row = roughly(row)),
                false => rows.sort_unstable(),
            }
            rows
        };
        let expected = answer(&self.model.con, table.name);
        let seen = answer(con, &format!("{}_in", table.name));
        if is_ordered {
            assert_eq!(seen, expected, "{}: {sql}", self.what);
        }
        same(&seen, &expected, || format!("{}: {sql}", self.what));
        self.delete(table, con, &condition);
    }

    /// A statement changes each row once, and its deleted rows are gone for its transaction.
    fn delete(&self, table: &Table, con: &Connection, condition: &str) {
        if self.limited {
            // The statement would wait for room, although it is rolled back.
            return;
        }
        let through = format!("{}_in AS s WHERE {condition}", table.name);
        con.execute_batch("BEGIN").expect("begins");
        let found = format!("SELECT count(*) FROM {} AS s WHERE {condition}", table.name);
        let sql = format!("DELETE FROM {through}");
        match con.execute(&sql, []) {
            Ok(count) => {
                let expected: usize = one::<i64>(&self.model.con, &found) as usize;
                assert_eq!(count, expected, "{}: {sql}", self.what);
                let left: i64 = one(con, &format!("SELECT count(*) FROM {through}"));
                assert_eq!(left, 0, "{}: {sql}", self.what);
            }
            // The log cannot name a row without a key.
            Err(e) => {
                let said = e.to_string();
                let may_be = said.contains("NULL in its primary key") || said.contains("no id yet");
                assert!(may_be, "{}: {sql}: {said}", self.what);
            }
        }
        con.execute_batch("ROLLBACK").expect("rolls back");
    }
}

/// The condition without collations, for joins. With `o.a = s.a`, SQLite 3.54 also applies
/// `s.a COLLATE BINARY BETWEEN x AND y` to `o.a`, although the join compares by the column's NOCASE.
/// Then rows of the plain table are missing.
fn without_collation(condition: &str) -> String {
    let names = [" COLLATE NOCASE", " COLLATE BINARY", " COLLATE RTRIM"];
    let all = names.iter();
    all.fold(condition.to_owned(), |condition, name| {
        condition.replace(name, "")
    })
}

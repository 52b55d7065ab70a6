//! Writes and reads rows.

use super::values::numbers;
use super::{Journal, World};
use crate::model::catalog::{Column, Table};
use crate::model::kind::Kind::{self, *};
use crate::model::step::{Action, Proof, Step};

impl World {
    pub(super) fn rows_step(&mut self, kind: Kind) -> Option<Step> {
        match kind {
            Insert => {
                let table = self.any_table("tgwc")?;
                let values: Vec<_> = table
                    .writable()
                    .into_iter()
                    .map(|c| self.value(c))
                    .collect();
                let or = self.conflict();
                Some(Step::writes(kind, insert(or, &table, &values)))
            }
            InsertMany => {
                let table = self.any_table("tgwc")?;
                let values: Vec<_> = table
                    .writable()
                    .into_iter()
                    .map(|c| self.value_of_i(c))
                    .collect();
                let count = self.dice.between(2, 120);
                let or = self.careful();
                let sql = format!(
                    "{} INSERT {or}INTO {}({}) SELECT {} FROM n",
                    numbers(count),
                    table.sql(),
                    list(&table),
                    values.join(", ")
                );
                Some(Step::writes(kind, sql))
            }
            InsertSelect => self.insert_select(),
            InsertOverflow => {
                let table = self.any_table("tgwc")?;
                let large = self.large_column(&table)?;
                let values: Vec<_> = table
                    .writable()
                    .into_iter()
                    .map(|c| {
                        if c.name == large.name {
                            self.large_value(&c.declared)
                        } else {
                            self.value(c)
                        }
                    })
                    .collect();
                let or = self.careful();
                Some(Step::writes(kind, insert(or, &table, &values)))
            }
            Upsert => {
                let table = self.main_table("tg")?;
                let column = self.dice.pick(&table.plain()).name.clone();
                let (columns, rows) = (list(&table), self.dice.between(1, 4));
                let order = if self.dice.percent(50) { "1" } else { "1 DESC" };
                let sql = format!(
                    "INSERT INTO {}({columns}) SELECT {columns} FROM {} WHERE true ORDER BY {order} LIMIT {rows}
                     ON CONFLICT DO UPDATE SET {column} = excluded.{column}",
                    table.sql(), table.sql()
                );
                Some(Step::writes(kind, sql))
            }
            Replace => {
                let table = self.any_table("tgw")?;
                let changed = self.dice.pick(&table.plain()).name.clone();
                let value = table.columns.iter().find(|c| c.name == changed).cloned();
                let value = value.map(|c| self.value(&c))?;
                let values: Vec<_> = table
                    .writable()
                    .iter()
                    .map(|c| {
                        if c.name == changed {
                            value.clone()
                        } else {
                            c.name.clone()
                        }
                    })
                    .collect();
                let sql = format!(
                    "INSERT OR REPLACE INTO {}({}) SELECT {} FROM {} ORDER BY 1 LIMIT {}",
                    table.sql(),
                    list(&table),
                    values.join(", "),
                    table.sql(),
                    self.dice.between(1, 3)
                );
                Some(Step::writes(kind, sql))
            }
            Update | UpdateMany | UpdateOverflow => self.update(kind),
            Delete => {
                let table = self.any_table("tgwc")?;
                let rows = self.some_rows(&table);
                Some(Step::writes(
                    kind,
                    format!("DELETE FROM {} WHERE {rows}", table.sql()),
                ))
            }
            DeleteAll => {
                let name = match self.any_table("tgwc") {
                    Some(table) if self.dice.percent(75) => table.sql(),
                    _ => (*self.dice.pick(&["keep_log", "keep_unique"])).to_owned(),
                };
                Some(Step::writes(kind, format!("DELETE FROM {name}")))
            }
            ConstraintFails => {
                let (count, seed) = (self.dice.between(1, 80), self.dice.below(1_000_000));
                let sql = format!(
                    "{} INSERT INTO keep_unique(k, v) SELECT 'k' || ({seed} + i), blob_of(i, 300) FROM n
                     UNION ALL SELECT 'twice', 1 UNION ALL SELECT 'twice', 2",
                    numbers(count)
                );
                Some(Step::new(kind, Action::Main(sql), Proof::Constraint))
            }
            Query => Some(self.query()),
            Join => {
                let (a, b) = (self.any_table("tgwc")?, self.any_table("tgwc")?);
                let left = self.dice.pick(&a.columns).name.clone();
                let right = self.dice.pick(&b.columns).name.clone();
                let sql = format!(
                    "SELECT count(*), max(length(l.{left})), sum(r.{right}) FROM {} AS l LEFT JOIN {} AS r ON l.{left} = r.{right}
                     WHERE l.{left} IS NOT NULL GROUP BY length(r.{right}) ORDER BY 1, 2, 3 LIMIT 30",
                    a.sql(), b.sql()
                );
                Some(Step::sql(kind, sql))
            }
            CursorWhileWriting => {
                let table = self.main_table("tgc")?;
                let query = format!("SELECT rowid FROM {} ORDER BY rowid LIMIT 12", table.sql());
                let statement = match self.dice.below(3) {
                    0 => "INSERT INTO keep_log VALUES ('cursor', ?)".to_owned(),
                    1 => format!(
                        "DELETE FROM {} WHERE rowid = ? AND rowid % 3 = 0",
                        table.sql()
                    ),
                    _ => "INSERT INTO keep_unique(k, v) VALUES (NULL, blob_of(?, 700))".to_owned(),
                };
                Some(Step::new(
                    kind,
                    Action::Cursor { query, statement },
                    Proof::Rows,
                ))
            }
            BlobRead => {
                let (nth, piece) = (
                    self.dice.below(4),
                    self.dice.between(1, 5000).max(self.page_size / 16),
                );
                Some(Step::new(kind, Action::BlobRead { nth, piece }, Proof::Ok))
            }
            BlobWrite => {
                let action = Action::BlobWrite {
                    nth: self.dice.below(4),
                    per_mille: self.dice.below(1000),
                    len: self.dice.between(1, 4000),
                    seed: self.dice.any(),
                };
                Some(Step::new(kind, action, Proof::Ok))
            }
            _ => None,
        }
    }

    fn insert_select(&mut self) -> Option<Step> {
        let (to, from) = (self.any_table("tgwc")?, self.any_table("tgwc")?);
        let sources: Vec<_> = to
            .writable()
            .iter()
            .map(|c| {
                if c.declared == "INTEGER" && c.key {
                    return "NULL".to_owned();
                }
                let source = self.dice.pick(&from.columns).name.clone();
                match c.declared.as_str() {
                    "INTEGER" => format!("length({source}) + rowid_or_zero"),
                    _ if c.not_null || c.key => {
                        format!("coalesce(substr({source}, 1, 200), 'null')")
                    }
                    _ => format!("substr({source}, 1, 400)"),
                }
            })
            .map(|s| {
                s.replace(
                    "rowid_or_zero",
                    if from.without_rowid { "0" } else { "rowid" },
                )
            })
            .collect();
        let or = self.careful();
        let sql = format!(
            "INSERT {or}INTO {}({}) SELECT {} FROM {} LIMIT {}",
            to.sql(),
            list(&to),
            sources.join(", "),
            from.sql(),
            self.dice.between(1, 50)
        );
        Some(Step::writes(InsertSelect, sql))
    }

    fn update(&mut self, kind: Kind) -> Option<Step> {
        let table = self.any_table("tgwc")?;
        let (column, value) = if kind == UpdateOverflow {
            let column = self.large_column(&table)?;
            let value = self.large_value(&column.declared);
            (column, value)
        } else {
            let column = (*self.dice.pick(&table.plain())).clone();
            let value = match self.dice.below(3) {
                0 if column.declared == "INTEGER" => format!("{} + 1", column.name),
                0 if column.declared == "TEXT" => {
                    format!("substr({} || 'tail', 3, 200)", column.name)
                }
                _ => self.value(&column),
            };
            (column, value)
        };
        let rows = match kind {
            UpdateMany => self.some_rows(&table),
            _ => self.one_row(&table),
        };
        let or = self.careful();
        let sql = format!(
            "UPDATE {or}{} SET {} = {value} WHERE {rows}",
            table.sql(),
            column.name
        );
        Some(Step::writes(kind, sql))
    }

    fn query(&mut self) -> Step {
        let sql = match self.any_table("tgwc") {
            None => "SELECT count(*), sum(length(v)) FROM keep_unique".to_owned(),
            Some(table) => {
                let (name, column) = (table.sql(), self.dice.pick(&table.columns).name.clone());
                match self.dice.below(6) {
                    0 => format!("SELECT * FROM {name}"),
                    1 => format!(
                        "SELECT {column}, count(*) FROM {name} GROUP BY {column} ORDER BY {column} DESC LIMIT 25"
                    ),
                    2 => format!(
                        "SELECT * FROM {name} WHERE {column} > {} ORDER BY {column}, 1 LIMIT 9 OFFSET 2",
                        self.dice.below(500)
                    ),
                    3 => format!(
                        "SELECT total(length({column})), min({column}), max({column}) FROM {name}"
                    ),
                    4 => format!(
                        "SELECT {column}, row_number() OVER (ORDER BY {column}, 1) FROM {name} WHERE {column} LIKE '%river%'"
                    ),
                    _ => format!(
                        "SELECT count(*) FROM {name} WHERE {column} IN (SELECT {column} FROM {name} LIMIT 7)"
                    ),
                }
            }
        };
        Step::new(Query, Action::Main(sql), Proof::Rows)
    }

    /// A conflict clause. Without a journal a statement must not fail halfway.
    fn conflict(&mut self) -> &'static str {
        if self.journal == Journal::Off {
            return "OR IGNORE ";
        }
        match self.dice.below(20) {
            0..=4 => "OR REPLACE ",
            5..=7 => "OR FAIL ",
            8 => "OR ROLLBACK ",
            9..=12 => "OR IGNORE ",
            _ => "",
        }
    }

    /// A conflict clause with which a statement seldom fails.
    fn careful(&mut self) -> &'static str {
        if self.journal == Journal::Off {
            return "OR IGNORE ";
        }
        match self.dice.below(10) {
            0 => "",
            1..=4 => "OR REPLACE ",
            _ => "OR IGNORE ",
        }
    }

    /// A condition that selects one row.
    fn one_row(&mut self, table: &Table) -> String {
        let (key, nth) = (row_key(table), self.dice.below(1000));
        let name = table.sql();
        format!(
            "{key} IN (SELECT {} FROM {name} LIMIT 1 OFFSET {nth} % (SELECT count(*) + 1 FROM {name}))",
            key.trim_matches(['(', ')'])
        )
    }

    /// A condition that selects some of the rows.
    fn some_rows(&mut self, table: &Table) -> String {
        let (modulus, rest) = (self.dice.between(2, 5), self.dice.below(2));
        if table.without_rowid {
            return format!("length(k) % {modulus} = {rest}");
        }
        format!("rowid % {modulus} = {rest}")
    }

    fn large_column(&mut self, table: &Table) -> Option<Column> {
        let fits = |c: &&&Column| matches!(c.declared.as_str(), "TEXT" | "BLOB" | "");
        let columns: Vec<Column> = table
            .plain()
            .iter()
            .filter(fits)
            .map(|c| (*c).clone())
            .collect();
        self.dice.pick_from(columns)
    }
}

/// The columns that accept values, as a list for SQL.
fn insert(or: &str, table: &Table, values: &[String]) -> String {
    let (name, values) = (table.sql(), values.join(", "));
    format!("INSERT {or}INTO {name}({}) VALUES ({values})", list(table))
}

fn list(table: &Table) -> String {
    table
        .writable()
        .iter()
        .map(|c| c.name.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

fn row_key(table: &Table) -> &'static str {
    if table.without_rowid {
        "(k, n)"
    } else {
        "rowid"
    }
}

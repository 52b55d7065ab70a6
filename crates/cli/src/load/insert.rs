//! Inserts rows in one transaction: all of them, or none.

use super::order::Part;
use super::target::{self, Target};
use super::{Bad, Row, Source, shown};
use densite_sqlite::quoted;
use densite_tools::Progress;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

/// The result of a load.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) rows: u64,
    pub(crate) created: bool,
    /// Whether the rows were sorted by the key.
    pub(crate) sorted: bool,
    /// The number of skipped rows, and the first of them.
    pub(crate) skipped: u64,
    pub(crate) bad: Vec<Bad>,
}

/// Why nothing was loaded.
pub(crate) enum Stop {
    Input(Bad),
    Table(String),
    Sql(rusqlite::Error),
    Interrupted,
}

impl From<rusqlite::Error> for Stop {
    fn from(e: rusqlite::Error) -> Stop {
        Stop::Sql(e)
    }
}

/// The number of skipped rows that are described in full.
const TOLD: usize = 10;
/// The number of prepared statements that are kept for rows with different columns.
const STATEMENTS: usize = 64;
/// The number of rows between two checks for signals and progress reports.
const TURN: u64 = 1024;

/// Options of a load.
pub(crate) struct Options<'a> {
    pub(crate) table: &'a str,
    /// Whether to skip rows that cannot be loaded.
    pub(crate) skip_errors: bool,
    /// Whether the columns of the file are assigned to those of the table in order.
    pub(crate) by_order: bool,
    /// The most bytes of rows that are kept in memory for sorting.
    pub(crate) memory: u64,
}

struct Load<'a> {
    db: &'a Connection,
    options: &'a Options<'a>,
    target: Target,
    /// For each column of the file, the index of the table's column.
    places: Vec<usize>,
    loaded: Loaded,
}

/// Loads all rows of a source. After an error the database is unchanged.
pub(crate) fn load(
    db: &Connection,
    source: &mut dyn Source,
    options: &Options<'_>,
    progress: &mut dyn Progress,
) -> Result<Loaded, Stop> {
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    // In the caller's transaction, the rows are a part of it.
    let (begin, commit, undo) = match db.is_autocommit() {
        true => ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"),
        false => (
            "SAVEPOINT densite_load",
            "RELEASE densite_load",
            "ROLLBACK TO densite_load; RELEASE densite_load",
        ),
    };
    db.execute_batch(begin)?;
    let done = within(db, source, options, progress).and_then(|loaded| {
        db.execute_batch(commit)?;
        Ok(loaded)
    });
    if done.is_err() {
        // The earlier error is more useful than one of this rollback. Closing the connection also
        // rolls back.
        db.execute_batch(undo).ok();
    }
    done
}

fn within(
    db: &Connection,
    source: &mut dyn Source,
    options: &Options<'_>,
    progress: &mut dyn Progress,
) -> Result<Loaded, Stop> {
    let known = match target::find_table(db, options.table)? {
        Some(Err(reason)) => return Err(Stop::Table(reason)),
        Some(Ok(target)) => Some(target),
        None => None,
    };
    let mut load = Load {
        db,
        options,
        target: known.clone().unwrap_or_default(),
        places: Vec::new(),
        loaded: Loaded {
            created: known.is_none(),
            ..Loaded::default()
        },
    };
    let mut is_known = known.is_some();
    loop {
        let (mut rows, is_end) = load.read(source, progress)?;
        if !is_known {
            // The first rows determine the columns.
            if source.columns().is_empty() {
                return Err(Stop::Input(Bad::file(
                    "has no rows, so the columns of the new table are unknown",
                )));
            }
            target::create(db, options.table, source.columns())?;
            let made = target::find_table(db, options.table)?.and_then(Result::ok);
            load.target = made.unwrap_or_default();
            is_known = true;
        }
        load.sort(source, &mut rows)?;
        for row in &rows {
            load.insert(source, row)?;
            if load.loaded.rows.is_multiple_of(TURN) && progress.cancelled() {
                return Err(Stop::Interrupted);
            }
        }
        if is_end {
            return Ok(load.loaded);
        }
    }
}

impl Load<'_> {
    /// Reads as many rows as fit into memory. Returns whether they are the last ones.
    fn read(
        &mut self,
        source: &mut dyn Source,
        progress: &mut dyn Progress,
    ) -> Result<(Vec<Row>, bool), Stop> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while bytes < self.options.memory {
            if (rows.len() as u64).is_multiple_of(TURN) {
                progress.done(source.bytes_read());
                if progress.cancelled() {
                    return Err(Stop::Interrupted);
                }
            }
            match source.next() {
                Ok(Some(row)) => {
                    bytes += size_of_row(&row);
                    rows.push(row);
                }
                Ok(None) => return Ok((rows, true)),
                Err(bad) => self.skip(bad)?,
            }
        }
        Ok((rows, false))
    }

    fn skip(&mut self, bad: Bad) -> Result<(), Stop> {
        if !self.options.skip_errors || bad.is_last {
            return Err(Stop::Input(bad));
        }
        self.loaded.skipped += 1;
        if self.loaded.bad.len() < TOLD {
            self.loaded.bad.push(bad);
        }
        Ok(())
    }

    /// Finds the table's columns for new columns of the file.
    fn map_columns(&mut self, source: &dyn Source, at: Option<u64>) -> Result<(), Bad> {
        let columns = source.columns();
        for (i, column) in columns.iter().enumerate().skip(self.places.len()) {
            let named = |name: &String| name.eq_ignore_ascii_case(&column.name);
            let place = match self.options.by_order {
                true => Some(i).filter(|i| *i < self.target.columns.len()),
                false => self.target.columns.iter().position(named),
            };
            let place = place.filter(|p| !self.places.contains(p));
            let Some(place) = place else {
                let table = self.options.table;
                let problem = match self.options.by_order {
                    true => format!(
                        "has {} fields, and table {table} takes {}",
                        columns.len(),
                        self.target.columns.len()
                    ),
                    false if self.target.columns.iter().any(named) => "occurs twice".to_owned(),
                    false => format!(
                        "is not a column of table {table} that takes values; the table has {}",
                        self.target.columns.join(", ")
                    ),
                };
                let bad = Bad {
                    at,
                    ..Bad::file(problem)
                };
                return Err(match self.options.by_order {
                    true => bad,
                    false => bad.with(&column.name, None),
                });
            };
            self.places.push(place);
        }
        Ok(())
    }

    /// Sorts rows by the key of the table, unless they are sorted or their order can matter.
    fn sort(&mut self, source: &dyn Source, rows: &mut [Row]) -> Result<(), Stop> {
        let at = rows
            .first()
            .map(|row| row.at)
            .filter(|_| source.unit() == "line");
        self.map_columns(source, at).map_err(Stop::Input)?;
        if !self.target.may_sort || self.options.skip_errors || self.target.key.is_empty() {
            return Ok(());
        }
        let place_of = |name: &String| {
            let column = self.target.columns.iter().position(|c| c == name)?;
            self.places.iter().position(|p| *p == column)
        };
        // Rows without the key get keys in the order of insertion.
        let Some(key) = self
            .target
            .key
            .iter()
            .map(place_of)
            .collect::<Option<Vec<_>>>()
        else {
            return Ok(());
        };
        let key_of = |row: &Row| -> Vec<Part> {
            let part = |i: &usize| Part::of(row.values.get(*i).and_then(Option::as_ref));
            key.iter().map(part).collect()
        };
        // The same holds for single rows without a key: an INTEGER PRIMARY KEY then gets the next
        // number, which depends on the rows before it.
        let is_made = |row: &Row| key_of(row).contains(&Part::Null);
        if !rows.is_sorted_by_key(key_of) && !rows.iter().any(is_made) {
            rows.sort_by_cached_key(key_of);
            self.loaded.sorted = true;
        }
        Ok(())
    }

    fn insert(&mut self, source: &dyn Source, row: &Row) -> Result<(), Stop> {
        if let Err(bad) = self.map_columns(source, Some(row.at)) {
            return Err(Stop::Input(bad));
        }
        let there = row.values.iter().zip(&self.places);
        let (values, columns): (Vec<&Value>, Vec<String>) = there
            .filter_map(|(value, place)| {
                let column = self.target.columns.get(*place)?;
                Some((value.as_ref()?, quoted(column)))
            })
            .unzip();
        let table = quoted(self.options.table);
        let sql = match columns.len() {
            0 => format!("INSERT INTO main.{table} DEFAULT VALUES"),
            n => format!(
                "INSERT INTO main.{table}({}) VALUES ({})",
                columns.join(", "),
                vec!["?"; n].join(", ")
            ),
        };
        let mut statement = self.db.prepare_cached(&sql)?;
        match statement.execute(params_from_iter(values)) {
            Ok(_) => {
                self.loaded.rows += 1;
                Ok(())
            }
            Err(e) => {
                let bad = self.refused(row, &e);
                bad.map_or(Err(Stop::Sql(e)), |bad| self.skip(bad))
            }
        }
    }

    /// The table's reason to refuse a row; `None` for an error that does not depend on the row.
    fn refused(&self, row: &Row, e: &rusqlite::Error) -> Option<Bad> {
        let rusqlite::Error::SqliteFailure(error, message) = e else {
            return None;
        };
        // TOOBIG, CONSTRAINT (also RAISE in a trigger), MISMATCH.
        if !matches!(error.extended_code & 0xff, 18..=20) {
            return None;
        }
        let problem = message.clone().unwrap_or_else(|| error.to_string());
        let bad = Bad::row(row.at, problem.clone());
        // SQLite names columns as table.column.
        let named = |column: &&String| {
            let mut words = problem.split([' ', ',']);
            words.any(|w| {
                w.rsplit_once('.')
                    .is_some_and(|(_, name)| name == column.as_str())
            })
        };
        // In tables that are not STRICT only the row id has a strict type. SQLite's message then
        // names no column.
        let row_id = || match (error.extended_code & 0xff, self.target.key.as_slice()) {
            (20, [key]) => self.target.columns.iter().find(|c| *c == key),
            _ => None,
        };
        let Some(column) = self.target.columns.iter().find(named).or_else(row_id) else {
            return Some(bad);
        };
        let place = self.target.columns.iter().position(|c| c == column)?;
        let value = self.places.iter().position(|p| *p == place);
        let value = value.and_then(|i| row.values.get(i)?.as_ref());
        Some(bad.with(column, value.map(shown)))
    }
}

/// The approximate memory of a row in bytes.
fn size_of_row(row: &Row) -> u64 {
    let bytes = |value: &Option<Value>| match value {
        Some(Value::Text(text)) => text.len(),
        Some(Value::Blob(bytes)) => bytes.len(),
        _ => 0,
    };
    let own = std::mem::size_of::<Row>() + std::mem::size_of_val(row.values.as_slice());
    (own + row.values.iter().map(bytes).sum::<usize>()) as u64
}

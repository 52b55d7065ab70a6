//! Inserts rows in one transaction: all of them, or none.

use super::key_order::Part;
use super::spelled::{self, Spelling};
use super::target_table::{self, Target};
use super::types::Decided;
use super::{Bad, Row, Source, shown, wrong_names};
use crate::args::Types;
use crate::out::counted;
use densite_sqlite::quoted;
use densite_tools::Progress;
use rusqlite::types::Value;
use rusqlite::{Connection, ffi, params_from_iter};

/// The result of a load.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Rows that were inserted or updated.
    pub(crate) rows: u64,
    /// Rows that a trigger or a conflict clause of the table dropped.
    pub(crate) ignored: u64,
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
    /// The schema of the table: "main", or another one of the connection.
    pub(crate) schema: &'a str,
    pub(crate) table: &'a str,
    /// Whether to skip rows that cannot be loaded.
    pub(crate) skip_errors: bool,
    /// Whether the columns of the file are assigned to those of the table in order.
    pub(crate) by_order: bool,
    /// Whether infinite numbers and blobs are read from their spelling.
    pub(crate) reads_spelled: bool,
    /// How a new table's columns of text get their types.
    pub(crate) types: Option<&'a Types>,
    /// The columns by which rows are updated; none if rows are only inserted.
    pub(crate) upsert: &'a [String],
    /// The most bytes of rows that are kept in memory for sorting.
    pub(crate) memory: u64,
}

impl Options<'_> {
    /// The table in SQL.
    fn name(&self) -> String {
        format!("{}.{}", quoted(self.schema), quoted(self.table))
    }
}

struct Load<'a> {
    db: &'a Connection,
    options: &'a Options<'a>,
    /// The table in SQL.
    name: String,
    target: Target,
    types: Decided,
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
        progress.phase("committing", 0);
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
    let known = match target_table::find_table(db, options.schema, options.table)? {
        Some(Err(reason)) => return Err(Stop::Table(reason)),
        Some(Ok(target)) => Some(target),
        None => None,
    };
    let key = Some(options.upsert).filter(|key| !key.is_empty());
    let wrong = known.as_ref().zip(key);
    let wrong = wrong
        .and_then(|(to, key)| target_table::wrong_key(db, options.schema, options.table, to, key));
    if let Some(reason) = wrong {
        return Err(Stop::Table(reason));
    }
    let mut load = Load {
        db,
        options,
        name: options.name(),
        target: known.clone().unwrap_or_default(),
        types: Decided::default(),
        places: Vec::new(),
        loaded: Loaded {
            created: known.is_none(),
            ..Loaded::default()
        },
    };
    let mut is_known = known.is_some();
    loop {
        let before = source.bytes_read();
        let (mut rows, is_end) = load.read(source, progress)?;
        if !is_known {
            // The first rows determine the columns.
            load.create(source, &rows)?;
            is_known = true;
        }
        load.sort(source, &mut rows)?;
        let work = Work {
            before,
            after: source.bytes_read(),
            rows: rows.len() as u64,
        };
        for (row, done) in rows.iter_mut().zip(0..) {
            if u64::is_multiple_of(done, TURN) {
                progress.done(work.position(done));
                if progress.cancelled() {
                    return Err(Stop::Interrupted);
                }
            }
            load.insert(source, row)?;
        }
        if is_end {
            return Ok(load.loaded);
        }
    }
}

/// A part of the file, between reading and the insertion of its last row, for progress.
struct Work {
    before: u64,
    after: u64,
    rows: u64,
}

impl Work {
    /// How much of the time for a part its insertion takes, in percent. Reading takes the rest:
    /// 10 to 15 % for CSV.
    const INSERTION: u64 = 87;

    /// The position in the file that stands for this number of inserted rows.
    fn position(&self, inserted: u64) -> u64 {
        let read = Work::of_reading(self.before, self.after);
        let rest = u128::from(self.after - read);
        let share = rest * u128::from(inserted) / u128::from(self.rows.max(1));
        read + share as u64
    }

    /// The position that stands for reading from one place to another.
    fn of_reading(before: u64, now: u64) -> u64 {
        before + now.saturating_sub(before) * (100 - Work::INSERTION) / 100
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
        let before = source.bytes_read();
        while bytes < self.options.memory {
            if (rows.len() as u64).is_multiple_of(TURN) {
                progress.done(Work::of_reading(before, source.bytes_read()));
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

    /// Creates the table for its first rows.
    fn create(&mut self, source: &dyn Source, rows: &[Row]) -> Result<(), Stop> {
        let mut columns = source.columns().to_vec();
        if columns.is_empty() {
            let problem = match rows.is_empty() {
                true => "has no rows, so the columns of the new table are unknown; create it first",
                false => {
                    "has rows without columns, so those of the new table are unknown; create it first"
                }
            };
            return Err(Stop::Input(Bad::file(problem)));
        }
        if let Some(problem) = wrong_names(&columns) {
            return Err(Stop::Input(Bad::file(problem)));
        }
        let is_there = |name: &&String| columns.iter().any(|c| c.name.eq_ignore_ascii_case(name));
        if let Some(name) = self.options.upsert.iter().find(|name| !is_there(name)) {
            let bad = Bad::file("is named by --upsert, and the file has no such column");
            return Err(Stop::Input(bad.with(name, None)));
        }
        if let Some(types) = self.options.types {
            self.types = Decided::new(types, &mut columns, rows).map_err(Stop::Input)?;
        }
        if self.options.reads_spelled && source.spelling() == Spelling::Json {
            spelled::declare(&mut columns, rows);
        }
        let table = self.options.table;
        target_table::create(self.db, &self.name, &columns, self.options.upsert).map_err(|e| {
            match e.to_string().starts_with("too many columns") {
                true => Stop::Input(Bad::file(format!(
                    "has {}, which are too many for a table; load a part of them",
                    counted(columns.len() as u64, "column", "columns")
                ))),
                false => Stop::Sql(e),
            }
        })?;
        let made =
            target_table::find_table(self.db, self.options.schema, table)?.and_then(Result::ok);
        self.target = made.unwrap_or_default();
        Ok(())
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
                        "has {}, and table {table} takes {}",
                        counted(columns.len() as u64, "field", "fields"),
                        self.target.columns.len()
                    ),
                    false if self.target.columns.iter().any(named) => {
                        wrong_names(columns).unwrap_or_else(|| "occurs twice".to_owned())
                    }
                    false if self.target.generated.iter().any(named) => format!(
                        "is a generated column of table {table}, which takes no values; leave it out"
                    ),
                    false => format!(
                        "is not a column of table {table} that takes values; the table has {}{}",
                        self.target.columns.join(", "),
                        match source.doubt() {
                            Some(doubt) => format!("; the file {doubt}"),
                            None => String::new(),
                        }
                    ),
                };
                let bad = Bad {
                    at: source.header().or(at),
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
        // Of several rows with one key, the last one in the file stays.
        let may_sort = self.target.may_sort && self.options.upsert.is_empty();
        if !may_sort || self.options.skip_errors || self.target.key.is_empty() {
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

    fn insert(&mut self, source: &dyn Source, row: &mut Row) -> Result<(), Stop> {
        self.map_columns(source, Some(row.at))
            .map_err(Stop::Input)?;
        if let Err(bad) = self.types.convert(row, source.columns()) {
            return self.skip(bad);
        }
        if self.options.reads_spelled {
            for (value, place) in row.values.iter_mut().zip(&self.places) {
                let affinity = self.target.affinities.get(*place);
                if let (Some(value), Some(affinity)) = (value, affinity) {
                    spelled::read(*affinity, value, source.spelling());
                }
            }
        }
        let there = row.values.iter().zip(&self.places);
        let (values, columns): (Vec<&Value>, Vec<&str>) = there
            .filter_map(|(value, place)| {
                let column = self.target.columns.get(*place)?;
                Some((value.as_ref()?, column.as_str()))
            })
            .unzip();
        let is_there = |key: &&String| !columns.iter().any(|c| c.eq_ignore_ascii_case(key));
        if let Some(missing) = self.options.upsert.iter().find(is_there) {
            let bad = Bad::row(row.at, "has no value for this column of --upsert");
            return self.skip(bad.with(missing, None));
        }
        let sql = statement(&self.name, self.options.upsert, &columns);
        let mut statement = self.db.prepare_cached(&sql)?;
        match statement.execute(params_from_iter(values)) {
            // A trigger with RAISE(IGNORE), or ON CONFLICT IGNORE, dropped the row.
            Ok(0) => {
                self.loaded.ignored += 1;
                Ok(())
            }
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
        let mut problem = message.clone().unwrap_or_else(|| error.to_string());
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
        let is_type = matches!(
            error.extended_code,
            ffi::SQLITE_MISMATCH | ffi::SQLITE_CONSTRAINT_DATATYPE
        );
        if is_type && self.options.types.is_some() && value == Some(&Value::Text(String::new())) {
            problem += "; an empty field is text, and NULL with --null ''";
        }
        let bad = Bad { problem, ..bad };
        Some(bad.with(column, value.map(shown)))
    }
}

/// The statement that inserts a row with these columns, or updates the row of its key.
fn statement(table: &str, upsert: &[String], columns: &[&str]) -> String {
    let list = |columns: &[&str]| {
        let quoted: Vec<String> = columns.iter().map(|c| quoted(c)).collect();
        quoted.join(", ")
    };
    if columns.is_empty() {
        return format!("INSERT INTO {table} DEFAULT VALUES");
    }
    let marks = vec!["?"; columns.len()].join(", ");
    let insert = format!("INSERT INTO {table}({}) VALUES ({marks})", list(columns));
    if upsert.is_empty() {
        return insert;
    }
    let key: Vec<&str> = upsert.iter().map(String::as_str).collect();
    let is_key = |column: &&&str| key.iter().any(|k| k.eq_ignore_ascii_case(column));
    let others = columns.iter().filter(|column| !is_key(column));
    let sets = others.map(|column| format!("{0} = excluded.{0}", quoted(column)));
    let sets: Vec<String> = sets.collect();
    let then = match sets.is_empty() {
        // A statement that changes a row counts it, and one that does nothing does not.
        true => {
            let first = key.first().map_or_else(String::new, |first| quoted(first));
            format!("UPDATE SET {first} = excluded.{first}")
        }
        false => format!("UPDATE SET {}", sets.join(", ")),
    };
    format!("{insert} ON CONFLICT({}) DO {then}", list(&key))
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

//! Saves what can be read of a damaged database: the rows of all pages that are whole, with a list
//! of what is missing.
//!
//! SQLite stops at the first page that it cannot read. Here the b-trees are walked page by page
//! ([`trees`]), and each row is inserted into a new database by SQL ([`rows`]). Rows of leaves that
//! no tree reaches any more, because the page above them is damaged, go to the one table that can
//! have them, and otherwise to a table `lost_and_found`, as in the sqlite3 shell's `.recover`.

mod opened;
mod raw;
mod record_values;
mod rows;
mod scanned;
mod trees;

use crate::convert::ConvertOptions;
use crate::db::Through;
use crate::error::{Error, Result};
use crate::form::Form;
use crate::output::Output;
use crate::progress::Progress;
use crate::source;
use crate::target::{self, Target};
use crate::temp::{self, Temp};
use densite_sqlite::{self as sqlite, Api};
use densite_sqlite_format::schema::Row;
use densite_sqlite_format::{Encoding, PageSet, record as stored};
use densite_vfs::LockedView;
use opened::Opened;
use record_values::values;
use rows::Rows;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trees::{Record, Trees};

pub use trees::Missing;

/// Rows that a table has, and what is missing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedTable {
    /// Its name.
    pub name: String,
    /// Rows in the new database.
    pub rows: u64,
    /// What could not be read.
    pub missing: Vec<Missing>,
    /// Rows among them that were found all the same, below pages that are lost.
    pub found_again: u64,
    /// Rows that the new table refuses, which are in `lost_and_found`.
    pub refused: u64,
    /// Why it refuses the first of them.
    pub why_refused: Option<String>,
}

/// The result of a salvage.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Salvaged {
    /// The damaged database, as the caller gave it.
    pub source: PathBuf,
    /// How it is stored: a plain file has no checksums, so wrong values are not noticed.
    pub form: Form,
    /// The new one.
    pub destination: PathBuf,
    /// Commits or parts of the page map of the source could not be read, and pages were found by
    /// their frames: rows can be of an earlier moment, or of a transaction that was not committed.
    pub by_frames: bool,
    /// Tables with rows, or of which something is missing.
    pub tables: Vec<SavedTable>,
    /// What is missing of the schema itself.
    pub schema_missing: Vec<Missing>,
    /// Parts of the schema that could not be made, and why.
    pub not_made: Vec<String>,
    /// Pages that cannot be read and belong to nothing that is known.
    pub unknown: Vec<Missing>,
    /// The table for rows of unknown tables, and its rows.
    pub found: Option<(String, u64)>,
    /// Length of the new file in bytes.
    pub destination_bytes: u64,
    /// Wall time.
    pub elapsed: Duration,
}

impl Salvaged {
    /// Whether all rows are in their tables, and all of the schema is there.
    pub fn is_complete(&self) -> bool {
        let is_whole = |table: &SavedTable| table.missing.is_empty() && table.refused == 0;
        self.tables.iter().all(is_whole)
            && self.schema_missing.is_empty()
            && self.not_made.is_empty()
            && self.found.is_none()
            && !self.by_frames
    }
}

/// Writes what can be read of the database `src` to the new compressed database `dst`. `src` is not
/// changed, except as opening it does: a hot journal is rolled back.
///
/// # Errors
/// See [`Error`]. [`Error::Damaged`] if not even the first page can be read. After any error `dst`
/// does not exist.
pub fn salvage(
    api: Api,
    src: &Path,
    dst: &Path,
    options: &ConvertOptions,
    progress: &mut dyn Progress,
) -> Result<Salvaged> {
    let started = Instant::now();
    let target = target::resolve_to_read(api, src)?;
    target::must_be_another(&target, dst)?;
    target::must_be_free(dst)?;
    temp::clear_leftovers(dst, progress)?;
    let mut temp = Temp::create(dst, &target, false)?;
    let mut opened = Opened::open(api, &target, options.wait, progress)?;
    let form = opened.form();
    let pages = opened.pages();
    let header = source::header(pages, &target.given)?;
    let free = match source::freelist(pages, &header) {
        Ok(list) => list.map(|list| list.all),
        Err(Error::Damaged { .. }) => None,
        Err(e) => return Err(e),
    };
    let mut saved = Salvaged {
        source: target.given.clone(),
        form,
        by_frames: false,
        destination: dst.to_path_buf(),
        tables: Vec::new(),
        schema_missing: Vec::new(),
        not_made: Vec::new(),
        unknown: Vec::new(),
        found: None,
        destination_bytes: 0,
        elapsed: Duration::ZERO,
    };
    let mut rows = Rows::new(api, &header)?;
    let mut trees = Trees::new(pages, header, &target.given, progress);
    let parts = schema(&mut trees, header.encoding, &mut saved)?;
    make_tables(&parts, &mut rows, &mut saved)?;
    let mut kept = 0;
    let lost_indexes = read_tables(
        &mut trees,
        header.encoding,
        &parts,
        (&rows, &mut kept),
        &mut saved,
    )?;
    let rest = Rest {
        free: free.unwrap_or_default(),
        encoding: header.encoding,
        lost_indexes,
    };
    rest.read(&mut trees, (&rows, &mut kept), &mut saved)?;
    make_others(&parts, &rows, &mut saved);
    saved.found = rows.found().map(|name| (name, kept));
    progress.phase("writing", 0);
    write(api, &rows, (&temp, &target), options, header.wal)?;
    opened.confirm()?;
    saved.by_frames = opened.is_by_frames();
    if progress.cancelled() {
        return Err(Error::Interrupted { path: target.given });
    }
    (saved.destination_bytes, _) = temp.sizes()?;
    temp.rename_to(dst)?;
    saved.elapsed = started.elapsed();
    Ok(saved)
}

/// The error of the new database.
fn failed(e: sqlite::Error) -> Error {
    Error::Io {
        path: std::env::temp_dir(),
        doing: "build the new database in a temporary file".into(),
        message: e.message,
    }
}

/// Reads `sqlite_schema`.
fn schema(trees: &mut Trees<'_>, encoding: Encoding, saved: &mut Salvaged) -> Result<Vec<Row>> {
    let (mut parts, mut malformed) = (Vec::new(), Vec::new());
    let missing = trees.walk(1, &mut |record: Record<'_>| {
        match stored::values(record.bytes) {
            Some(found) => parts.extend(Row::of(&found, encoding)),
            None => malformed.push(Missing::malformed(&record)),
        }
        Ok(())
    })?;
    saved.schema_missing = malformed;
    saved.schema_missing.extend(missing);
    Ok(parts)
}

fn make_tables(parts: &[Row], rows: &mut Rows, saved: &mut Salvaged) -> Result<()> {
    for part in parts.iter().filter(|part| part.kind == "table") {
        let made = match &part.sql {
            Some(sql) if part.root == 0 => rows.create_virtual(&part.name, sql),
            Some(sql) if !part.is_internal() => rows.create(sql),
            _ if part.name.starts_with("sqlite_stat") => rows.create("ANALYZE main.sqlite_schema"),
            _ => continue,
        };
        if let Err(e) = made {
            let why = format!("the table {}: {}", part.name, e.message);
            saved.not_made.push(why);
        }
    }
    rows.tables_are_made()
}

fn read_tables(
    trees: &mut Trees<'_>,
    encoding: Encoding,
    parts: &[Row],
    (rows, kept): (&Rows, &mut u64),
    saved: &mut Salvaged,
) -> Result<Vec<Option<usize>>> {
    // SQLite changes its own tables while rows are inserted, so they get theirs last.
    let tables = || parts.iter().filter(|part| part.is_table());
    let ordered = tables()
        .filter(|part| !part.is_internal())
        .chain(tables().filter(|part| part.is_internal()));
    for part in ordered {
        let mut table = SavedTable::new(&part.name);
        if part.name.eq_ignore_ascii_case("sqlite_sequence") {
            rows.create("DELETE FROM sqlite_sequence").ok();
        }
        let mut inserts = rows.inserts(&part.name);
        let missing = trees.walk(part.root, &mut |record| {
            let Some(found) = values(record.bytes, encoding) else {
                table.unreadable(&record);
                return Ok(());
            };
            let refused = match &mut inserts {
                Some(inserts) => inserts.insert(record.id, &found).err(),
                None => Some(sqlite::Error::new(
                    sqlite::Code::ERROR,
                    "it could not be made",
                )),
            };
            match refused {
                None => table.rows += 1,
                Some(e) => {
                    table.refuse(e);
                    *kept += 1;
                    rows.keep(Some(&part.name), record.page, record.id, found)
                        .map_err(failed)?;
                }
            }
            Ok(())
        })?;
        table.missing.extend(missing);
        if rows.has_ids(&part.name) == Some(false) {
            table
                .missing
                .iter_mut()
                .for_each(|missing| missing.ids = None);
        }
        saved.tables.push(table);
    }
    // The pages of indexes are known then; their rows are those of the tables.
    let mut lost_indexes = Vec::new();
    for part in (parts.iter()).filter(|part| part.kind == "index" && part.root > 0) {
        let mut fields = None;
        let missing = trees.walk(part.root, &mut |record| {
            if fields.is_none() {
                fields = stored::values(record.bytes).map(|found| found.len());
            }
            Ok(())
        })?;
        if !missing.is_empty() {
            lost_indexes.push(fields);
        }
    }
    Ok(lost_indexes)
}

impl SavedTable {
    fn new(name: &str) -> SavedTable {
        SavedTable {
            name: name.to_owned(),
            rows: 0,
            missing: Vec::new(),
            found_again: 0,
            refused: 0,
            why_refused: None,
        }
    }

    fn refuse(&mut self, e: sqlite::Error) {
        self.refused += 1;
        self.why_refused.get_or_insert(e.message);
    }

    fn unreadable(&mut self, record: &Record<'_>) {
        self.missing.push(Missing::malformed(record));
    }

    /// Whether these row ids are in a part that is missing.
    fn lacks(&self, first: i64, last: i64) -> bool {
        let mut gaps = self.missing.iter().filter_map(|missing| missing.ids);
        gaps.any(|(from, to)| from <= first && last <= to)
    }
}

impl Missing {
    /// A row whose record cannot be read.
    fn malformed(record: &Record<'_>) -> Missing {
        Missing {
            page: record.page,
            why: "a row there is malformed".to_owned(),
            ids: record.id.map(|id| (id, id)),
        }
    }
}

/// The pages that no tree reaches, and what is known to find their tables.
struct Rest {
    free: PageSet,
    encoding: Encoding,
    /// The numbers of values in the entries of indexes of which something is missing; `None`: it is
    /// not known.
    lost_indexes: Vec<Option<usize>>,
}

impl Rest {
    /// Finds the tables of leaves that no tree reaches.
    fn read(
        &self,
        trees: &mut Trees<'_>,
        (rows, kept): (&Rows, &mut u64),
        saved: &mut Salvaged,
    ) -> Result<()> {
        let gaps: Vec<SavedTable> = (saved.tables.iter())
            .filter(|table| !table.missing.is_empty())
            .cloned()
            .collect();
        let keeps_entries = !saved.schema_missing.is_empty()
            || (gaps.iter()).any(|table| rows.has_ids(&table.name) == Some(false));
        let leaf = std::cell::Cell::new(None);
        let tables = &mut saved.tables;
        let mut inserts = HashMap::new();
        let (missing, unknown) =
            trees.rest(&self.free, &mut |ids| leaf.set(ids), &mut |record| {
                let Some(found) = values(record.bytes, self.encoding) else {
                    return Ok(());
                };
                // An entry of an index says nothing that its table does not say.
                if leaf.get().is_none() && !keeps_entries {
                    return Ok(());
                }
                let owner = self.owner(&gaps, rows, leaf.get(), found.len());
                let table = owner.and_then(|name| tables.iter_mut().find(|t| t.name == name));
                let name = table.as_ref().map(|table| table.name.clone());
                if let Some(table) = table {
                    if !inserts.contains_key(&table.name) {
                        let into = rows.inserts(&table.name);
                        inserts.insert(table.name.clone(), into);
                    }
                    let into = inserts.get_mut(&table.name).and_then(Option::as_mut);
                    match into.map_or(Ok(()), |into| into.insert(record.id, &found)) {
                        Ok(()) => {
                            table.rows += 1;
                            table.found_again += 1;
                            return Ok(());
                        }
                        Err(e) => table.refuse(e),
                    }
                }
                *kept += 1;
                rows.keep(name.as_deref(), record.page, record.id, found)
                    .map_err(failed)
            })?;
        saved.unknown = unknown;
        saved.unknown.extend(missing);
        Ok(())
    }

    /// The only table that can have a leaf with these row ids, and records of so many values.
    fn owner<'a>(
        &self,
        gaps: &'a [SavedTable],
        rows: &Rows,
        ids: Option<(i64, i64)>,
        fields: usize,
    ) -> Option<&'a str> {
        let mut candidates = gaps.iter().filter(|table| {
            let has_ids = rows.has_ids(&table.name) == Some(true);
            let fits = rows
                .columns(&table.name)
                .is_some_and(|columns| fields <= columns);
            fits && match ids {
                Some((first, last)) => has_ids && table.lacks(first, last),
                None => !has_ids,
            }
        });
        let can_be_index =
            ids.is_none() && (self.lost_indexes.iter()).any(|of| of.is_none_or(|of| of == fields));
        match (candidates.next(), candidates.next()) {
            (Some(table), None) if !can_be_index => Some(&table.name),
            _ => None,
        }
    }
}

/// Makes what depends on rows: indexes, then views and triggers.
fn make_others(parts: &[Row], rows: &Rows, saved: &mut Salvaged) {
    let of = |kind: &'static str| parts.iter().filter(move |part| part.kind == kind);
    for part in of("index").chain(of("view")).chain(of("trigger")) {
        let Some(sql) = &part.sql else {
            continue;
        };
        let made = match part.kind.as_str() {
            "index" => rows.create_index(&part.name, sql),
            _ => rows.create(sql),
        };
        if let Err(e) = made {
            let why = format!("the {} {}: {}", part.kind, part.name, e.message);
            saved.not_made.push(why);
        }
    }
    for (index, collation) in rows.unordered().unwrap_or_default() {
        saved.not_made.push(format!(
            "the order of the index {index}: only the application has the collation {collation}; run REINDEX there"
        ));
    }
}

/// Writes the new file.
fn write(
    api: Api,
    rows: &Rows,
    (temp, target): (&Temp, &Target),
    options: &ConvertOptions,
    wal: bool,
) -> Result<()> {
    let output = Arc::new(Output::new(temp, Through::Densite, &options.store)?);
    let of_sqlite = |e| crate::db::from_sqlite(&target.given, e);
    let into = LockedView::output(api, output.clone()).map_err(of_sqlite)?;
    let written = rows.write(&into.uri());
    written.map_err(|e| output.take_error().unwrap_or_else(|| failed(e)))?;
    output.finish(wal)
}

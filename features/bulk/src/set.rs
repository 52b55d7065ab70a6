//! A set of columns: batches of rows, sorted or in the order in which they were added.

use crate::chunk::Chunk;
use crate::gather;
use crate::order::{self, SortKey};
use crate::rows::{Place, Rows};
use crate::{Error, Result};
use densite_sqlite::ValueRef;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most columns of a set: the table-valued function declares this many.
pub const COLUMNS_MAX: usize = 999;

/// The number of rows between two calls of a set's [`Progress`].
pub(crate) const PROGRESS_ROWS: usize = 1 << 16;

/// Called with the number of rows read so far. Returning false stops the statement that reads them.
pub type Progress = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// Supplies the rows of a set, batch by batch.
pub trait Source: Send + Sync {
    /// The next batch: its number of rows, and a chunk for each column. `None` at the end.
    ///
    /// # Errors
    /// The source's own.
    fn next_batch(&mut self) -> Result<Option<(usize, Vec<Chunk>)>>;
}

/// Columns of one length, in batches.
#[derive(Default)]
pub struct Set {
    names: Vec<String>,
    rows: Rows,
    /// The sorted order of the rows; `None` if it is the order in which they were added.
    order: Option<Vec<Place>>,
    /// The columns of numbers, copied into that order. Reading them by place would wait for memory
    /// at each value.
    gathered: Vec<Option<Chunk>>,
    /// The row that was read last, in reading order.
    at: AtomicUsize,
    progress: Option<Progress>,
    /// The source of more rows, and the number of rows read from it so far.
    source: Option<(Box<dyn Source>, u64)>,
}

impl Set {
    /// A set without columns.
    pub fn new() -> Set {
        Set::default()
    }

    /// A set with columns of these names and no rows.
    ///
    /// # Errors
    /// [`Error::Type`] if there are too many columns.
    pub fn with_columns(names: Vec<String>) -> Result<Set> {
        if names.len() > COLUMNS_MAX {
            return Err(Error::Type(format!(
                "there are {} columns, and a set has {COLUMNS_MAX} at most; pass fewer",
                names.len()
            )));
        }
        Ok(Set {
            names,
            ..Set::default()
        })
    }

    /// A set with columns of these names, whose rows [`Set::read`] reads from a source.
    ///
    /// # Errors
    /// [`Error::Type`] if there are too many columns.
    pub fn from_source(names: Vec<String>, source: Box<dyn Source>) -> Result<Set> {
        Ok(Set {
            source: Some((source, 0)),
            ..Set::with_columns(names)?
        })
    }

    /// Drops the rows and reads whole batches from the source, until there are `rows_max` rows or
    /// more. Returns the number of rows; 0 at the end.
    ///
    /// # Errors
    /// The source's; [`Error::Value`] if SQLite cannot store a value; [`Error::Misuse`] if the set
    /// has no source.
    pub fn read(&mut self, rows_max: usize) -> Result<usize> {
        self.clear();
        let Some((mut source, mut first)) = self.source.take() else {
            return Err(Error::Misuse(
                "the columns come from no stream, or it failed".into(),
            ));
        };
        while self.rows.len() < rows_max {
            let Some((rows, columns)) = source.next_batch()? else {
                break;
            };
            self.add_batch(first, rows, columns)?;
            first += rows as u64;
        }
        self.source = Some((source, first));
        Ok(self.rows.len())
    }

    /// Adds a column to a set of one batch, or starts that batch.
    ///
    /// # Errors
    /// [`Error::Type`] if the column has another length; [`Error::Value`] if SQLite cannot store a
    /// value.
    pub fn add_column(&mut self, name: &str, chunk: Chunk) -> Result<()> {
        if self.names.len() == COLUMNS_MAX {
            return Err(Error::Type(format!(
                "a set has {COLUMNS_MAX} columns at most; pass fewer"
            )));
        }
        if self.rows.batches().len() > 1 || self.order.is_some() {
            return Err(Error::Misuse(
                "columns are added before batches and before sorting".into(),
            ));
        }
        if !self.names.is_empty() && chunk.rows != self.rows.len() {
            return Err(Error::Type(format!(
                "column {name} has {} rows, and those before it have {}; make them of one length",
                chunk.rows,
                self.rows.len()
            )));
        }
        chunk.check(name, 0)?;
        self.names.push(name.to_owned());
        self.rows.add_column(chunk);
        Ok(())
    }

    /// Adds rows: a chunk for each column. `first` is the number of the first row, for messages.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the number of columns differs; [`Error::Value`] if SQLite cannot store
    /// a value.
    pub fn add_batch(&mut self, first: u64, rows: usize, columns: Vec<Chunk>) -> Result<()> {
        if columns.len() != self.names.len() || u32::try_from(rows).is_err() {
            return Err(Error::Misuse("a batch does not fit the set".into()));
        }
        for (name, chunk) in self.names.iter().zip(&columns) {
            chunk.check(name, first)?;
        }
        self.order = None;
        self.rows.add_batch(first, rows, columns);
        Ok(())
    }

    /// Drops all rows but keeps the columns.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.order = None;
        self.gathered.clear();
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The types of a column's values, without NULL, as bits: 1 integer, 2 floating point, 4 text,
    /// 8 blob; 0 if there is no such column. May report extra types, never too few.
    pub fn types(&self, column: usize) -> u8 {
        let chunks = self.rows.chunks(column);
        chunks.fold(0, |types, chunk| types | chunk.types())
    }

    /// Whether a column has a NULL, or a NaN, which is stored as NULL. False if there is no such
    /// column.
    pub fn has_null(&self, column: usize) -> bool {
        self.rows.chunks(column).any(Chunk::has_null)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Sorts the rows by keys, the first key first. Equal rows keep their order. Returns whether
    /// the rows were already sorted.
    ///
    /// # Errors
    /// [`Error::Misuse`] if a key is not a column.
    pub fn sort(&mut self, keys: &[SortKey]) -> Result<bool> {
        if let Some(key) = keys.iter().find(|key| key.column >= self.names.len()) {
            return Err(Error::Misuse(format!(
                "there is no column {} to sort by",
                key.column
            )));
        }
        self.order = order::sorted(&self.rows, keys);
        let columns = 0..self.names.len();
        self.gathered = match &self.order {
            Some(order) => columns
                .map(|i| gather::numbers(&self.rows, order, i))
                .collect(),
            None => Vec::new(),
        };
        Ok(self.order.is_none())
    }

    /// Sets a function to be called every [`PROGRESS_ROWS`] rows.
    pub fn set_progress(&mut self, progress: Option<Progress>) {
        self.progress = progress;
    }

    /// The number of the row that was read last, in the caller's order.
    pub fn last_row(&self) -> u64 {
        self.rows.number(self.last_place())
    }

    /// A value of the row that was read last, as text.
    pub fn last_value(&self, column: usize) -> String {
        let place = self.last_place();
        match self.rows.chunk(place, column) {
            Some(chunk) if chunk.is_nan(place.row()) => {
                "NaN, which SQLite stores as NULL".to_owned()
            }
            Some(chunk) => chunk.get(place.row()).shown(),
            None => "none".to_owned(),
        }
    }

    /// The position of the row that was read last.
    fn last_place(&self) -> Place {
        let at = self.at.load(Ordering::Relaxed);
        match &self.order {
            Some(order) => order.get(at).copied().unwrap_or(Place::new(0, 0)),
            None => self.rows.place_of(at),
        }
    }

    pub(crate) fn batches(&self) -> &[(u64, Vec<Chunk>)] {
        self.rows.batches()
    }

    pub(crate) fn order(&self) -> Option<&[Place]> {
        self.order.as_deref()
    }

    #[inline]
    pub(crate) fn value(&self, place: Place, column: usize) -> ValueRef<'_> {
        self.rows.value(place, column)
    }

    /// A column that was copied into reading order.
    pub(crate) fn gathered(&self, column: usize) -> Option<&Chunk> {
        self.gathered.get(column)?.as_ref()
    }

    /// The number of rows of a batch.
    pub(crate) fn rows_of(&self, batch: usize) -> usize {
        self.rows.in_batch(batch)
    }

    #[inline]
    pub(crate) fn set_last(&self, ordinal: usize) {
        self.at.store(ordinal, Ordering::Relaxed);
    }

    /// Reports progress to the caller. Returns false to stop.
    pub(crate) fn report_progress(&self, rows: usize) -> bool {
        self.progress
            .as_ref()
            .is_none_or(|progress| progress(rows as u64))
    }
}

//! Sets of columns, by number.

use crate::arrow::Stream;
use crate::chunk::Chunk;
use crate::gather;
use crate::order::{self, SortKey};
use crate::{Error, Result};
use densite_disk::sync::Mutex;
use densite_sqlite::{PerProcess, ValueRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Columns that a set can have: the table-valued function declares that many.
pub const COLUMNS_MAX: usize = 999;

/// Between two calls of a set's [`Progress`], in rows.
pub(crate) const PROGRESS_ROWS: usize = 1 << 16;

/// Where a row lies: its batch, and its row in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) fn new(batch: usize, row: usize) -> Place {
        Place((batch as u64) << 32 | row as u64 & 0xffff_ffff)
    }

    pub(crate) fn batch(self) -> usize {
        usize::try_from(self.0 >> 32).unwrap_or(usize::MAX)
    }

    pub(crate) fn row(self) -> usize {
        usize::try_from(self.0 & 0xffff_ffff).unwrap_or(usize::MAX)
    }
}

/// Told how many rows were read; false stops the statement that reads them.
pub type Progress = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// Columns of one length, in batches.
#[derive(Default)]
pub struct Set {
    names: Vec<String>,
    /// The columns of each batch, and its first row's number.
    batches: Vec<(u64, Vec<Chunk>)>,
    rows: usize,
    /// The rows in another order than their own.
    order: Option<Vec<Place>>,
    /// The columns of numbers in that order: reading them by place would wait for memory at every value.
    gathered: Vec<Option<Chunk>>,
    /// The row that was read last, counted in the order of reading.
    at: AtomicUsize,
    progress: Option<Progress>,
    /// Where more rows come from, and how many came.
    source: Option<(Stream, u64)>,
}

impl Set {
    /// A set without columns.
    pub fn new() -> Set {
        Set::default()
    }

    /// A set with columns of these names and no rows.
    ///
    /// # Errors
    /// [`Error::Type`] for too many.
    pub fn with_columns(names: Vec<String>) -> Result<Set> {
        if names.len() > COLUMNS_MAX {
            return Err(Error::Type(format!(
                "there are {} columns, and a set has {COLUMNS_MAX} at most; hand over fewer",
                names.len()
            )));
        }
        Ok(Set {
            names,
            ..Set::default()
        })
    }

    /// A set of a stream's columns, whose rows [`Set::read`] brings.
    ///
    /// # Errors
    /// [`Error::Type`] for too many columns.
    pub fn from_stream(stream: Stream) -> Result<Set> {
        let names = stream
            .fields()
            .iter()
            .map(|field| field.name.clone())
            .collect();
        Ok(Set {
            source: Some((stream, 0)),
            ..Set::with_columns(names)?
        })
    }

    /// Drops the rows and reads more of the stream: whole batches, until there are `rows_max` rows or more. Answers how many; 0 at the end.
    ///
    /// # Errors
    /// The stream's; [`Error::Value`] for a value that SQLite cannot store; [`Error::Misuse`] for a set without a stream.
    pub fn read(&mut self, rows_max: usize) -> Result<usize> {
        self.clear();
        let Some((mut stream, mut first)) = self.source.take() else {
            return Err(Error::Misuse(
                "the columns come from no stream, or it failed".into(),
            ));
        };
        while self.rows < rows_max {
            let Some((rows, columns)) = stream.next_batch()? else {
                break;
            };
            self.add_batch(first, rows, columns)?;
            first += rows as u64;
        }
        self.source = Some((stream, first));
        Ok(self.rows)
    }

    /// Adds a column to a set of one batch, or begins it.
    ///
    /// # Errors
    /// [`Error::Type`] for a column of another length, [`Error::Value`] for a value that SQLite cannot store.
    pub fn add_column(&mut self, name: &str, chunk: Chunk) -> Result<()> {
        if self.names.len() == COLUMNS_MAX {
            return Err(Error::Type(format!(
                "a set has {COLUMNS_MAX} columns at most; hand over fewer"
            )));
        }
        if self.batches.len() > 1 || self.order.is_some() {
            return Err(Error::Misuse(
                "columns are added before batches and before sorting".into(),
            ));
        }
        if !self.names.is_empty() && chunk.rows != self.rows {
            return Err(Error::Type(format!(
                "column {name} has {} rows, and those before it have {}; make them of one length",
                chunk.rows, self.rows
            )));
        }
        chunk.check(name, 0)?;
        self.rows = chunk.rows;
        self.names.push(name.to_owned());
        match self.batches.first_mut() {
            Some((_, columns)) => columns.push(chunk),
            None => self.batches.push((0, vec![chunk])),
        }
        Ok(())
    }

    /// Adds rows: a chunk for each column. `first` is the number of the first of them, for messages.
    ///
    /// # Errors
    /// [`Error::Misuse`] for another number of columns, [`Error::Value`] for a value that SQLite cannot store.
    pub fn add_batch(&mut self, first: u64, rows: usize, columns: Vec<Chunk>) -> Result<()> {
        if columns.len() != self.names.len() || u32::try_from(rows).is_err() {
            return Err(Error::Misuse("a batch does not fit the set".into()));
        }
        for (name, chunk) in self.names.iter().zip(&columns) {
            chunk.check(name, first)?;
        }
        self.order = None;
        self.rows += rows;
        if rows > 0 {
            self.batches.push((first, columns));
        }
        Ok(())
    }

    /// Drops all rows; the columns stay.
    pub fn clear(&mut self) {
        self.batches.clear();
        self.rows = 0;
        self.order = None;
        self.gathered.clear();
    }

    /// The columns' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The types of the values of a column, NULL aside, as bits: 1 integer, 2 floating point, 4 text, 8 blob; 0 where there is no such column. None that
    /// one of its rows has is missing.
    pub fn types(&self, column: usize) -> u8 {
        let chunks = self
            .batches
            .iter()
            .filter_map(|(_, columns)| columns.get(column));
        chunks.fold(0, |types, chunk| types | chunk.types())
    }

    /// Whether a value of a column is NULL, or NaN, which is stored as that; no where there is no such column.
    pub fn has_null(&self, column: usize) -> bool {
        let mut chunks = self
            .batches
            .iter()
            .filter_map(|(_, columns)| columns.get(column));
        chunks.any(Chunk::has_null)
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Sorts the rows by keys, the first key first; equal ones stay in their order. Answers whether they were sorted already.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a key that is no column.
    pub fn sort(&mut self, keys: &[SortKey]) -> Result<bool> {
        if let Some(key) = keys.iter().find(|key| key.column >= self.names.len()) {
            return Err(Error::Misuse(format!(
                "there is no column {} to sort by",
                key.column
            )));
        }
        self.order = order::sorted(self, keys);
        let columns = 0..self.names.len();
        self.gathered = match &self.order {
            Some(order) => columns.map(|i| gather::numbers(self, order, i)).collect(),
            None => Vec::new(),
        };
        Ok(self.order.is_none())
    }

    /// Has a function called every so many rows.
    pub fn set_progress(&mut self, progress: Option<Progress>) {
        self.progress = progress;
    }

    /// The number of the row that was read last, as the caller handed them in.
    pub fn last_row(&self) -> u64 {
        let place = self.place_of(self.at.load(Ordering::Relaxed));
        let first = self
            .batches
            .get(place.batch())
            .map_or(0, |(first, _)| *first);
        first + place.row() as u64
    }

    /// The value of the row that was read last, in words.
    pub fn last_value(&self, column: usize) -> String {
        let place = self.place_of(self.at.load(Ordering::Relaxed));
        let chunk = self
            .batches
            .get(place.batch())
            .and_then(|(_, columns)| columns.get(column));
        match chunk {
            Some(chunk) if chunk.is_nan(place.row()) => {
                "NaN, which SQLite stores as NULL".to_owned()
            }
            Some(chunk) => chunk.get(place.row()).shown(),
            None => "none".to_owned(),
        }
    }

    pub(crate) fn batches(&self) -> &[(u64, Vec<Chunk>)] {
        &self.batches
    }

    pub(crate) fn order(&self) -> Option<&[Place]> {
        self.order.as_deref()
    }

    #[inline]
    pub(crate) fn value(&self, place: Place, column: usize) -> ValueRef<'_> {
        let chunk = self
            .batches
            .get(place.batch())
            .and_then(|(_, columns)| columns.get(column));
        chunk.map_or(ValueRef::Null, |chunk| chunk.get(place.row()))
    }

    /// A column that was copied in the order of reading.
    pub(crate) fn gathered(&self, column: usize) -> Option<&Chunk> {
        self.gathered.get(column)?.as_ref()
    }

    /// Where the row lies that is read as the one at `ordinal`.
    pub(crate) fn place_of(&self, ordinal: usize) -> Place {
        if let Some(order) = &self.order {
            return order.get(ordinal).copied().unwrap_or(Place::new(0, 0));
        }
        let mut row = ordinal;
        for batch in 0..self.batches.len() {
            match row.checked_sub(self.rows_of(batch)) {
                Some(beyond) => row = beyond,
                None => return Place::new(batch, row),
            }
        }
        Place::new(self.batches.len(), 0)
    }

    pub(crate) fn rows_of(&self, batch: usize) -> usize {
        let columns = self.batches.get(batch).map(|(_, columns)| columns);
        columns
            .and_then(|columns| columns.first())
            .map_or(0, |chunk| chunk.rows)
    }

    #[inline]
    pub(crate) fn set_last(&self, ordinal: usize) {
        self.at.store(ordinal, Ordering::Relaxed);
    }

    /// Tells how far reading is; false to stop.
    pub(crate) fn report_progress(&self, rows: usize) -> bool {
        self.progress
            .as_ref()
            .is_none_or(|progress| progress(rows as u64))
    }
}

/// The sets that are registered.
pub mod sets {
    use super::*;

    static NEXT: AtomicI64 = AtomicI64::new(1);
    /// A child after a fork begins with none: its parent's memory may be changing at the moment that was copied.
    static SETS: PerProcess<Mutex<BTreeMap<i64, Arc<Set>>>> = PerProcess::new();

    /// Registers a set and answers its number.
    pub fn add(set: Set) -> i64 {
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        SETS.get().lock().insert(handle, Arc::new(set));
        handle
    }

    /// The set of a number.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is none.
    pub fn get(handle: i64) -> Result<Arc<Set>> {
        SETS.get()
            .lock()
            .get(&handle)
            .cloned()
            .ok_or_else(|| unknown(handle))
    }

    /// Changes a set that nobody reads.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is none, [`Error::Busy`] while a statement reads it; the function's.
    pub fn change<T>(handle: i64, change: impl FnOnce(&mut Set) -> Result<T>) -> Result<T> {
        /// Puts the set back, after a panic too: whoever made it still has to release it.
        struct Taken(i64, Option<Arc<Set>>);
        impl Drop for Taken {
            fn drop(&mut self) {
                SETS.get()
                    .lock()
                    .extend(self.1.take().map(|set| (self.0, set)));
            }
        }
        // Out of the map meanwhile: a change may take long, and may call the producer of a stream.
        let mut taken = Taken(handle, Some(take(handle)?));
        match taken.1.as_mut().and_then(Arc::get_mut) {
            Some(set) => change(set),
            None => Err(busy()),
        }
    }

    /// Drops a set.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is none, [`Error::Busy`] while a statement reads it: then it stays.
    pub fn release(handle: i64) -> Result<()> {
        let set = take(handle)?;
        match Arc::try_unwrap(set) {
            Ok(set) => {
                drop(set);
                Ok(())
            }
            Err(set) => {
                SETS.get().lock().insert(handle, set);
                Err(busy())
            }
        }
    }

    fn take(handle: i64) -> Result<Arc<Set>> {
        SETS.get()
            .lock()
            .remove(&handle)
            .ok_or_else(|| unknown(handle))
    }

    fn unknown(handle: i64) -> Error {
        Error::Misuse(format!(
            "there are no columns with the handle {handle} in this process; they were released, or registered by its parent before a fork"
        ))
    }

    fn busy() -> Error {
        Error::Busy("the columns are read by a statement; finish or reset it first".into())
    }
}

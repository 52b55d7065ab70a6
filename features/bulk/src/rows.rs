//! The rows of a set of columns, in batches, and the position of each row.

use crate::chunk::Chunk;
use densite_sqlite::ValueRef;

/// The position of a row: its batch, and its row in that batch.
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

/// Rows in the order in which they were added.
#[derive(Default)]
pub(crate) struct Rows {
    /// The columns of each batch, with the number of its first row.
    batches: Vec<(u64, Vec<Chunk>)>,
    len: usize,
}

impl Rows {
    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn batches(&self) -> &[(u64, Vec<Chunk>)] {
        &self.batches
    }

    /// The number of rows of a batch.
    pub(crate) fn in_batch(&self, batch: usize) -> usize {
        let columns = self.batches.get(batch).map(|(_, columns)| columns);
        columns
            .and_then(|columns| columns.first())
            .map_or(0, |chunk| chunk.rows)
    }

    /// The chunks of a column, one for each batch.
    pub(crate) fn chunks(&self, column: usize) -> impl Iterator<Item = &Chunk> {
        self.batches
            .iter()
            .filter_map(move |(_, columns)| columns.get(column))
    }

    /// The chunk of a column that has a row.
    #[inline]
    pub(crate) fn chunk(&self, place: Place, column: usize) -> Option<&Chunk> {
        let (_, columns) = self.batches.get(place.batch())?;
        columns.get(column)
    }

    #[inline]
    pub(crate) fn value(&self, place: Place, column: usize) -> ValueRef<'_> {
        let chunk = self.chunk(place, column);
        chunk.map_or(ValueRef::Null, |chunk| chunk.get(place.row()))
    }

    /// The number of a row, in the caller's order.
    pub(crate) fn number(&self, place: Place) -> u64 {
        let batch = self.batches.get(place.batch());
        batch.map_or(0, |(first, _)| *first) + place.row() as u64
    }

    /// The position of the row that was added as number `ordinal`.
    pub(crate) fn place_of(&self, ordinal: usize) -> Place {
        let mut row = ordinal;
        for batch in 0..self.batches.len() {
            match row.checked_sub(self.in_batch(batch)) {
                Some(beyond) => row = beyond,
                None => return Place::new(batch, row),
            }
        }
        Place::new(self.batches.len(), 0)
    }

    /// Adds a column to the only batch, or starts that batch. The caller has checked its length.
    pub(crate) fn add_column(&mut self, chunk: Chunk) {
        self.len = chunk.rows;
        match self.batches.first_mut() {
            Some((_, columns)) => columns.push(chunk),
            None => self.batches.push((0, vec![chunk])),
        }
    }

    /// Adds a batch of `rows` rows. `first` is the number of its first row.
    pub(crate) fn add_batch(&mut self, first: u64, rows: usize, columns: Vec<Chunk>) {
        self.len += rows;
        if rows > 0 {
            self.batches.push((first, columns));
        }
    }

    /// Drops all rows.
    pub(crate) fn clear(&mut self) {
        self.batches.clear();
        self.len = 0;
    }
}

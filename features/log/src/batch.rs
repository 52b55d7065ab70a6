//! A batch to which rows can be added. [`crate::encoded`] has its stored form.

use crate::Result;
use crate::encoded::EncodedBatch;
use crate::op::Op;
use crate::rows::{Payload, Rows, RowsBuilder, TEXTUAL, Value};
use crate::table::Table;
use std::sync::Arc;

/// Mean bytes of text of a value from which on rows are mostly text.
const MOSTLY_TEXT: usize = 16;

/// Rows of one table with one operation.
#[derive(Debug, Clone)]
pub struct Batch {
    table: Arc<Table>,
    op: Op,
    rows: RowsBuilder,
}

impl Batch {
    /// An empty batch.
    pub fn new(table: &Arc<Table>, op: Op) -> Batch {
        Batch {
            table: table.clone(),
            op,
            rows: RowsBuilder::new(table.columns().len()),
        }
    }

    /// A batch of the first `rows` rows of an encoded batch. A rollback to a savepoint needs it.
    ///
    /// # Errors
    /// `Limit` if there is not enough memory.
    pub fn of_first(rows: usize, encoded: &EncodedBatch) -> Result<Batch> {
        let all = encoded.rows()?;
        let mut batch = Batch::new(encoded.table(), encoded.op());
        let mut values = Vec::with_capacity(all.columns());
        for row in 0..rows.min(all.len()) {
            values.clear();
            values.extend(all.row(row));
            batch.push(&values)?;
        }
        Ok(batch)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// `WrongColumns` if the number of values differs from the number of columns. The row is then
    /// not added.
    pub fn push(&mut self, row: &[Value<'_>]) -> Result<()> {
        self.table.check(row)?;
        self.rows.push(row);
        Ok(())
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row yet.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// The rows so far, for reading them before they are appended.
    pub fn rows(&self) -> Option<Rows> {
        let mut payload = self.rows.encode();
        payload.shrink_to_fit();
        Rows::decode(Payload::Own(payload), self.rows.len())
    }

    /// The rows so far, as the log stores them.
    ///
    /// # Errors
    /// `TooLarge` for more than 1 GiB; `Limit` for more than 16,777,216 rows.
    pub fn encode(&self) -> Result<EncodedBatch> {
        EncodedBatch::of_rows(&self.table, self.op, &self.rows, TEXTUAL)
    }

    /// As [`Batch::encode`], for rows that are soon removed again: they are compressed only if they
    /// are mostly text. Otherwise it takes longer than it takes to write them.
    ///
    /// # Errors
    /// As [`Batch::encode`].
    pub fn encode_for_a_while(&self) -> Result<EncodedBatch> {
        EncodedBatch::of_rows(&self.table, self.op, &self.rows, MOSTLY_TEXT)
    }

    /// Removes all rows, and keeps their memory for others.
    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// Bytes of memory that rows can take without more memory.
    pub fn capacity(&self) -> usize {
        self.rows.capacity()
    }

    /// The table that the rows belong to.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The operation of these rows.
    pub fn op(&self) -> Op {
        self.op
    }

    /// Drops the rows from this one on, for a rollback to a savepoint.
    pub fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
    }

    /// Upper bound of the bytes that the rows take in the log.
    pub fn bytes_max(&self) -> u64 {
        self.rows.bytes_max()
    }
}

//! The rows of a transaction until it is appended or stored, in their order.
//!
//! All batches except the last one are encoded. So a row is in memory once, in the form that the
//! log stores. The log and the connection's own reads share that memory.

use crate::rows::savepoints::Mark;
use densite_log::{Batch, EncodedBatch, Error, Op, Result, Rows, Table, Txn, TxnId, Value};
use std::sync::Arc;

/// The most rows of a batch, which is one record of the log.
const BATCH_ROWS: usize = 8192;
/// The most bytes of a batch, because readers of the log hold whole records in memory. A larger row
/// is encoded by itself.
const BATCH_BYTES: u64 = 4 << 20;
/// The log takes transactions of up to 1 GiB. This limit is lower, so that INSERT already fails.
const TXN_BYTES: u64 = 1000 << 20;
/// The most rows and bytes that each read encodes again. A read ends a longer batch.
const READ_ROWS: usize = 512;
const READ_BYTES: u64 = 64 << 10;

/// The most bytes that an empty batch keeps for the next transaction.
const SPARE_BYTES: usize = 64 << 10;

/// An encoded batch, and an upper bound of the bytes up to its end, which count for the
/// transaction's limit.
struct Done {
    batch: Arc<EncodedBatch>,
    used: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Pending {
    done: Vec<Done>,
    /// The last batch, if it can get more rows.
    open: Option<Batch>,
    /// An empty batch, whose memory the next one of the same table and operation takes over.
    spare: Option<Batch>,
    /// Rows are stored for a while only.
    is_for_a_while: bool,
    /// Number of all rows.
    rows: u64,
    /// A rollback to a savepoint failed.
    is_broken: bool,
}

fn is_full(batch: &Batch) -> bool {
    batch.len() >= BATCH_ROWS || batch.bytes_max() >= BATCH_BYTES
}

impl Pending {
    /// For rows that are stored for a while only.
    pub(crate) fn for_a_while() -> Pending {
        Pending {
            is_for_a_while: true,
            ..Pending::default()
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of batches.
    pub(crate) fn batches(&self) -> usize {
        self.done.len() + usize::from(self.open.is_some())
    }

    /// Number of rows of a batch; 0 if there is no such batch.
    pub(crate) fn len(&self, batch: usize) -> usize {
        match self.done.get(batch) {
            Some(done) => done.batch.len(),
            None if batch == self.done.len() => self.open.as_ref().map_or(0, Batch::len),
            None => 0,
        }
    }

    /// Where the rows end now.
    pub(crate) fn mark(&self) -> Mark {
        let batches = self.batches();
        Mark {
            batches,
            rows: batches.checked_sub(1).map_or(0, |last| self.len(last)),
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// `TooLarge` if the transaction would exceed the log's limit; then the row is not added.
    /// `WrongColumns`, `Limit`.
    pub(crate) fn push(&mut self, table: &Arc<Table>, op: Op, row: &[Value<'_>]) -> Result<()> {
        let is_other = |b: &Batch| b.op() != op || !Arc::ptr_eq(b.table(), table) || is_full(b);
        let bytes = row.iter().map(Value::bytes).sum::<usize>() as u64;
        if bytes >= BATCH_BYTES || self.open.as_ref().is_some_and(is_other) {
            self.close()?;
        }
        let open = self.open.as_ref().map_or(0, Batch::bytes_max);
        let used = self.used() + open + bytes;
        if used > TXN_BYTES {
            return Err(Error::TooLarge {
                bytes: used,
                max: TXN_BYTES,
            });
        }
        if bytes >= BATCH_BYTES {
            self.add(EncodedBatch::of_row(table, op, row)?, bytes);
        } else {
            let fits = |b: &mut Batch| b.op() == op && Arc::ptr_eq(b.table(), table);
            let spare = &mut self.spare;
            let fresh = || spare.take_if(fits).unwrap_or_else(|| Batch::new(table, op));
            let open = self.open.get_or_insert_with(fresh);
            open.push(row)?;
        }
        self.rows += 1;
        Ok(())
    }

    fn used(&self) -> u64 {
        self.done.last().map_or(0, |done| done.used)
    }

    fn add(&mut self, batch: EncodedBatch, bytes: u64) {
        // In short batches, the records take more bytes than the rows.
        let used = self.used() + bytes.max(batch.stored_max());
        let batch = Arc::new(batch);
        self.done.push(Done { batch, used });
    }

    /// Encodes the last batch.
    fn close(&mut self) -> Result<()> {
        // A batch whose rows were all removed is dropped.
        self.open.take_if(|batch| batch.is_empty());
        if let Some(batch) = &self.open {
            let encoded = match self.is_for_a_while {
                true => batch.encode_for_a_while()?,
                false => batch.encode()?,
            };
            let bytes = batch.bytes_max();
            self.spare = self.open.take();
            self.spare.iter_mut().for_each(Batch::clear);
            self.add(encoded, bytes);
        }
        Ok(())
    }

    /// Removes the rows behind a mark.
    ///
    /// # Errors
    /// `Limit` if there is not enough memory. Then the rows cannot be appended.
    pub(crate) fn truncate(&mut self, to: Mark) -> Result<()> {
        let cut = self.cut(to);
        self.is_broken = cut.is_err();
        let done = self.done.iter().map(|done| done.batch.len() as u64);
        self.rows = done.sum::<u64>() + self.open.as_ref().map_or(0, Batch::len) as u64;
        cut
    }

    fn cut(&mut self, to: Mark) -> Result<()> {
        if to.batches > self.done.len() {
            if let Some(open) = &mut self.open {
                open.truncate(to.rows);
            }
            return Ok(());
        }
        self.open = None;
        self.done.truncate(to.batches);
        if let Some(last) = self.done.last()
            && last.batch.len() > to.rows
        {
            let open = Batch::of_first(to.rows, &last.batch)?;
            self.done.pop();
            self.open = Some(open);
        }
        Ok(())
    }

    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        let mut spare = self.open.take().or_else(|| self.spare.take());
        spare.take_if(|batch| batch.capacity() > SPARE_BYTES);
        spare.iter_mut().for_each(Batch::clear);
        self.done.clear();
        self.done.shrink_to(16);
        *self = Pending {
            done: std::mem::take(&mut self.done),
            spare,
            is_for_a_while: self.is_for_a_while,
            ..Pending::default()
        };
    }

    /// All rows as a transaction of the log.
    ///
    /// # Errors
    /// `TooLarge`, `Limit`.
    pub(crate) fn txn(&mut self, id: TxnId) -> Result<Txn> {
        let mut txn = Txn::new(id);
        for batch in self.encoded()? {
            txn.push_encoded(batch)?;
        }
        Ok(txn)
    }

    /// All rows, encoded.
    ///
    /// # Errors
    /// `TooLarge`, `Limit`.
    pub(crate) fn encoded(&mut self) -> Result<Vec<Arc<EncodedBatch>>> {
        if self.is_broken {
            return Err(Error::Limit(
                "there was not enough memory to roll back to a savepoint; roll the transaction back",
            ));
        }
        self.close()?;
        Ok(self.done.iter().map(|done| done.batch.clone()).collect())
    }

    /// Makes reads share the transaction's memory from now on, unless the batch is small.
    ///
    /// # Errors
    /// `Limit` if there is not enough memory.
    pub(crate) fn share_memory(&mut self) -> Result<()> {
        let is_long = |b: &Batch| b.len() >= READ_ROWS || b.bytes_max() >= READ_BYTES;
        match self.open.as_ref().is_some_and(is_long) {
            true => self.close(),
            false => Ok(()),
        }
    }

    /// The table and the operation of a batch.
    pub(crate) fn kind(&self, batch: usize) -> Option<(&Arc<Table>, Op)> {
        match self.done.get(batch) {
            Some(done) => Some((done.batch.table(), done.batch.op())),
            None if batch == self.done.len() => self.open.as_ref().map(|b| (b.table(), b.op())),
            None => None,
        }
    }

    /// The rows of a batch.
    ///
    /// # Errors
    /// `Limit` if there is not enough memory.
    pub(crate) fn rows_of(&self, batch: usize) -> Result<Option<Rows>> {
        match self.done.get(batch) {
            Some(done) => done.batch.rows().map(Some),
            None if batch == self.done.len() => Ok(self.open.as_ref().and_then(Batch::rows)),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    /// A row for comparison: table number, operation, id and length.
    type Row = (u8, Op, i64, usize);

    fn tables() -> [Arc<Table>; 2] {
        let table = |note: u8| Table::new("t", ["id", "v"], 1, [note]).expect("a table");
        [table(0), table(1)]
    }

    fn all(pending: &Pending) -> Vec<Row> {
        let mut all = Vec::new();
        for batch in 0..pending.batches() {
            let Some(rows) = pending.rows_of(batch).expect("it is read") else {
                continue;
            };
            assert_eq!(rows.len(), pending.len(batch));
            let (table, op) = pending.kind(batch).expect("a table");
            let note = table.note()[0];
            for row in 0..rows.len() {
                let values: Vec<Value<'_>> = rows.row(row).collect();
                let [Value::Int(id), Value::Blob(v)] = values[..] else {
                    panic!("not what was pushed: {values:?}");
                };
                all.push((note, op, id, v.len()));
            }
        }
        all
    }

    #[test]
    fn random_rows_marks_and_reads_keep_the_rows() {
        for seed in 0..40 {
            let r = &mut StdRng::seed_from_u64(seed);
            let tables = tables();
            let (mut pending, mut model) = (Pending::default(), Vec::new());
            let mut marks: Vec<(Mark, usize)> = Vec::new();
            let bytes = vec![b'x'; BATCH_BYTES as usize + 9];
            for step in 0..200 {
                match r.random_range(0..10) {
                    0 => marks.push((pending.mark(), model.len())),
                    1 if !marks.is_empty() => {
                        marks.truncate(r.random_range(1..=marks.len()));
                        let (mark, rows) = marks[marks.len() - 1];
                        pending.truncate(mark).expect("they are taken back");
                        model.truncate(rows);
                    }
                    2 => pending.share_memory().expect("it is encoded"),
                    3 => drop(pending.txn(TxnId(1)).expect("a transaction")),
                    _ => {
                        let (table, op) = match r.random_range(0..3) {
                            0 => (r.random_range(0..2), Op::Update),
                            _ => (0, Op::Insert),
                        };
                        let some = [1, 20, 3 * BATCH_ROWS / 2][r.random_range(0..3)];
                        let len = match (some, r.random_range(0..20)) {
                            (1, 0) => bytes.len(),
                            (20, _) => 300_000,
                            (rows, _) => r.random_range(0..60_000 / rows),
                        };
                        for row in 0..some {
                            let id = step * 100_000 + row as i64;
                            let values = [Value::Int(id), Value::Blob(&bytes[..len])];
                            let pushed = pending.push(&tables[table], op, &values);
                            pushed.expect("it is taken");
                            model.push((table as u8, op, id, len));
                        }
                    }
                }
                assert_eq!(pending.rows(), model.len() as u64, "seed {seed}");
            }
            assert!(all(&pending) == model, "seed {seed}");
            let txn = pending.txn(TxnId(1)).expect("a transaction");
            assert_eq!(txn.rows(), model.len() as u64, "seed {seed}");
            assert!(all(&pending) == model, "seed {seed}");
            let is_full = |i: &usize| pending.done[*i].batch.bytes() as u64 > 2 * BATCH_BYTES;
            assert_eq!((0..pending.done.len()).find(is_full), None, "seed {seed}");
        }
    }

    #[test]
    fn the_row_that_makes_a_transaction_too_large_is_refused() {
        let [table, _] = tables();
        let mut pending = Pending::default();
        let bytes = vec![b'x'; 100 << 20];
        let row = [Value::Int(1), Value::Text(&bytes)];
        for _ in 0..9 {
            pending.push(&table, Op::Insert, &row).expect("it is taken");
        }
        let error = pending.push(&table, Op::Insert, &row);
        assert!(error.is_ok(), "{error:?}");
        let mark = pending.mark();
        let error = pending.push(&table, Op::Insert, &row);
        assert!(matches!(error, Err(Error::TooLarge { .. })), "{error:?}");
        assert_eq!(pending.mark(), mark);
        assert_eq!(pending.txn(TxnId(1)).expect("a transaction").rows(), 10);
    }

    #[test]
    fn short_batches_count_by_the_size_of_their_records() {
        let [table, other] = tables();
        let mut pending = Pending::default();
        let row = [Value::Int(1), Value::Null];
        for i in 0..1000 {
            let table = if i % 2 == 0 { &table } else { &other };
            pending.push(table, Op::Insert, &row).expect("it is taken");
        }
        let stored = pending.txn(TxnId(1)).expect("a transaction");
        assert!(pending.used() >= 72 * 1000, "{}", pending.used());
        assert_eq!(stored.rows(), 1000);
    }
}

//! Values of unapplied rows, as the log packs them, found by the row's number.
//!
//! Large batches are kept as they were read. Rows of small batches are packed again, so that the
//! cost of a row does not depend on the batches. In both cases, key columns that the codes contain
//! ([`Code::integer`]) are left out, so that integers of the key are not stored twice.

use super::packed::Item;
use crate::schema::affinity::from_log;
use crate::schema::key_code::Code;
use densite_log::{Batch, Op, Record, Rows, Seq, Table, Value};
use densite_sqlite::ValueRef;
use std::sync::Arc;

/// A batch with at least this many rows or bytes is kept as it was read.
const KEEP_ROWS: usize = 512;
const KEEP_BYTES: usize = 64 << 10;
/// The most rows and bytes that are packed together.
const PACK_ROWS: usize = 2048;
const PACK_BYTES: usize = 128 << 10;

/// Rows packed together, in the order of their numbers.
struct Chunk {
    first: Seq,
    last: Seq,
    /// What to add to `first` for each row's number; empty if the numbers are consecutive.
    offsets: Box<[u32]>,
    rows: Rows,
    /// The first rows belong to an earlier chunk.
    skip: usize,
    /// Number of first columns of the key that are not in `rows`.
    said: usize,
}

/// The place of a row's values.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    rows: &'a Rows,
    row: usize,
    said: usize,
}

impl<'a> Found<'a> {
    /// A value, by its index in the log's order of columns. `code` is the row's code, and the key
    /// has `key_columns` columns.
    pub(crate) fn value(self, column: usize, code: Code, key_columns: usize) -> ValueRef<'a> {
        match column.checked_sub(self.said) {
            Some(column) => value(self.rows, self.row, column),
            None => {
                let said = code.integer(key_columns, column);
                said.map_or(ValueRef::Null, ValueRef::Integer)
            }
        }
    }
}

/// How many of a record's first columns the codes of its rows contain.
fn said(record: &Record, items: &[Item]) -> usize {
    let columns = record.table.key_columns();
    let is_said = |column: &usize| {
        let mut rows = (record.skip..record.rows.len()).zip(items);
        rows.all(|(row, item)| {
            let said = item.code.integer(columns, *column);
            said.is_some_and(|n| record.rows.get(row, *column) == Some(Value::Int(n)))
        })
    };
    (0..columns).take_while(is_said).count()
}

impl Chunk {
    fn new(seqs: &[Seq], rows: Rows) -> Option<Chunk> {
        let (first, last) = (*seqs.first()?, *seqs.last()?);
        let follow = last - first + 1 == seqs.len() as u64;
        let offsets = seqs.iter().map(|s| u32::try_from(s - first));
        Some(Chunk {
            first,
            last,
            offsets: match follow {
                true => Box::default(),
                false => offsets.collect::<Result<_, _>>().ok()?,
            },
            rows,
            skip: 0,
            said: 0,
        })
    }

    /// Drops the columns that codes contain. Small chunks keep them, so that they can be joined
    /// with others.
    fn without_said(mut self, said: usize) -> Chunk {
        if said > 0
            && self.rows.len() >= KEEP_ROWS
            && let Some(rows) = self.rows.without_first(said)
        {
            (self.rows, self.said) = (rows, said);
        }
        self
    }

    fn find(&self, seq: Seq) -> Option<usize> {
        let offset = seq.checked_sub(self.first)?;
        match self.offsets.is_empty() {
            true => usize::try_from(offset).ok(),
            false => self
                .offsets
                .binary_search(&u32::try_from(offset).ok()?)
                .ok(),
        }
    }

    fn is_small(&self) -> bool {
        self.rows.len() < KEEP_ROWS && self.rows.bytes() < KEEP_BYTES
    }

    /// This chunk joined with the next one, if both are small enough.
    fn joined(&self, next: &Chunk, table: &Arc<Table>, op: Op) -> Option<Chunk> {
        let fits = self.said + next.said == 0
            && self.rows.len() + next.rows.len() <= PACK_ROWS
            && self.rows.bytes() + next.rows.bytes() <= PACK_BYTES
            && next.last - self.first <= u64::from(u32::MAX);
        if !fits {
            return None;
        }
        let mut packer = Packer::default();
        for chunk in [self, next] {
            for row in chunk.skip..chunk.rows.len() {
                let offset = chunk.offsets.get(row).map_or(row as u64, |o| u64::from(*o));
                packer.add(table, op, chunk.first + offset, &chunk.rows, row);
            }
        }
        packer.finish()
    }
}

/// Collects rows to pack them again.
#[derive(Default)]
struct Packer {
    batch: Option<Batch>,
    seqs: Vec<Seq>,
    /// Number of columns that the codes of all its rows contain; unknown without rows.
    said: Option<usize>,
}

impl Packer {
    fn add(&mut self, table: &Arc<Table>, op: Op, seq: Seq, rows: &Rows, row: usize) {
        let batch = self.batch.get_or_insert_with(|| Batch::new(table, op));
        let values: Vec<Value<'_>> = rows.row(row).collect();
        if batch.push(&values).is_ok() {
            self.seqs.push(seq);
        }
    }

    fn is_full(&self) -> bool {
        let bytes = self.batch.as_ref().map_or(0, Batch::bytes_max);
        self.seqs.len() >= PACK_ROWS || bytes >= PACK_BYTES as u64
    }

    fn finish(&mut self) -> Option<Chunk> {
        let rows = self.batch.take()?.rows()?;
        let said = self.said.take().unwrap_or(0);
        let chunk = Chunk::new(&std::mem::take(&mut self.seqs), rows)?;
        Some(chunk.without_said(said))
    }
}

/// All rows of a run with the same table of the log and the same operation.
pub(crate) struct Kind {
    pub(crate) table: Arc<Table>,
    pub(crate) op: Op,
    chunks: Vec<Arc<Chunk>>,
    /// The first number of each chunk.
    firsts: Vec<Seq>,
}

impl Kind {
    fn new(table: &Arc<Table>, op: Op) -> Kind {
        Kind {
            table: table.clone(),
            op,
            chunks: Vec::new(),
            firsts: Vec::new(),
        }
    }

    pub(crate) fn is(&self, table: &Arc<Table>, op: Op) -> bool {
        self.op == op && (Arc::ptr_eq(&self.table, table) || self.table == *table)
    }

    fn push(&mut self, chunk: Arc<Chunk>) {
        self.firsts.push(chunk.first);
        self.chunks.push(chunk);
    }

    /// Finds a row's values.
    pub(crate) fn find(&self, seq: Seq) -> Option<Found<'_>> {
        let place = self.firsts.partition_point(|first| *first <= seq);
        let chunk = self.chunks.get(place.checked_sub(1)?)?;
        Some(Found {
            rows: &chunk.rows,
            row: chunk.find(seq)?,
            said: chunk.said,
        })
    }

    /// The number of chunks, and their bytes.
    #[cfg(test)]
    pub(crate) fn chunks(&self) -> (usize, usize) {
        let bytes = self.chunks.iter().map(|chunk| chunk.rows.bytes());
        (self.chunks.len(), bytes.sum())
    }

    /// The rows of this kind and of a newer one, which follows in the log.
    fn followed_by(&self, newer: &Kind) -> Kind {
        let mut kind = Kind {
            table: self.table.clone(),
            op: self.op,
            chunks: self.chunks.clone(),
            firsts: self.firsts.clone(),
        };
        let mut newer = newer.chunks.iter();
        if let (Some(last), Some(next)) = (self.chunks.last(), newer.as_slice().first())
            && (last.is_small() || next.is_small())
            && let Some(joined) = last.joined(next, &self.table, self.op)
        {
            newer.next();
            kind.chunks.pop();
            kind.firsts.pop();
            kind.push(Arc::new(joined));
        }
        newer.for_each(|chunk| kind.push(chunk.clone()));
        kind
    }

    /// Drops the chunks whose rows all have numbers up to `seq`.
    pub(crate) fn after(&self, seq: Seq) -> Kind {
        let mut kind = Kind::new(&self.table, self.op);
        let kept = self.chunks.iter().filter(|c| c.last > seq);
        kept.for_each(|chunk| kind.push(chunk.clone()));
        kind
    }
}

/// A value of a row, by its index in the log's order of columns.
pub(crate) fn value(rows: &Rows, row: usize, column: usize) -> ValueRef<'_> {
    rows.get(row, column).map_or(ValueRef::Null, from_log)
}

/// The kinds of two consecutive runs, and the new index of each of the newer's kinds.
pub(crate) fn merged(older: &[Kind], newer: &[Kind]) -> (Vec<Kind>, Vec<u32>) {
    let mut places = vec![0; newer.len()];
    let mut kinds = Vec::with_capacity(older.len());
    for (i, kind) in older.iter().enumerate() {
        let same = newer.iter().position(|n| kind.is(&n.table, n.op));
        if let Some(place) = same.and_then(|n| places.get_mut(n)) {
            *place = i as u32 + 1;
        }
        kinds.push(match same.and_then(|n| newer.get(n)) {
            Some(newer) => kind.followed_by(newer),
            None => kind.after(0),
        });
    }
    for (place, kind) in places.iter_mut().zip(newer) {
        match place.checked_sub(1) {
            Some(known) => *place = known,
            None => {
                *place = kinds.len() as u32;
                kinds.push(kind.after(0));
            }
        }
    }
    (kinds, places)
}

/// Collects the values of records.
#[derive(Default)]
pub(crate) struct ValuesBuilder {
    kinds: Vec<Kind>,
    open: Vec<Packer>,
}

impl ValuesBuilder {
    /// Adds a record, whose rows have these items. Returns the index of its kind.
    pub(crate) fn add(&mut self, record: Record, items: &[Item]) -> u32 {
        // Rows that share memory with a batch take no memory here, so nothing is left out.
        let said = match record.rows.is_shared() {
            true => 0,
            false => said(&record, items),
        };
        let known = self
            .kinds
            .iter()
            .position(|k| k.is(&record.table, record.op));
        let place = known.unwrap_or_else(|| {
            self.kinds.push(Kind::new(&record.table, record.op));
            self.open.push(Packer::default());
            self.kinds.len() - 1
        });
        let (Some(kind), Some(open)) = (self.kinds.get_mut(place), self.open.get_mut(place)) else {
            return 0;
        };
        let is_odd = record.rows.columns() != record.table.columns().len();
        let is_far = open
            .seqs
            .first()
            .is_some_and(|f| record.last() - f > u64::from(u32::MAX));
        let chunk = Chunk {
            first: record.first,
            last: record.last(),
            offsets: Box::default(),
            skip: record.skip,
            rows: record.rows,
            said: 0,
        };
        let keep = is_odd || !chunk.is_small();
        if keep || is_far {
            open.finish()
                .into_iter()
                .for_each(|c| kind.push(Arc::new(c)));
        }
        if keep {
            kind.push(Arc::new(chunk.without_said(said)));
            return place as u32;
        }
        open.said = Some(open.said.map_or(said, |so_far| so_far.min(said)));
        for row in chunk.skip..chunk.rows.len() {
            let seq = chunk.first + row as u64;
            open.add(&record.table, record.op, seq, &chunk.rows, row);
        }
        if open.is_full() {
            open.finish()
                .into_iter()
                .for_each(|c| kind.push(Arc::new(c)));
        }
        place as u32
    }

    pub(crate) fn finish(mut self) -> Vec<Kind> {
        for (kind, open) in self.kinds.iter_mut().zip(&mut self.open) {
            open.finish()
                .into_iter()
                .for_each(|c| kind.push(Arc::new(c)));
        }
        self.kinds
    }
}

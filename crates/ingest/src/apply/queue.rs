//! What the worker has read of the log and not applied yet.

use super::Applying;
use super::rows::Poison;
use crate::error::from_log;
use densite_log::{Reader, Record, Seq, keep_whole_transactions};
use densite_sqlite::{Error, Result};

/// See the module.
#[derive(Default)]
pub(super) struct Queue {
    reader: Option<Reader>,
    /// In order. The first one's `skip` says how much of it is applied.
    records: Vec<Record>,
    rows: usize,
    /// Why what follows cannot be read: told once nothing is queued.
    trouble: Option<Error>,
    /// The last row before the queue.
    before: Seq,
    /// A constraint may be deferred to COMMIT: batches have whole transactions of the log, however long one takes.
    pub(super) whole: bool,
    poison: Poison,
}

fn rows(record: &Record) -> usize {
    record.rows.len() - record.skip
}

impl Queue {
    /// Reads on behind `position`, until there are as many rows as are wanted or the log ends.
    ///
    /// # Errors
    /// The log's, once all whole transactions in front of what cannot be read are applied.
    pub(super) fn fill(&mut self, applying: &Applying, position: Seq, wanted: usize) -> Result<()> {
        let failed = |e| from_log(&applying.dir, e);
        if self.reader.is_none() || position != self.before {
            // The first time, or the database went on or back without us.
            self.records.clear();
            self.rows = 0;
            self.trouble = None;
            self.poison.clear();
            self.before = position;
            self.reader = Some(applying.log.read_after(position).map_err(failed)?);
        }
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        let has_end = |records: &[Record]| records.iter().any(|r| r.ends_transaction);
        while self.trouble.is_none()
            && (self.rows < wanted || (self.whole && !has_end(&self.records)))
        {
            match reader.next() {
                Ok(Some(record)) => {
                    self.rows += rows(&record);
                    self.records.push(record);
                }
                Ok(None) => break,
                Err(e) => {
                    keep_whole_transactions(&mut self.records);
                    self.rows = self.records.iter().map(rows).sum();
                    self.trouble = Some(failed(e));
                }
            }
        }
        match self.trouble.take_if(|_| self.rows == 0) {
            // It has read further than what was kept.
            Some(error) => {
                self.reader = None;
                Err(error)
            }
            None => Ok(()),
        }
    }

    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Rows that are queued.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// How far the log was read: behind the queue's last row where the log ends with numbers that no row has.
    pub(super) fn end(&self) -> Option<Seq> {
        self.reader.as_ref().map(Reader::position)
    }

    /// Nothing is queued, and the position is this one now.
    pub(super) fn jump(&mut self, position: Seq) {
        self.before = position;
    }

    /// Forgets what was read: it is applied in another way.
    pub(super) fn forget(&mut self) {
        *self = Queue {
            whole: self.whole,
            ..Queue::default()
        };
    }

    /// Rows to be rejected without another try.
    pub(super) fn poison(&self) -> &Poison {
        &self.poison
    }

    pub(super) fn add_poison(&mut self, seq: Seq, reason: String) {
        self.poison.insert(seq, reason);
    }

    /// The first rows are to be rejected.
    pub(super) fn poison_first(&mut self, rows: usize, reason: &str) {
        let records = self.records.iter();
        let seqs = records.flat_map(|r| (r.first + r.skip as u64)..=r.last());
        for seq in seqs.take(rows) {
            self.poison.insert(seq, reason.to_owned());
        }
    }

    /// Rows of the first transaction, or of all of it if that has no end yet.
    pub(super) fn first_transaction(&self) -> usize {
        let ends = self.records.iter().position(|r| r.ends_transaction);
        let records = ends.map_or(self.records.len(), |i| i + 1);
        self.records.iter().take(records).map(rows).sum()
    }

    /// The least that a batch may have.
    pub(super) fn least(&self) -> usize {
        match self.whole {
            true => self.first_transaction(),
            false => 1,
        }
    }

    /// Rows of the next batch, of so many at most.
    pub(super) fn batch(&self, most: usize) -> usize {
        let goal = self.rows.min(most);
        if !self.whole {
            return goal;
        }
        let (mut count, mut whole) = (0, 0);
        for record in &self.records {
            count += rows(record);
            if count > goal {
                break;
            }
            if record.ends_transaction {
                whole = count;
            }
        }
        whole.max(self.first_transaction())
    }

    /// How far the first rows reach. Numbers of rows that were rolled back lie in between.
    pub(super) fn reach(&self, count: usize) -> Option<Seq> {
        let (mut left, mut last) = (count, None);
        for record in &self.records {
            if left == 0 {
                break;
            }
            let some = rows(record).min(left);
            last = Some(record.first + (record.skip + some) as u64 - 1);
            left -= some;
        }
        last
    }

    /// The first rows are done, up to this one.
    pub(super) fn passed(&mut self, count: usize, last: Seq) {
        let (mut left, mut gone) = (count, 0);
        for record in &mut self.records {
            let has = rows(record);
            if has > left {
                record.skip += left;
                break;
            }
            left -= has;
            gone += 1;
        }
        self.records.drain(..gone);
        self.rows -= count;
        self.before = last;
        self.poison = self.poison.split_off(&(last + 1));
    }
}

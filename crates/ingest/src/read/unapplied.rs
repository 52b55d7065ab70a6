//! What this process knows of the rows that are in the log and not in their tables yet.
//!
//! Each table that is read has an index of its own, fed from the log when it is read, trimmed when rows are applied, dropped when nobody reads it any more. What a
//! cursor has taken stays as it is: runs never change.

use super::run::{Run, push, trim};
use crate::collation::Collation;
use densite_log::{Log, Reader, Record, Result, Seq};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows that become a run together.
const RUN_ROWS: usize = 128 << 10;
/// An index that is not used is dropped.
const IDLE: Duration = Duration::from_secs(10);

/// The unapplied rows of a table as one transaction sees them.
pub(crate) struct Snapshot {
    pub(crate) runs: Vec<Arc<Run>>,
    /// The base table has the rows up to here.
    pub(crate) from: Seq,
    /// The log's end for this transaction.
    pub(crate) to: Seq,
}

struct Index {
    /// The names of the key's columns and how they compare.
    key: (Vec<String>, Vec<Collation>),
    reader: Option<Reader>,
    from: Seq,
    to: Seq,
    runs: Vec<Arc<Run>>,
    used: Instant,
}

impl Index {
    fn reset(&mut self, applied: Seq) {
        self.reader = None;
        self.runs.clear();
        self.from = applied;
        self.to = applied;
    }

    /// Reads to the log's end. After an error it goes on behind the last row that is in a run.
    fn feed(&mut self, log: &Log, table: &str) -> Result<()> {
        let done = self.read_on(log, table);
        if done.is_err() {
            // It has passed rows that are in no run.
            self.reader = None;
        }
        done
    }

    fn read_on(&mut self, log: &Log, table: &str) -> Result<()> {
        if self.reader.is_none() {
            self.reader = Some(log.read_after(self.to)?);
        }
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        let (names, collations) = &self.key;
        let fits = |record: &Record| {
            let keys = record
                .table
                .columns()
                .iter()
                .take(record.table.key_columns());
            record.table.name().eq_ignore_ascii_case(table) && keys.eq(names)
        };
        loop {
            let (mut records, mut rows) = (Vec::new(), 0);
            let mut end = false;
            while rows < RUN_ROWS {
                match reader.next()? {
                    Some(record) if fits(&record) => {
                        rows += record.rows.len() - record.skip;
                        records.push(Arc::new(record));
                    }
                    // Those of a key that is not the table's any more will be rejected.
                    Some(_) => {}
                    None => {
                        end = true;
                        break;
                    }
                }
            }
            push(&mut self.runs, Run::new(records, collations), collations);
            self.to = self.to.max(reader.position());
            if end {
                return Ok(());
            }
        }
    }
}

/// See the module. Its mutexes are never held while SQLite is called.
#[derive(Default)]
pub(crate) struct Unapplied(Mutex<HashMap<String, Arc<Mutex<Index>>>>);

impl Unapplied {
    /// What is unapplied after `applied`; to the log's end, or to `to` if the transaction has one.
    pub(crate) fn snapshot(
        &self,
        log: &Log,
        table: &str,
        key: &(Vec<String>, Vec<Collation>),
        applied: Seq,
        to: Option<Seq>,
    ) -> Result<Snapshot> {
        let index = self
            .0
            .lock()
            .entry(table.to_owned())
            .or_insert_with(|| {
                Arc::new(Mutex::new(Index {
                    key: key.clone(),
                    reader: None,
                    from: applied,
                    to: applied,
                    runs: Vec::new(),
                    used: Instant::now(),
                }))
            })
            .clone();
        let mut index = index.lock();
        index.used = Instant::now();
        if index.key != *key {
            index.key = key.clone();
            index.reset(applied);
        }
        // A snapshot from before what the index has: the log still has what it needs (rule 4).
        if applied < index.from || applied > index.to {
            index.reset(applied);
        }
        if to.is_none_or(|to| to > index.to) {
            index.feed(log, table)?;
        }
        Ok(Snapshot {
            runs: index.runs.clone(),
            from: applied,
            to: to.unwrap_or(index.to),
        })
    }

    /// Whether anything is kept, or holds a segment of the log.
    pub(crate) fn is_kept(&self) -> bool {
        let indexes = self.0.lock();
        indexes.values().any(|index| {
            // One that is in use has something.
            let index = index.try_lock();
            index.is_none_or(|i| i.reader.is_some() || !i.runs.is_empty())
        })
    }

    /// Rows up to here are applied: they are forgotten, and so is what nobody reads any more.
    pub(crate) fn applied(&self, seq: Seq) {
        let indexes: Vec<Arc<Mutex<Index>>> = self.0.lock().values().cloned().collect();
        for index in indexes {
            // One that is in use is trimmed the next time.
            let Some(mut index) = index.try_lock() else {
                continue;
            };
            if index.used.elapsed() > IDLE || seq >= index.to {
                let seq = seq.max(index.to);
                index.reset(seq);
            } else if seq > index.from {
                trim(&mut index.runs, seq);
                index.from = seq;
            }
        }
    }
}

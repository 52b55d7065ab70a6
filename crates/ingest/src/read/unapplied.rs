//! What this process knows of the rows that are in the log and not in their tables yet.
//!
//! Each table that is read has an index of its own. It is fed from the log when it is read, and by
//! the worker as long as somebody reads now and then; trimmed when rows are applied; dropped when
//! no cursor reads it any more. What a cursor has taken stays as it is: runs never change.

use super::run::{Run, push, trim};
use super::run_builder::RunBuilder;
use super::visibility::{ClusteredSnapshot, Visibility};
use crate::clustered::Permutation;
use crate::collation::Collation;
use crate::names::are_same;
use densite_disk::sync::Mutex;
use densite_log::{Log, Reader, Record, Result, Seq};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Rows that become a run together.
pub(crate) const RUN_ROWS: usize = 256 << 10;
/// An index that is not used is dropped.
const IDLE: Duration = Duration::from_secs(10);
/// What an index is waited for that is asked how long it is.
const SHORT: Duration = Duration::from_millis(10);

/// The names of the key's columns and how they compare.
pub(crate) type Key = (Vec<String>, Vec<Collation>);

/// The unapplied rows of a table as one transaction sees them.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) runs: Arc<Vec<Arc<Run>>>,
    pub(crate) visibility: Visibility,
}

/// The unapplied rows of one table.
pub(crate) struct Index(Mutex<Inner>);

struct Inner {
    table: String,
    key: Key,
    reader: Option<Reader>,
    from: Seq,
    to: Seq,
    runs: Arc<Vec<Arc<Run>>>,
    used: Instant,
}

impl Inner {
    fn reset(&mut self, applied: Seq) {
        self.reader = None;
        self.runs = Arc::default();
        self.from = applied;
        self.to = applied;
    }

    /// Reads to the log's end. After an error it goes on behind the last row that is in a run.
    fn feed(&mut self, log: &Log) -> Result<()> {
        let done = self.read_on(log);
        if done.is_err() {
            // It has passed rows that are in no run.
            self.reader = None;
        }
        done
    }

    fn read_on(&mut self, log: &Log) -> Result<()> {
        if self.reader.is_none() {
            self.reader = Some(log.read_after(self.to)?);
        }
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        let (table, key) = (self.table.as_str(), &self.key);
        let (mut builder, mut is_end) = next(reader, table, key)?;
        let mut reached = reader.position();
        if builder.len() == 0 {
            self.to = self.to.max(reached);
            return Ok(());
        }
        let runs = Arc::make_mut(&mut self.runs);
        if is_end {
            push(runs, builder.run(&key.1), &key.1);
            self.to = self.to.max(reached);
            return Ok(());
        }
        // There is much: while this thread reads, another one sorts and merges.
        let runs = Mutex::new(runs);
        let add = |builder: RunBuilder| {
            let run = builder.run(&key.1);
            push(&mut runs.lock(), run, &key.1);
        };
        let done = std::thread::scope(|scope| {
            let (send, received) = sync_channel::<RunBuilder>(1);
            let thread = std::thread::Builder::new().name("densite-sort".into());
            let has_thread = thread
                .spawn_scoped(scope, || received.into_iter().for_each(add))
                .is_ok();
            loop {
                let position = reader.position();
                match has_thread {
                    // It takes all that is sent, unless it panics, which the scope passes on.
                    true => drop(send.send(builder)),
                    false => add(builder),
                }
                reached = position;
                if is_end {
                    return Ok(());
                }
                (builder, is_end) = next(reader, table, key)?;
            }
        });
        self.to = self.to.max(reached);
        done
    }
}

/// Rows for a run; and whether the log ends there.
fn next(reader: &mut Reader, table: &str, (names, how): &Key) -> Result<(RunBuilder, bool)> {
    let fits = |record: &Record| {
        let keys = record.table.columns().iter();
        record.table.name().eq_ignore_ascii_case(table)
            && are_same(keys.take(record.table.key_columns()), names.iter())
    };
    let mut builder = RunBuilder::default();
    while builder.len() < RUN_ROWS {
        match reader.next()? {
            Some(record) if fits(&record) => builder.add(record, how),
            // Those of a key that is not the table's any more will be rejected.
            Some(_) => {}
            None => return Ok((builder, true)),
        }
    }
    Ok((builder, false))
}

impl Index {
    /// What is unapplied after `applied`, except what is applied; to the log's end, or to `to` if
    /// the transaction has one.
    pub(crate) fn snapshot(
        &self,
        log: &Log,
        key: &Key,
        applied: Seq,
        clustered: Option<ClusteredSnapshot>,
        to: Option<Seq>,
    ) -> Result<Snapshot> {
        let mut index = self.0.lock();
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
            index.feed(log)?;
        }
        Ok(Snapshot {
            runs: index.runs.clone(),
            visibility: Visibility {
                from: applied,
                to: to.unwrap_or(index.to),
                clustered,
            },
        })
    }
}

/// See the module. Its mutexes are never held while SQLite is called.
#[derive(Default)]
pub(crate) struct Unapplied {
    indexes: Mutex<HashMap<String, Arc<Index>>>,
    /// The order of the clustered apply that is on its way, its id, and the last number before it.
    permutation: Mutex<Option<(i64, Seq, Permutation)>>,
}

impl Unapplied {
    /// The index of a table.
    pub(crate) fn index(&self, table: &str, key: &Key) -> Arc<Index> {
        let mut indexes = self.indexes.lock();
        let index = indexes.entry(table.to_owned()).or_insert_with(|| {
            Arc::new(Index(Mutex::new(Inner {
                table: table.to_owned(),
                key: key.clone(),
                reader: None,
                from: 0,
                to: 0,
                runs: Arc::default(),
                used: Instant::now(),
            })))
        });
        index.clone()
    }

    /// The order of the clustered apply of this id, if somebody in this process has read or made
    /// it.
    pub(crate) fn permutation(&self, clustered: i64) -> Option<Permutation> {
        let known = self.permutation.lock();
        known
            .as_ref()
            .filter(|(id, ..)| *id == clustered)
            .map(|(.., permutation)| permutation.clone())
    }

    /// Remembers that of a clustered apply behind `before` until it is over, or another one is
    /// asked for.
    pub(crate) fn keep_permutation(&self, clustered: i64, before: Seq, permutation: Permutation) {
        *self.permutation.lock() = Some((clustered, before, permutation));
    }

    fn all(&self) -> Vec<Arc<Index>> {
        self.indexes.lock().values().cloned().collect()
    }

    /// Whether anything is kept, or holds a segment of the log.
    pub(crate) fn is_kept(&self) -> bool {
        self.all().iter().any(|index| {
            // One that is in use has something.
            let index = index.0.try_lock();
            index.is_none_or(|i| i.reader.is_some() || !i.runs.is_empty())
        })
    }

    /// Whether more rows than these are kept.
    pub(crate) fn has_more_than(&self, rows: usize) -> bool {
        let kept = |index: &Arc<Index>| {
            // Who takes longer reads many.
            let index = index.0.try_lock_for(SHORT)?;
            Some(index.runs.iter().map(|run| run.len()).sum::<usize>())
        };
        let left = |left: usize, index: &Arc<Index>| left.checked_sub(kept(index)?);
        self.all().iter().try_fold(rows, left).is_none()
    }

    /// Reads on for those that are read now and then, so that the next read finds little to do. An
    /// error is the next reader's to be told.
    ///
    /// Answers whether there are any.
    pub(crate) fn keep_up(&self, log: &Log) -> bool {
        let mut are_any = false;
        for index in self.all() {
            if let Some(mut index) = index.0.try_lock()
                && index.reader.is_some()
                && index.used.elapsed() < IDLE
            {
                are_any = true;
                index.feed(log).ok();
            }
        }
        are_any
    }

    /// Rows up to here are applied: they are forgotten, and so is what nobody reads any more.
    pub(crate) fn applied(&self, seq: Seq) {
        self.permutation
            .lock()
            .take_if(|(_, before, _)| *before < seq);
        for index in self.all() {
            // One that is in use is trimmed the next time.
            let Some(mut index) = index.0.try_lock() else {
                continue;
            };
            if index.used.elapsed() > IDLE || seq >= index.to {
                let seq = seq.max(index.to);
                index.reset(seq);
            } else if seq > index.from {
                trim(Arc::make_mut(&mut index.runs), seq);
                index.from = seq;
            }
        }
    }
}

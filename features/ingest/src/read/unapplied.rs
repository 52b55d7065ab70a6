//! The unapplied rows that this process keeps in memory, and how far the base table is in the
//! snapshot that a cursor reads.
//!
//! Each table that is read has an index. It reads the log when the table is read, and while reads
//! keep coming the worker reads ahead for it. Applied rows are dropped, and the whole index is
//! emptied when it is no longer used. A cursor's snapshot stays valid, because runs never change.

use super::run::{ClusteredSnapshot, Run, RunBuilder, Visibility, push, trim};
use crate::clustered::{ClusteredProgress, Definition, Permutation};
use crate::schema::collation::Collation;
use crate::schema::names::are_same;
use densite_disk::sync::Mutex;
use densite_log::{self as log, Log, Reader, Record, Seq};
use densite_sqlite::{Connection, OwnedStatement, Result, ValueRef};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Number of rows that are sorted into a run together.
pub(crate) const RUN_ROWS: usize = 256 << 10;
/// An index that is not used for this long is emptied.
const IDLE: Duration = Duration::from_secs(10);

/// The names of the key's columns and how they compare.
pub(crate) type Key = (Vec<String>, Vec<Collation>);

/// The columns of `densite_applied` for [`Applied::of`], in its order.
pub(crate) const APPLIED_COLUMNS: [&str; 3] = ["seq", "clustered", "clustered_done"];

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

    /// Reads to the log's end. After an error, the next call continues behind the last row in a
    /// run.
    fn feed(&mut self, log: &Log) -> log::Result<()> {
        let done = self.read_on(log);
        if done.is_err() {
            // The reader has passed rows that are in no run.
            self.reader = None;
        }
        done
    }

    fn read_on(&mut self, log: &Log) -> log::Result<()> {
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
        // There are many rows: another thread sorts and merges while this thread reads.
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
                    // The other thread takes everything that is sent, unless it panics, which the
                    // scope passes on.
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

/// Reads rows for a run. Returns them, and whether the log ends there.
fn next(reader: &mut Reader, table: &str, (names, how): &Key) -> log::Result<(RunBuilder, bool)> {
    let fits = |record: &Record| {
        let keys = record.table.columns().iter();
        record.table.name().eq_ignore_ascii_case(table)
            && are_same(keys.take(record.table.key_columns()), names.iter())
    };
    let mut builder = RunBuilder::default();
    while builder.len() < RUN_ROWS {
        match reader.next()? {
            Some(record) if fits(&record) => builder.add(record, how),
            // Rows with another key than the table's will be rejected.
            Some(_) => {}
            None => return Ok((builder, true)),
        }
    }
    Ok((builder, false))
}

impl Index {
    /// The unapplied rows after `applied`, up to the log's end, or up to `to` if the transaction
    /// has one.
    pub(crate) fn snapshot(
        &self,
        log: &Log,
        key: &Key,
        applied: Seq,
        clustered: Option<ClusteredSnapshot>,
        to: Option<Seq>,
    ) -> log::Result<Snapshot> {
        let mut index = self.0.lock();
        index.used = Instant::now();
        if index.key != *key {
            index.key = key.clone();
            index.reset(applied);
        }
        // The snapshot is outside of the index's range. The log still has all rows that it needs
        // (rule L4).
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
    /// The order of the running clustered apply: its id, the last number before it, and the order.
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

    /// The order of this clustered apply, if this process has read or made it.
    fn permutation(&self, clustered: i64) -> Option<Permutation> {
        let known = self.permutation.lock();
        known
            .as_ref()
            .filter(|(id, ..)| *id == clustered)
            .map(|(.., permutation)| permutation.clone())
    }

    /// Keeps the order of a clustered apply behind `before`, until it ends or another one is kept.
    pub(crate) fn keep_permutation(&self, clustered: i64, before: Seq, permutation: Permutation) {
        *self.permutation.lock() = Some((clustered, before, permutation));
    }

    fn all(&self) -> Vec<Arc<Index>> {
        self.indexes.lock().values().cloned().collect()
    }

    /// Whether an index keeps rows, or holds a segment of the log.
    pub(crate) fn is_kept(&self) -> bool {
        self.all().iter().any(|index| {
            // An index that is in use counts as keeping rows.
            let index = index.0.try_lock();
            index.is_none_or(|i| i.reader.is_some() || !i.runs.is_empty())
        })
    }

    /// Reads ahead for the indexes that are in use, so that the next read has little to do. An
    /// error is left for the next reader to report.
    ///
    /// Returns whether there are any.
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

    /// Drops the rows up to this one, which are applied, and empties unused indexes.
    pub(crate) fn applied(&self, seq: Seq) {
        self.permutation
            .lock()
            .take_if(|(_, before, _)| *before < seq);
        for index in self.all() {
            // An index that is in use is trimmed the next time.
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

/// The progress in `densite_applied`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Applied {
    pub(crate) seq: Seq,
    /// Id of the clustered apply, 0 without one, and the number of places of its order that are
    /// done.
    clustered: i64,
    done: u32,
}

impl Applied {
    /// Reads the columns of a statement from `first` on; `None` if they have no position.
    pub(crate) fn of(statement: &OwnedStatement, first: usize) -> Option<Applied> {
        let number = |i: usize| match statement.column(first + i) {
            ValueRef::Integer(n) => Some(n),
            _ => None,
        };
        Some(Applied {
            seq: u64::try_from(number(0)?).unwrap_or(0),
            clustered: number(1).unwrap_or(0),
            done: u32::try_from(number(2).unwrap_or(0)).unwrap_or(0),
        })
    }

    /// Whether a visibility was made for this progress.
    pub(crate) fn is_of(self, visibility: &Visibility) -> bool {
        let (clustered, done) = visibility
            .clustered
            .as_ref()
            .map_or((0, 0), |s| (s.id, s.progress.done));
        // While nothing of it is done, a clustered apply has no effect.
        visibility.from == self.seq
            && done == self.done
            && (clustered == self.clustered || done == 0)
    }

    /// The rows behind `seq` that the base table already has. The connection must still be in the
    /// snapshot in which this was read.
    pub(crate) fn clustered(
        self,
        connection: &Connection,
        unapplied: &Unapplied,
    ) -> Result<Option<ClusteredSnapshot>> {
        if self.clustered == 0 || self.done == 0 {
            return Ok(None);
        }
        let permutation = match unapplied.permutation(self.clustered) {
            Some(permutation) => permutation,
            None => {
                let read = Definition::load(connection, self.clustered)?.permutation;
                unapplied.keep_permutation(self.clustered, self.seq, read.clone());
                read
            }
        };
        Ok(Some(ClusteredSnapshot {
            id: self.clustered,
            progress: ClusteredProgress {
                before: self.seq,
                permutation,
                done: self.done,
            },
        }))
    }
}

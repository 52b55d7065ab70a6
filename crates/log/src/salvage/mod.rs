//! A way on from damage: what can be read of a damaged log, written into a new one.
//!
//! Every whole transaction that can be read keeps its rows' numbers; what lies between is lost and
//! named. The damaged log is only read: whoever calls this puts the new one into its place and
//! keeps the old one.

mod find;

use crate::files::{APPEND_LOCK, END, Files, LogDir, take_slot_lock, writer_name};
use crate::format::segment::SegmentHeader;
use crate::format::word::EndWord;
use crate::format::{DATA_OFF, LOG_FORMAT_VERSION};
use crate::patience::usual;
use crate::state::State;
use crate::tail::Tail;
use crate::txn::Txn;
use crate::{Error, LogId, Options, Result, Seq};
use densite_disk::{File, OpenMode};
use find::Finder;
pub use find::Lost;
use std::sync::Arc;

/// What was, or would be, kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Transactions.
    pub transactions: u64,
    /// Rows in them.
    pub rows: u64,
    /// What is lost, ascending.
    pub lost: Vec<Lost>,
    /// The file with subscribers, settings and rollbacks cannot be read: the new log has none, and
    /// prunes only when it is told to. Transactions that were rolled back after they were appended
    /// are among those that are kept, and nothing tells which.
    pub state_lost: bool,
}

/// A damaged log, which no one else can open while this value exists: a process that waits for it
/// meanwhile opens what is in its place then.
pub struct Salvage {
    files: Files,
    state: Option<State>,
    applied: Option<Seq>,
    /// The locks of all who could have it open.
    _held: Vec<Box<dyn File>>,
}

impl Salvage {
    /// Keeps everybody out of a damaged log. The value must be kept until the new log is in the
    /// place of the damaged one. `applied` is the last row that the database has, if that is known:
    /// where the beginning of the log is lost, the new one begins behind that row, and the database
    /// goes on with it.
    ///
    /// # Errors
    /// `InUse` when somebody has the log open; `OtherLog`, `NewerFormat`; `Io`.
    pub fn begin(from: LogDir, id: LogId, applied: Option<Seq>) -> Result<Salvage> {
        let files = Files { dir: from, id };
        let held = hold(&files)?;
        let state = match files.load_state() {
            Ok(state) => state,
            Err(Error::Damaged { .. }) => None,
            Err(e) => return Err(e),
        };
        Ok(Salvage {
            files,
            state,
            applied,
            _held: held,
        })
    }

    /// Reads what can be read, and writes it to `to`, an empty directory; without `to` it only
    /// tells what would be kept and lost.
    ///
    /// # Errors
    /// `Missing`, `OtherLog`, `NewerFormat`; `Full`, `Io`.
    pub fn run(&self, to: Option<LogDir>) -> Result<Salvaged> {
        let mut finder = Finder::new(&self.files, self.state.as_ref(), self.applied)?;
        let id = self.files.id;
        let mut new = match to {
            Some(dir) => Some(New::make(Files { dir, id }, finder.first_seq())?),
            None => None,
        };
        let mut salvaged = Salvaged {
            state_lost: self.state.is_none(),
            ..Salvaged::default()
        };
        while let Some((first, txn)) = finder.next()? {
            salvaged.transactions += 1;
            salvaged.rows += txn.rows();
            if let Some(new) = &mut new {
                new.add(first, txn)?;
            }
        }
        let next_seq = finder.next_seq();
        salvaged.lost = finder.into_lost();
        if let Some(new) = new {
            new.finish(self.state.clone(), next_seq)?;
        }
        Ok(salvaged)
    }
}

/// The locks of all who could have it open.
fn hold(files: &Files) -> Result<Vec<Box<dyn File>>> {
    let mut held = Vec::new();
    let mut take = |name: &str, file: Box<dyn File>| {
        // Of a log that was repaired since the file was opened nothing is held by it.
        let is_free =
            take_slot_lock(file.as_ref(), name, &usual)? && files.is_named(name, file.as_ref())?;
        held.push(file);
        if is_free { Ok(()) } else { Err(Error::InUse) }
    };
    take(APPEND_LOCK, files.open_or_make(APPEND_LOCK)?)?;
    for no in 0.. {
        let name = writer_name(no);
        match files.open(&name, OpenMode::Write)? {
            Some(file) => take(&name, file)?,
            None => break,
        }
    }
    Ok(held)
}

/// The log that is written.
struct New {
    files: Files,
    tail: Tail,
    /// Transactions whose rows follow each other, to be written at once.
    group: Vec<Arc<Txn>>,
    bytes: u64,
    /// Number of the first row that is not in `group` yet.
    next: Seq,
}

impl New {
    fn make(files: Files, first_seq: Seq) -> Result<New> {
        if !files.dir.list()?.is_empty() {
            return Err(Error::Limit("the directory for the new log is not empty"));
        }
        let header = SegmentHeader {
            version: LOG_FORMAT_VERSION,
            id: files.id,
            number: 1,
            first_seq,
            prev_end: 0,
            prev_check: 0,
            salt: densite_disk::random::random_u64()?,
        };
        files.make_segment(&header)?;
        let word = EndWord {
            id: files.id,
            segment: 1,
            off: DATA_OFF,
            check: header.check(),
            next_seq: first_seq,
            writers: 0,
            flags: 0,
        };
        let end_file = files.dir.open(END, OpenMode::Create)?;
        let options = Options::new(files.id);
        Ok(New {
            tail: Tail::new(files.clone(), options, end_file, Vec::new(), word),
            files,
            group: Vec::new(),
            bytes: 0,
            next: first_seq,
        })
    }

    fn add(&mut self, first: Seq, txn: Txn) -> Result<()> {
        if first != self.next || !self.tail.fits(self.bytes, txn.stored_max()) {
            self.write()?;
            self.tail.raise(first - 1)?;
        }
        self.next = first + txn.rows();
        self.bytes += txn.stored_max();
        self.group.push(Arc::new(txn));
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        if !self.group.is_empty() {
            self.tail.write(&self.group, |_| Ok(()))?;
        }
        self.group.clear();
        self.bytes = 0;
        Ok(())
    }

    fn finish(mut self, state: Option<State>, next_seq: Seq) -> Result<()> {
        self.write()?;
        self.tail.raise(next_seq - 1)?;
        self.tail.publish(0)?;
        self.tail.sync_word()?;
        let mut state = state.unwrap_or_else(|| State::new(self.files.id, false));
        state.first_segment = 1;
        self.files.store_state(&state)
    }
}

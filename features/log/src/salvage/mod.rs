//! Repair: writes the readable part of a damaged log to a new log.
//!
//! Every whole transaction that can be read keeps its rows' numbers. The rows between are lost and
//! reported. The damaged log is only read: the caller puts the new log in its place and keeps the
//! old one.

mod bytes;
mod find;
mod flipped;

use crate::batch::Txn;
use crate::files::{APPEND_LOCK, APPENDED, END, Files, LogDir, take_slot_lock, writer_name};
use crate::format::segment::SegmentHeader;
use crate::format::word::EndWord;
use crate::format::{DATA_OFF, LOG_FORMAT_VERSION};
use crate::patience::usual;
use crate::state::State;
use crate::tail::Tail;
use crate::{Error, LogId, Options, Result, Seq};
use densite_disk::{File, OpenMode};
use find::Finder;
pub use find::Lost;
use std::sync::Arc;

/// What a repair keeps and loses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Number of kept transactions.
    pub transactions: u64,
    /// Number of rows in them.
    pub rows: u64,
    /// Lost rows, ascending.
    pub lost: Vec<Lost>,
    /// The file with subscribers, settings and rollbacks cannot be read. Then the new log has no
    /// subscribers and default settings, with `auto_prune` off. It also keeps transactions that
    /// were rolled back after they were appended, and no file tells which.
    pub state_lost: bool,
}

/// A damaged log that no other process can open while this value exists. A process that waits for
/// it then opens the log that has taken its place.
pub struct Salvage {
    files: Files,
    state: Option<State>,
    applied: Option<Seq>,
    /// The append lock and the locks of all writers' slots.
    _held: Vec<Box<dyn File>>,
}

impl Salvage {
    /// Locks a damaged log against all other processes. Keep the value until the new log is in the
    /// place of the damaged one. `applied` is the last row that the database has, if it is known.
    /// If the beginning of the log is lost, the new log begins behind that row, and the database
    /// continues with it.
    ///
    /// # Errors
    /// `InUse` if a process has the log open; `OtherLog`, `NewerFormat`; `Io`.
    pub fn begin(from: LogDir, id: LogId, applied: Option<Seq>) -> Result<Salvage> {
        let files = Files { dir: from, id };
        let held = hold(&files)?;
        let state = match files.load_state() {
            Ok(state) => state,
            Err(Error::Damaged { .. }) => corrected_state(&files)?,
            Err(e) => return Err(e),
        };
        Ok(Salvage {
            files,
            state,
            applied,
            _held: held,
        })
    }

    /// Reads what can be read and writes it to `to`, an empty directory. Without `to` it only
    /// reports what would be kept and lost.
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

/// A state with one flipped bit.
fn corrected_state(files: &Files) -> Result<Option<State>> {
    match files.state_bytes() {
        Ok(bytes) => Ok(bytes.and_then(|bytes| flipped::state(&bytes, files.id))),
        Err(Error::Damaged { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Takes the append lock and the locks of all writers' slots.
fn hold(files: &Files) -> Result<Vec<Box<dyn File>>> {
    let mut held = Vec::new();
    let mut take = |name: &str, file: Box<dyn File>| {
        // A file of a log that was repaired since it was opened locks nothing.
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

/// The new log.
struct New {
    files: Files,
    tail: Tail,
    /// Transactions with consecutive rows, for one write.
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
        let appended_file = files.dir.open(APPENDED, OpenMode::Create)?;
        let (options, word_files) = (Options::new(files.id), (end_file, appended_file));
        Ok(New {
            tail: Tail::new(files.clone(), options, word_files, Vec::new(), word),
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
            // No other process can open the new log yet.
            if !self.tail.is_ready_for(self.bytes) {
                self.tail.settle(self.bytes)?;
            }
            self.tail.append(&self.group, |_| Ok(()))?;
            self.tail.sync()?;
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

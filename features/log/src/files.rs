//! The files in the log's directory, by name (docs/FORMAT.md, The log): segments, free and
//! unfinished segments, the end word, the appended word, the writers' slots, the state, the times,
//! and locks.
//! `sync_failed` belongs to ingest.

use crate::blocking_lock::lock_in_turn;
use crate::fork_safe_lock::ForkSafeLock;
use crate::format::segment::{HEADER_LEN, NoHeader, SegmentHeader};
use crate::format::{DATA_OFF, MAX_SEQ};
use crate::patience::{Patience, lock, usual, wait_for};
use crate::{Error, LogId, Result};
use densite_disk::{Dir, ErrorKind, File, LockKind, OpenMode};
use std::sync::Arc;

/// The directory of a log, shared by threads.
pub type LogDir = Arc<dyn Dir + Sync>;

pub(crate) const END: &str = "end";
pub(crate) const APPENDED: &str = "appended";
pub(crate) const STATE: &str = "state";
pub(crate) const STATE_NEW: &str = "state.new";
pub(crate) const TIMES: &str = "times";
pub(crate) const APPEND_LOCK: &str = "append.lock";
pub(crate) const SYNC_LOCK: &str = "sync.lock";
pub(crate) const STATE_LOCK: &str = "state.lock";
pub(crate) const APPLY_LOCK: &str = "apply.lock";
pub(crate) const WANTED_LOCK: &str = "wanted.lock";
pub(crate) const FREE_SEGMENT: &str = "free-";
pub(crate) const NEW: &str = "new-";
pub(crate) const PREPARING: &str = "prep-";

/// The directory of one log.
#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) dir: LogDir,
    pub(crate) id: LogId,
}

/// A segment that is open, with its header checked.
pub(crate) struct Segment {
    pub(crate) file: Box<dyn File>,
    pub(crate) header: SegmentHeader,
}

pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:012}.seg")
}

pub(crate) fn writer_name(slot: u32) -> String {
    format!("writer-{slot}")
}

/// The number in a segment's name; `None` for other files, and for numbers that no segment has.
fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    let number = digits.parse().ok()?;
    ((1..MAX_SEQ).contains(&number) && segment_name(number) == name).then_some(number)
}

/// A name that no other process uses.
pub(crate) fn unique(prefix: &str) -> Result<String> {
    Ok(format!(
        "{prefix}{:016x}",
        densite_disk::random::random_u64()?
    ))
}

/// Locks a writer's slot; false if its writer is alive. Readers hold the lock shared for a moment,
/// to see whether the writer is gone. This call waits for them: a log that only readers have open
/// has no writer, and its end word can be older than its end.
///
/// # Errors
/// `Locked`, `Interrupted`; `Io`.
pub(crate) fn take_slot_lock(file: &dyn File, name: &str, patience: Patience<'_>) -> Result<bool> {
    wait_for(file, name, patience, || {
        if file.try_lock(LockKind::Exclusive)? {
            return Ok(Some(true));
        }
        if !file.try_lock(LockKind::Shared)? {
            return Ok(Some(false));
        }
        file.unlock()?;
        Ok(None)
    })
}

/// Damage in a segment.
pub(crate) fn damaged(number: u64, offset: u64, problem: impl Into<String>) -> Error {
    Error::Damaged {
        segment: segment_name(number),
        offset,
        problem: problem.into(),
    }
}

/// The error for a log without its state file.
pub(crate) fn no_state() -> Error {
    Error::Damaged {
        segment: STATE.to_owned(),
        offset: 0,
        problem: "the file is missing, and with it subscribers, settings, and which transactions were rolled back".to_owned(),
    }
}

impl Files {
    /// Numbers of the segments from `first` on, ascending.
    pub(crate) fn numbers(&self, first: u64) -> Result<Vec<u64>> {
        let names = self.dir.list()?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|n| segment_number(n)).collect();
        numbers.retain(|n| *n >= first);
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Opens a file that may be missing.
    pub(crate) fn open(&self, name: &str, mode: OpenMode) -> Result<Option<Box<dyn File>>> {
        match self.entry(name, mode) {
            Ok(file) => Ok(Some(ForkSafeLock::of(file))),
            Err(Error::Io(e)) if e.kind == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Opens or makes a file that the caller is going to lock.
    pub(crate) fn open_or_make(&self, name: &str) -> Result<Box<dyn File>> {
        Ok(ForkSafeLock::of(self.entry(name, OpenMode::Create)?))
    }

    /// Opens a file that the caller is not going to lock.
    ///
    /// # Errors
    /// `Damaged` if the name is not a regular file; `Io`, `Full`.
    pub(crate) fn entry(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        self.dir.open(name, mode).map_err(|e| match e.kind {
            ErrorKind::NotAFile => Error::Damaged {
                segment: name.to_owned(),
                offset: 0,
                problem: "it is not a regular file".to_owned(),
            },
            _ => e.into(),
        })
    }

    /// Opens or makes a lock file, which has no bytes, and locks it. The lock ends with the handle.
    ///
    /// # Errors
    /// `Locked`, `Interrupted`; `Io`.
    pub(crate) fn locked(&self, name: &str, patience: Patience<'_>) -> Result<Box<dyn File>> {
        loop {
            let file = self.open_or_make(name)?;
            let file = lock_in_turn(file, name, LockKind::Exclusive, patience)?;
            // The previous holder may have replaced the directory. The new directory has its own
            // locks.
            if self.is_named(name, file.as_ref())? {
                return Ok(file);
            }
        }
    }

    /// Takes the lock of this open file. If it has to wait, it waits with a second handle of the
    /// same file, which then replaces this one.
    /// # Errors
    /// `Locked`, `Interrupted`; `Io`.
    pub(crate) fn lock_again(
        &self,
        file: &mut Box<dyn File>,
        name: &str,
        patience: Patience<'_>,
    ) -> Result<()> {
        let kind = LockKind::Exclusive;
        if file.try_lock(kind)? {
            return Ok(());
        }
        let other = self.open(name, OpenMode::Write)?;
        let identity = file.identity()?;
        match other.filter(|other| other.identity().is_ok_and(|other| other == identity)) {
            Some(other) => *file = lock_in_turn(other, name, kind, patience)?,
            // The name belongs to another file now.
            None => lock(file.as_ref(), name, kind, patience)?,
        }
        Ok(())
    }

    /// Whether a name still leads to this open file.
    pub(crate) fn is_named(&self, name: &str, file: &dyn File) -> Result<bool> {
        Ok(self.dir.identity(name)? == Some(file.identity()?))
    }

    /// Opens a segment; `None` if there is no segment of that number.
    ///
    /// # Errors
    /// `Damaged` if the header is not valid or of another segment; `NewerFormat`, `OtherLog`.
    pub(crate) fn segment(&self, number: u64, mode: OpenMode) -> Result<Option<Segment>> {
        let Some(file) = self.open(&segment_name(number), mode)? else {
            return Ok(None);
        };
        let header = self.header(file.as_ref(), number)?;
        Ok(Some(Segment { file, header }))
    }

    /// Opens a segment for reading. It is not recycled while it is open.
    pub(crate) fn held(&self, number: u64) -> Result<Option<Segment>> {
        loop {
            let Some(file) = self.open(&segment_name(number), OpenMode::Read)? else {
                return Ok(None);
            };
            let name = segment_name(number);
            lock(file.as_ref(), &name, LockKind::Shared, &usual)?;
            let header = self.header(file.as_ref(), number);
            // After it was opened, the segment can be pruned and then cut or recycled. Its name is
            // gone then.
            if self.dir.exists(&segment_name(number))? {
                let header = header?;
                return Ok(Some(Segment { file, header }));
            }
        }
    }

    fn header(&self, file: &dyn File, number: u64) -> Result<SegmentHeader> {
        let mut bytes = [0; HEADER_LEN];
        file.read_at(&mut bytes, 0)?;
        match SegmentHeader::decode(&bytes) {
            Err(NoHeader::Newer(found)) => Err(Error::NewerFormat {
                found,
                supported: crate::LOG_FORMAT_VERSION,
            }),
            Err(NoHeader::Invalid) => Err(damaged(number, 0, "the segment's header is not valid")),
            Ok(header) if header.id != self.id => Err(Error::OtherLog {
                found: header.id,
                expected: self.id,
            }),
            Ok(header) if header.number != number => {
                let problem = format!("the header is that of segment {}", header.number);
                Err(damaged(number, 0, problem))
            }
            Ok(header) => Ok(header),
        }
    }

    /// The end of segment `number`, which the next segment states, and the check of its last
    /// record.
    pub(crate) fn sealed_end(&self, number: u64) -> Result<(u64, u64)> {
        match self.segment(number + 1, OpenMode::Read)? {
            Some(next) if next.header.prev_end >= DATA_OFF => {
                Ok((next.header.prev_end, next.header.prev_check))
            }
            Some(_) => Err(damaged(
                number + 1,
                0,
                "it does not name the end of the previous segment",
            )),
            None => Err(damaged(number + 1, 0, "the segment is missing")),
        }
    }
}

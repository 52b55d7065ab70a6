//! How a log is opened: made if it is not there, joined if others have it open, or only read.

use super::Log;
use crate::decisions::Decisions;
use crate::end_word::{find_whole_word, read_word};
use crate::files::{APPEND_LOCK, END, Files, LogDir, writer_name};
use crate::format::segment::SegmentHeader;
use crate::format::slot::WriterSlot;
use crate::format::word::WRITERS_MAX;
use crate::format::{LOG_FORMAT_VERSION, MAX_SEQ};
use crate::named::Named;
use crate::open_dir::OpenDir;
use crate::patience::{Patience, usual};
use crate::recover;
use crate::recycle;
use crate::shared::Shared;
use crate::state::State;
use crate::tail::{NO_NUMBERS, Tail};
use crate::visibility::Visibility;
use crate::writer::Writer;
use crate::{Error, LogId, Options, Result};
use densite_disk::{File, OpenMode};
use std::sync::Arc;

impl Log {
    /// Opens the log in a directory, and makes it if there is none and [`Options::create`] says so.
    /// The first process to open it finds its end, which reads what was appended since the end was
    /// last noted, and all of the last segment behind it.
    ///
    /// # Errors
    /// `Missing`, `OtherLog`, `NewerFormat`; `Damaged` where bytes that were synced are
    /// gone; `Full`, `Io`; `Locked` after ten seconds.
    pub fn open(dir: LogDir, options: Options) -> Result<Log> {
        Log::open_within(dir, options, &usual)
    }

    /// As [`Log::open`], for somebody who waits so long for other processes and no longer.
    ///
    /// # Errors
    /// As [`Log::open`]; `Locked`, `Interrupted`.
    pub fn open_within(dir: LogDir, options: Options, patience: Patience<'_>) -> Result<Log> {
        options.check()?;
        let files = Files {
            dir,
            id: options.id,
        };
        let append_lock = files.locked(APPEND_LOCK, patience)?;
        files.clear_unfinished()?;
        let state = prepare(&files, &options)?;
        let end_file = files.entry(END, OpenMode::Create)?;
        let (slot_no, slot_file, joined) = take_slot(&files, patience)?;
        // While another process has the log open the word is right: it published it, or found it.
        let word = match read_word(end_file.as_ref(), &files)? {
            Some(word) if joined => word,
            _ => recover::end(&files)?,
        };
        let end = Named::of(END, end_file.as_ref())?;
        let lock = Named::of(APPEND_LOCK, append_lock.as_ref())?;
        let names = vec![end.clone(), lock];
        let mut tail = Tail::new(files.clone(), options.clone(), end_file, names, word);
        if joined {
            tail.catch_up()?;
        }
        let state = match state {
            Some(state) => state,
            None => first_state(&files)?,
        };
        // Numbers that a rollback or a subscriber has are never given again.
        let positions = state.subscribers.values().copied();
        let rolled_back = state.cancelled.last().map(|(_, last)| *last);
        let stored = positions.chain(rolled_back).max().unwrap_or(0);
        tail.raise(options.above.max(stored))?;
        let decisions = Decisions::new(slot_no, slot_file)?;
        tail.publish(slot_no + 1)?;
        // What a crash left of pruning. Others that have the log open do it themselves when they
        // prune, and must not wait for it; nor need anybody who appends, if it cannot be done now.
        if !joined && files.has_pruned(state.first_segment)? {
            let word = tail.word();
            recycle::finish(&files, state.first_segment, &options, word, &|| true).ok();
        }
        append_lock.unlock()?;
        let visibility = Visibility::new(&files, tail.word())?;
        let txn_next = densite_disk::random::random_u64()?;
        let (dir, news) = (
            Arc::new(OpenDir::new(files, Some(end), None)),
            Arc::default(),
        );
        let tail = (tail, append_lock);
        let writer = Writer::new(
            Arc::clone(&dir),
            Arc::clone(&news),
            options.clone(),
            tail,
            decisions,
        );
        let shared = Shared::new(Some(writer), dir, options, visibility, news, txn_next);
        Ok(Log {
            shared: Arc::new(shared),
        })
    }

    /// Opens a log for reading only, which changes nothing in its directory and needs no permission
    /// to write there. Everything that changes the log is an error then. Rows behind the end word,
    /// which a killed process may have left, are not seen before somebody opens the log for
    /// writing.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open_read_only(dir: LogDir, id: LogId) -> Result<Log> {
        let files = Files { dir, id };
        let (mark, marked) = mark(&files)?.unzip();
        recover::segments(&files)?;
        let word = match find_whole_word(&files)? {
            Some(word) => word,
            None => recover::end_as_read(&files)?,
        };
        let visibility = Visibility::new(&files, word)?;
        let dir = Arc::new(OpenDir::new(files, mark, marked));
        let options = Options::new(id);
        let shared = Shared::new(None, dir, options, visibility, Arc::default(), 0);
        Ok(Log {
            shared: Arc::new(shared),
        })
    }
}

/// Makes a log where there is none. Answers the state, if there is one.
fn prepare(files: &Files, options: &Options) -> Result<Option<State>> {
    if options.above >= MAX_SEQ {
        return Err(NO_NUMBERS);
    }
    let state = files.load_state()?;
    if state.is_some() || recover::has_segments(files)? {
        return Ok(state);
    }
    if !options.create {
        return Err(Error::Missing);
    }
    // One that was left behind would be believed.
    crate::free_segment::remove(files, END)?;
    files.make_segment(&SegmentHeader {
        version: LOG_FORMAT_VERSION,
        id: options.id,
        number: 1,
        first_seq: options.above + 1,
        prev_end: 0,
        prev_check: 0,
        salt: densite_disk::random::random_u64()?,
    })?;
    // The state is written when the segment is known to be durable: a state without segments means
    // that they were lost.
    Ok(None)
}

/// The first state of a log that was just made.
fn first_state(files: &Files) -> Result<State> {
    let state = State::new(files.id, true);
    files.store_state(&state)?;
    Ok(state)
}

/// The file whose name shows that the directory has this log, for [`OpenDir::new`]. Taken before
/// anything is read, so that all that is read is of this log or is found not to be.
fn mark(files: &Files) -> Result<Option<(Named, Box<dyn File>)>> {
    for name in [END, APPEND_LOCK] {
        if let Some(file) = files.open(name, OpenMode::Read)? {
            return Ok(Some((Named::of(name, file.as_ref())?, file)));
        }
    }
    Ok(None)
}

/// Locks the first writer's slot that is free; its number, its file, and whether another is taken.
/// The caller holds the append lock.
fn take_slot(files: &Files, patience: Patience<'_>) -> Result<(u32, Box<dyn File>, bool)> {
    let (mut own, mut joined) = (None, false);
    for no in 0..WRITERS_MAX {
        let name = writer_name(no);
        let file = match files.open(&name, OpenMode::Write)? {
            Some(file) => file,
            None if own.is_some() => break,
            None => files.open_or_make(&name)?,
        };
        if !crate::files::take_slot_lock(file.as_ref(), &name, patience)? {
            joined = true;
            continue;
        }
        // A power cut may have torn it, and everybody would try to read it again and again.
        file.write_at(&WriterSlot::default().encode(), 0)?;
        if own.is_none() {
            own = Some((no, file));
        }
    }
    let (no, file) = own.ok_or(Error::Limit("too many processes have the log open"))?;
    Ok((no, file, joined))
}

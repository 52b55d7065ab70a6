//! How a log is opened: it is made if it does not exist, joined if other processes have it open, or
//! opened for reading only.

use super::Log;
use crate::decisions::Decisions;
use crate::end_word::{find_whole_word, read_word};
use crate::files::{APPEND_LOCK, APPENDED, END, Files, LogDir, SYNC_LOCK, writer_name};
use crate::format::segment::SegmentHeader;
use crate::format::slot::WriterSlot;
use crate::format::word::WRITERS_MAX;
use crate::format::{LOG_FORMAT_VERSION, MAX_SEQ};
use crate::lock::Locks;
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
    /// Opens the log in a directory. Makes it if there is none and [`Options::create`] is set. The
    /// first process to open it finds its end. This reads the last segment from the end word on, or
    /// from its beginning if the word is older.
    ///
    /// # Errors
    /// `Missing`, `OtherLog`, `NewerFormat`; `Damaged` if bytes that were synced are missing or
    /// changed; `Full`, `Io`; `Locked` after ten seconds.
    pub fn open(dir: LogDir, options: Options) -> Result<Log> {
        Log::open_within(dir, options, &usual)
    }

    /// As [`Log::open`]. `patience` decides how long it waits for other processes.
    ///
    /// # Errors
    /// As [`Log::open`]; `Locked`, `Interrupted`.
    pub fn open_within(dir: LogDir, options: Options, patience: Patience<'_>) -> Result<Log> {
        options.check()?;
        let files = Files {
            dir,
            id: options.id,
        };
        let locks = Locks::taken(&files, patience)?;
        files.clear_unfinished()?;
        let state = prepare(&files, &options)?;
        let end_file = files.entry(END, OpenMode::Create)?;
        let appended_file = files.entry(APPENDED, OpenMode::Create)?;
        let (slot_no, slot_file, joined) = take_slot(&files, patience)?;
        // While another process has the log open the words are right: that process found or
        // published them.
        let word = match read_word(end_file.as_ref(), &files)? {
            Some(word) if joined => word,
            _ => recover::end(&files)?,
        };
        let end = Named::of(END, end_file.as_ref())?;
        let names = vec![
            end.clone(),
            Named::of(APPENDED, appended_file.as_ref())?,
            Named::of(APPEND_LOCK, locks.append.file())?,
            Named::of(SYNC_LOCK, locks.sync.file())?,
        ];
        let word_files = (end_file, appended_file);
        let mut tail = Tail::new(files.clone(), options.clone(), word_files, names, word);
        if joined {
            tail.catch_up()?;
            if tail.must_settle() {
                tail.settle(0)?;
            }
        } else {
            tail.write_syncing(&word)?;
        }
        let state = match state {
            Some(state) => state,
            None => first_state(&files)?,
        };
        // Numbers that a rollback or a subscriber refers to are never assigned again.
        let rolled_back = state.cancelled.last().map(|(_, last)| *last);
        let stored = state.positions().chain(rolled_back).max().unwrap_or(0);
        tail.raise(options.above.max(stored))?;
        let decisions = Decisions::new(slot_no, slot_file)?;
        tail.publish(slot_no + 1)?;
        // Finishes pruning that a crash interrupted. Other processes that have the log open do this
        // when they prune, and must not wait for it here. If it fails now, appends do not need it.
        if !joined && files.has_pruned(state.first_segment)? {
            let word = tail.end();
            recycle::finish(&files, state.first_segment, &options, word, &|| true).ok();
        }
        locks.release();
        let visibility = Visibility::new(&files, tail.end())?;
        let txn_next = densite_disk::random::random_u64()?;
        let (dir, news) = (
            Arc::new(OpenDir::new(files, Some(end), None)),
            Arc::default(),
        );
        let tail = (tail, locks);
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

    /// Opens a log for reading only. This changes nothing in its directory and needs no write
    /// permission there. Calls that change the log return an error. Rows behind the end word, which
    /// a killed process can leave, stay invisible until a process opens the log for writing.
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

/// Makes a log if there is none. Returns the state, if there is one.
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
    // An old end word would be believed.
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
    // The state is written once the segment is durable: a state without segments means that they
    // were lost.
    Ok(None)
}

/// Stores the first state of a new log.
fn first_state(files: &Files) -> Result<State> {
    let state = State::first(files.id);
    files.store_state(&state)?;
    Ok(state)
}

/// The file whose name shows that the directory has this log, for [`OpenDir::new`]. It is opened
/// before anything is read. So if the log is replaced, the check of the name finds it.
fn mark(files: &Files) -> Result<Option<(Named, Box<dyn File>)>> {
    for name in [END, APPEND_LOCK] {
        if let Some(file) = files.open(name, OpenMode::Read)? {
            return Ok(Some((Named::of(name, file.as_ref())?, file)));
        }
    }
    Ok(None)
}

/// Locks the first free writer's slot. Returns its number, its file, and whether another slot is
/// locked. The caller holds both locks.
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
        // A power cut can leave a torn slot. Every reader would read it again and again.
        file.write_at(&WriterSlot::default().encode(), 0)?;
        if own.is_none() {
            own = Some((no, file));
        }
    }
    let (no, file) = own.ok_or(Error::Limit("too many processes have the log open"))?;
    Ok((no, file, joined))
}

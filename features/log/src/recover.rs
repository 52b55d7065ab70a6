//! Finds the end of the log in its files: for the first process that opens it, or if the end word
//! is not valid.
//!
//! Valid records are followed from the end word, or from the beginning of a later last segment.
//! Bytes behind them were never acknowledged, except for damage ([`Walk::is_damaged`]). Records
//! behind the word are written again and synced before they count, since a killed process can have
//! left them only in the system's cache. The header of the first record behind the end is durably
//! zeroed before anything else is written there (docs/decisions/log.md, The end of the log).

use crate::end_word::find_word;
use crate::files::{Files, damaged, no_state, segment_name};
use crate::format::record_header::RECORD_LEN;
use crate::format::word::EndWord;
use crate::format::{DATA_OFF, SEGMENT_MAX};
use crate::free_segment::blank;
use crate::scan::{Peek, Walk};
use crate::state::State;
use crate::{Error, Result};
use densite_disk::{File, OpenMode, SyncKind};

/// Numbers of the segments that belong to the log, which follow each other without a gap.
///
/// # Errors
/// `Missing` if there is neither a segment nor a state; `Damaged` if a segment or the state is
/// missing.
pub(crate) fn segments(files: &Files) -> Result<Vec<u64>> {
    let mut state = files.load_state()?;
    loop {
        let found = segments_of(files, state.as_ref());
        // The state and the directory are read one after the other. If another process prunes in
        // between, the state now names a later segment.
        if !matches!(found, Err(Error::Missing | Error::Damaged { .. })) {
            return found;
        }
        let now = files.load_state()?;
        let first = |state: &Option<State>| state.as_ref().map(|s| s.first_segment);
        if first(&now) == first(&state) {
            return found;
        }
        state = now;
    }
}

/// The state; that of a new log while the process that makes the log has not written one yet, or
/// if it stopped before.
///
/// # Errors
/// `Damaged` if it is missing in any other case.
pub(crate) fn state(files: &Files) -> Result<State> {
    if let Some(state) = files.load_state()? {
        return Ok(state);
    }
    match has_segments(files) {
        Ok(true) => Ok(State::first(files.id)),
        Ok(false) => Err(no_state()),
        // It can have been written since it was looked for.
        Err(e) => files.load_state()?.ok_or(e),
    }
}

fn segments_of(files: &Files, state: Option<&State>) -> Result<Vec<u64>> {
    if state.is_none() {
        has_segments(files)?;
    }
    let numbers = files.numbers(state.map_or(0, |s| s.first_segment))?;
    let Some(lowest) = numbers.first() else {
        return Err(state.map_or(Error::Missing, |s| {
            damaged(s.first_segment, 0, "the segment is missing")
        }));
    };
    let first = state.map_or(*lowest, |s| s.first_segment);
    for (number, want) in numbers.iter().zip(first..) {
        if *number != want {
            return Err(damaged(want, 0, "the segment is missing"));
        }
    }
    Ok(numbers)
}

/// For a log without a state: whether it has a segment. That is only the first segment, without
/// rows, if the process that made the log stopped before it wrote the state. The end word comes
/// later.
///
/// # Errors
/// `Damaged` in any other case. A power cut never loses the state. Without it, it is unknown who
/// still needs the rows and which of them were rolled back.
pub(crate) fn has_segments(files: &Files) -> Result<bool> {
    let numbers = files.numbers(0)?;
    if numbers.is_empty() {
        return Ok(false);
    }
    let word = find_word(files)?;
    if word.is_none()
        && numbers == [1]
        && let Some(segment) = files.segment(1, OpenMode::Read)?
    {
        let len = segment.file.len()?.min(SEGMENT_MAX);
        if let Peek::Nothing(_) = Walk::new(segment).peek(len)? {
            return Ok(true);
        }
    }
    Err(no_state())
}

/// Finds the end and makes everything before it durable. The caller holds the append lock and the
/// sync lock.
pub(crate) fn end(files: &Files) -> Result<EndWord> {
    // The name of the last segment may not be durable if the process that made it stopped in
    // between. If this sync fails, the next attempt can trust its own success: file systems keep
    // changes of names until they are in the journal. A failed sync drops only contents.
    files.dir.sync()?;
    find(files, OpenMode::Write)
}

/// The end as far as it is known without writing, for a log whose end word cannot be read.
pub(crate) fn end_as_read(files: &Files) -> Result<EndWord> {
    find(files, OpenMode::Read)
}

/// If the word cannot be read, the last segment is followed from its beginning. The word is torn if
/// its writer was killed or the power was cut; a power cut can also leave an old word. No
/// acknowledged row is missed: it was synced, so it is valid, or it is damage that a later record
/// proves. One double damage is not found: the last segment is deleted, and no word names it. A
/// caller that only reads ([`end_as_read`]) can see a group that was complete but not synced when
/// its writer was killed. The next writer finds the same group and keeps it.
fn find(files: &Files, mode: OpenMode) -> Result<EndWord> {
    // Read before the segments are listed: the segment that it names exists, or was pruned together
    // with all before a later one.
    let word = find_word(files)?;
    let last = || Ok::<_, Error>(segments(files)?.last().copied().unwrap_or_default());
    let (tail, segment) = loop {
        let tail = last()?;
        match files.segment(tail, mode)? {
            Some(segment) => break (tail, segment),
            None if last()? == tail => return Err(damaged(tail, 0, "the segment is missing")),
            // It was pruned since it was listed.
            None => {}
        }
    };
    if let Some(word) = word.filter(|w| w.segment > tail) {
        return Err(damaged(word.segment, 0, "the segment is missing"));
    }
    let header = segment.header;
    let mut known = word.filter(|w| w.segment == tail).unwrap_or(EndWord {
        id: files.id,
        segment: tail,
        off: DATA_OFF,
        check: header.check(),
        next_seq: header.first_seq,
        writers: word.map_or(0, |w| w.writers),
        flags: 0,
    });
    // The numbers before the segment's first are those of rows whose sync failed.
    known.next_seq = known.next_seq.max(header.first_seq);
    let len = segment.file.len()?.min(SEGMENT_MAX);
    if len < known.off {
        let problem = format!("the file has {len} bytes and had {}", known.off);
        return Err(damaged(tail, len, problem));
    }
    if known.sealed() {
        return Ok(known);
    }
    let mut walk = Walk::from(segment, known.off, known.check);
    let (mut end, mut next_seq) = (known, known.next_seq);
    let problem = loop {
        match walk.peek(len)? {
            Peek::Nothing(problem) => break problem,
            Peek::Record(record) if record.first_seq < next_seq => break "rows out of order",
            Peek::Record(record) => {
                walk.pass(&record);
                next_seq = record.last_seq() + 1;
                if record.ends_transaction() {
                    (end.off, end.check, end.next_seq) = (walk.at(), walk.prev(), next_seq);
                }
            }
        }
    };
    if walk.is_damaged()? {
        let problem = format!("{problem}, though it was synced");
        return Err(damaged(tail, walk.at(), problem));
    }
    if mode != OpenMode::Read {
        let file = walk.file();
        write_again(file, known.off, end.off)
            .and_then(|()| blank(file, end.off, end.off + RECORD_LEN as u64))
            .map_err(|e| name_failure(e, tail))?;
    }
    Ok(end)
}

/// Makes records durable that a process wrote and did not sync before it ended.
fn write_again(file: &dyn File, from: u64, to: u64) -> densite_disk::Result<()> {
    let mut at = from;
    let mut buf = vec![0; 1 << 20];
    while at < to {
        let want = usize::try_from(to - at).unwrap_or(buf.len()).min(buf.len());
        let Some(piece) = buf.get_mut(..want) else {
            break;
        };
        file.read_at(piece, at)?;
        file.write_at(piece, at)?;
        at += want as u64;
    }
    if from < to {
        file.sync(SyncKind::Data)?;
    }
    Ok(())
}

fn name_failure(e: densite_disk::Error, tail: u64) -> Error {
    match e.op {
        densite_disk::Op::Sync => Error::Damaged {
            segment: segment_name(tail),
            offset: 0,
            problem: format!("it could not be synced: {e}"),
        },
        _ => e.into(),
    }
}

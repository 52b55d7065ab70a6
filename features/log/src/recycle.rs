//! Recycling the files of pruned segments: they become free segments, or are cut piece by piece and
//! removed.
//!
//! Invariant: a process that renames or cuts the file of a pruned segment holds its lock
//! exclusively. Under the lock it has checked that the name is still that of the file. Two
//! processes can recycle at once: a file that one keeps as a free segment is soon a segment again,
//! with acknowledged rows.

use crate::end_word::read_word;
use crate::files::{END, FREE_SEGMENT, Files, segment_name};
use crate::format::SEGMENT_MAX;
use crate::format::word::EndWord;
use crate::free_segment::remove;
use crate::named::Named;
use crate::{Options, Result};
use densite_disk::wait::pause;
use densite_disk::{ErrorKind, File, LockKind, OpenMode};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Bytes of a file that are cut at once, and the time until the next piece if rows were appended
/// meanwhile. On a file system that tells the disk what it frees, a writer waits up to half a
/// millisecond for a piece of this length. Smaller pieces make it wait less. But then, for writers
/// that append as fast as they can, more than one in a hundred appends meets a piece ([`LEAD`]
/// gives their number).
const STEP: u64 = 1 << 20;
const PERIOD: Duration = Duration::from_millis(64);
/// Pruning cuts this many times the bytes that are appended meanwhile, however fast that is. So the
/// size of the directory is bounded.
const LEAD: f64 = 1.5;

impl Files {
    /// Whether there are files of pruned segments.
    pub(crate) fn has_pruned(&self, first_segment: u64) -> Result<bool> {
        Ok(self.numbers(0)?.first().is_some_and(|n| *n < first_segment))
    }

    /// The file of a pruned segment, locked. `None` if it is gone, or a reader or another pruning
    /// process has it.
    fn locked_if_free(&self, name: &str) -> Result<Option<Box<dyn File>>> {
        let Some(file) = self.open(name, OpenMode::Write)? else {
            return Ok(None);
        };
        let ours = file.try_lock(LockKind::Exclusive)? && self.is_named(name, file.as_ref())?;
        Ok(ours.then_some(file))
    }
}

/// Finishes a pruning that another process began. `word` is the end of the log.
pub(crate) fn finish(
    files: &Files,
    first_segment: u64,
    options: &Options,
    word: EndWord,
    has_time: &dyn Fn() -> bool,
) -> Result<()> {
    // The process that stored the state may have ended or failed before this sync.
    files.dir.sync()?;
    let pieces = Pieces::new(files, options, word, has_time)?;
    recycle(files, first_segment, options, BTreeMap::new(), pieces)
}

/// Keeps the files of pruned segments as free segments, or removes them. `held` has the files that
/// the caller has locked, by number. Files that other processes have locked are skipped.
///
/// A failure for one file does not stop the others. Returns the first error.
pub(crate) fn recycle(
    files: &Files,
    first_segment: u64,
    options: &Options,
    mut held: BTreeMap<u64, Box<dyn File>>,
    mut pieces: Pieces<'_>,
) -> Result<()> {
    let pruned = files
        .numbers(0)?
        .into_iter()
        .take_while(|n| *n < first_segment);
    let mut all = Ok(());
    for number in pruned {
        let file = held.remove(&number);
        all = all.and(give_back(files, number, options, file, &mut pieces));
    }
    all
}

/// Recycles the file of one pruned segment. `file` is set if the caller has locked it.
fn give_back(
    files: &Files,
    number: u64,
    options: &Options,
    file: Option<Box<dyn File>>,
    pieces: &mut Pieces<'_>,
) -> Result<()> {
    let name = segment_name(number);
    let file = match file {
        Some(file) => file,
        None => match files.locked_if_free(&name)? {
            Some(file) => file,
            None => return Ok(()),
        },
    };
    pieces.place.check(files)?;
    // A slightly shorter file is good enough: it grows.
    let fits = (options.segment_bytes / 2..=options.segment_bytes).contains(&file.len()?);
    if fits && files.free_segments()?.len() < options.free_segments_max {
        let free_segment = format!("{}{number:016x}", FREE_SEGMENT);
        match files.dir.rename(&name, &free_segment) {
            Err(e) if e.kind != ErrorKind::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    } else {
        pieces.shrink(file.as_ref())?;
        // Cutting takes time, so the name is checked again.
        pieces.place.check(files)?;
        remove(files, &name)
    }
}

/// Cuts files piece by piece: while the file system frees 64 MiB at once, writes to other files
/// wait.
pub(crate) struct Pieces<'a> {
    files: &'a Files,
    options: &'a Options,
    end_file: Box<dyn File>,
    /// The name of the end file: if another file has it, the segments' names are another log's too.
    place: Named,
    /// The end of the log, in bytes of all segments that ever existed, and when it was read.
    seen: (u64, Instant),
    has_time: &'a dyn Fn() -> bool,
}

impl<'a> Pieces<'a> {
    /// `word` is the end of the log that the caller read.
    pub(crate) fn new(
        files: &'a Files,
        options: &'a Options,
        word: EndWord,
        has_time: &'a dyn Fn() -> bool,
    ) -> Result<Pieces<'a>> {
        let end_file = files.entry(END, OpenMode::Read)?;
        Ok(Pieces {
            files,
            options,
            place: Named::of(END, end_file.as_ref())?,
            end_file,
            seen: (end(word, options), Instant::now()),
            has_time,
        })
    }

    fn shrink(&mut self, file: &dyn File) -> Result<()> {
        let mut len = file.len()?;
        if len > SEGMENT_MAX {
            len = SEGMENT_MAX;
            file.set_len(len)?;
        }
        while len > STEP {
            len -= STEP;
            let begun = Instant::now();
            file.set_len(len)?;
            self.rest(begun.elapsed())?;
        }
        Ok(())
    }

    /// Pauses after a piece. `piece` is the time that it took.
    fn rest(&mut self, piece: Duration) -> Result<()> {
        let word = read_word(self.end_file.as_ref(), self.files)?;
        let before = self.seen;
        // If the word is just being written, nothing counts as appended.
        let end = word.map_or(before.0, |word| end(word, self.options));
        self.seen = (end, Instant::now());
        if self.options.background && (self.has_time)() {
            let appended = end.saturating_sub(before.0);
            let period = period(appended, before.1.elapsed());
            pause(period.saturating_sub(piece));
        }
        Ok(())
    }
}

fn end(word: EndWord, options: &Options) -> u64 {
    let before = word.segment.saturating_mul(options.segment_bytes);
    before.saturating_add(word.off)
}

/// The time from one piece to the next, if `appended` bytes were appended in `time`. It is zero if
/// there are no writers to disturb, and short enough that pruning keeps ahead of the writers.
fn period(appended: u64, time: Duration) -> Duration {
    if appended == 0 {
        return Duration::ZERO;
    }
    let period = time.as_secs_f64() * STEP as f64 / (LEAD * appended as f64);
    Duration::from_secs_f64(period.min(PERIOD.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pruning_keeps_ahead_of_writers_of_any_speed() {
        for rate in [1e3, 1e6, 20e6, 100e6, 400e6] {
            let (mut last, mut time, mut appended) = (PERIOD, Duration::ZERO, 0.0);
            for _ in 0..100 {
                let more = rate * last.as_secs_f64();
                last = period(more as u64, last);
                time += last;
                appended += rate * last.as_secs_f64();
            }
            let given = 100.0 * STEP as f64;
            assert!(
                given > 0.99 * LEAD * appended,
                "{rate}: {given} and {appended}"
            );
            let is_slow = LEAD * rate * PERIOD.as_secs_f64() < STEP as f64;
            assert_eq!(time == 100 * PERIOD, is_slow, "{rate}: {time:?}");
        }
        assert_eq!(
            period(0, PERIOD),
            Duration::ZERO,
            "there is no writer to disturb"
        );
    }
}

//! Giving back the files of pruned segments: as free segments, or to the file system piece by
//! piece.
//!
//! Invariant: whoever renames or cuts the file of a pruned segment holds its lock exclusively, and
//! has seen under the lock that the name is still that file's. Two processes may be at it at once:
//! what one keeps as a free segment is soon a segment again, with rows that were acknowledged.

use crate::end_word::read_word;
use crate::files::{END, FREE_SEGMENT, Files, segment_name};
use crate::format::SEGMENT_MAX;
use crate::format::word::EndWord;
use crate::free_segment::remove;
use crate::named::Named;
use crate::{Options, Result};
use densite_disk::{ErrorKind, File, LockKind, OpenMode};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Bytes of a file given back at once, and the time until the next piece if somebody appended
/// meanwhile. A file system that tells the disk what it frees keeps a writer waiting for half a
/// millisecond to one with a piece of this length; with smaller ones for less, but then writers
/// that append as fast as they can meet one more often than in one of a hundred appends ([`LEAD`]
/// says how many there must be).
const STEP: u64 = 1 << 20;
const PERIOD: Duration = Duration::from_millis(64);
/// As many times what is appended meanwhile is given back, however fast that is: so the directory's
/// size is bounded.
const LEAD: f64 = 1.5;

impl Files {
    /// Whether there are files of segments that are pruned.
    pub(crate) fn has_pruned(&self, first_segment: u64) -> Result<bool> {
        Ok(self.numbers(0)?.first().is_some_and(|n| *n < first_segment))
    }

    /// The file of a pruned segment, locked; `None` if it is gone, or a reader or another who
    /// prunes has it.
    fn locked_if_free(&self, name: &str) -> Result<Option<Box<dyn File>>> {
        let Some(file) = self.open(name, OpenMode::Write)? else {
            return Ok(None);
        };
        let ours = file.try_lock(LockKind::Exclusive)? && self.is_named(name, file.as_ref())?;
        Ok(ours.then_some(file))
    }
}

/// Comes to the end of a pruning that somebody else began. `word`: where the log ends.
pub(crate) fn finish(
    files: &Files,
    first_segment: u64,
    options: &Options,
    word: EndWord,
    has_time: &dyn Fn() -> bool,
) -> Result<()> {
    // Who stored the state may not have come to this, or failed at it.
    files.dir.sync()?;
    let pieces = Pieces::new(files, options, word, has_time)?;
    recycle(files, first_segment, options, BTreeMap::new(), pieces)
}

/// Keeps the files of pruned segments for use again, or removes them. `held`: those that the caller
/// has locked, by number. What others hold is left to them.
///
/// One that cannot be given back keeps none of the others; the first error is told.
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

/// Gives back the file of one pruned segment; `file`: it, if the caller has locked it.
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
    // A little short of a segment it is as good: it grows.
    let fits = (options.segment_bytes / 2..=options.segment_bytes).contains(&file.len()?);
    if fits && files.free_segments()?.len() < options.free_segments_max {
        let free_segment = format!("{}{number:016x}", FREE_SEGMENT);
        match files.dir.rename(&name, &free_segment) {
            Err(e) if e.kind != ErrorKind::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    } else {
        pieces.shrink(file.as_ref())?;
        // That took its time.
        pieces.place.check(files)?;
        remove(files, &name)
    }
}

/// Gives back files' room little by little: while the file system frees 64 MiB at once, writes to
/// other files wait for it.
pub(crate) struct Pieces<'a> {
    files: &'a Files,
    options: &'a Options,
    end_file: Box<dyn File>,
    /// Its name: where that is another file's, so are those of segments.
    place: Named,
    /// Where the log ended, in bytes of all segments there ever were, and when.
    seen: (u64, Instant),
    has_time: &'a dyn Fn() -> bool,
}

impl<'a> Pieces<'a> {
    /// For who has seen the log end there.
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

    /// After a piece that took so long.
    fn rest(&mut self, piece: Duration) -> Result<()> {
        let word = read_word(self.end_file.as_ref(), self.files)?;
        let before = self.seen;
        // One that is just being written counts as nothing appended.
        let end = word.map_or(before.0, |word| end(word, self.options));
        self.seen = (end, Instant::now());
        if self.options.background && (self.has_time)() {
            let appended = end.saturating_sub(before.0);
            let period = period(appended, before.1.elapsed());
            std::thread::sleep(period.saturating_sub(piece));
        }
        Ok(())
    }
}

fn end(word: EndWord, options: &Options) -> u64 {
    let before = word.segment.saturating_mul(options.segment_bytes);
    before.saturating_add(word.off)
}

/// From one piece to the next, when so many bytes were appended in so long a time: no process is
/// disturbed if none were, and the writers do not get ahead.
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

    /// Writers of any speed.
    #[test]
    fn more_is_given_back_than_is_appended() {
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
        assert_eq!(period(0, PERIOD), Duration::ZERO, "no process is disturbed");
    }
}

//! Giving back segments that nobody needs, off the writers' path.
//!
//! A segment goes when all its rows are applied durably (the caller says up to where), acknowledged by every subscriber and decided, when
//! enough other bytes are retained, when no reader is at it or before it, and when all segments before it go too.
//!
//! The state names the first segment that stays, durably, before any file is touched. So whatever becomes of the files in a
//! power cut, what a subscriber acknowledged is durable before rows go for it, and a segment is never missing between others.
//!
//! Invariant: whoever renames or cuts the file of a pruned segment holds its lock exclusively, and has seen under the lock that the name is still that file's.
//! Two processes may be at it at once: what one keeps as a spare is soon a segment again, with rows that were acknowledged.

use crate::files::{END, Files, STATE_LOCK, no_state, segment_name};
use crate::format::DATA_OFF;
use crate::format::word::EndWord;
use crate::log::Log;
use crate::spare::remove;
use crate::tail::read_word;
use crate::{Options, Result, Seq};
use densite_disk::{ErrorKind, File, LockKind, OpenMode};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Bytes of a file given back at once, and the time until the next piece if somebody appended meanwhile. A file system that tells the disk what it frees keeps a writer waiting for half a
/// millisecond to one with a piece of this length; with smaller ones for less, but then writers that append as fast as they can meet one more often than in one of a hundred appends
/// ([`LEAD`] says how many there must be).
const STEP: u64 = 1 << 20;
const PERIOD: Duration = Duration::from_millis(64);
/// As many times what is appended meanwhile is given back, however fast that is: so the directory's size is bounded.
const LEAD: f64 = 1.5;

/// What pruning did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Segments that went.
    pub segments: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

impl Log {
    /// Prunes what may go. `durable` is the last row whose effect the database holds durably: committed before a checkpoint that completed,
    /// and synced since (rule 4).
    ///
    /// # Errors
    /// `Full`, `Io`, `Damaged`. What was acknowledged or not stays true.
    pub fn prune(&self, durable: Seq) -> Result<Pruned> {
        self.prune_with(durable, &|| true)
    }

    fn prune_with(&self, durable: Seq, has_time: &dyn Fn() -> bool) -> Result<Pruned> {
        let shared = &self.shared;
        shared.may_write()?;
        let files = &shared.files;
        let visible = shared.visible()?;
        let lock = files.locked(STATE_LOCK)?;
        let mut state = files.load_state()?.ok_or_else(no_state)?;
        let slowest = state.slowest().unwrap_or(Seq::MAX);
        let passed = durable.min(slowest).min(visible.last);
        let tail = visible.word.segment;
        if !files.is_passed(state.first_segment, tail, passed)? {
            return Ok(Pruned::default());
        }
        let mut sizes = Vec::new();
        for number in state.first_segment..tail {
            let file = files.open(&segment_name(number), OpenMode::Read)?;
            sizes.push(file.map_or(Ok(0), |f| f.len())?);
        }
        let mut kept: u64 = sizes.iter().sum::<u64>() + (visible.word.off - DATA_OFF);
        let (mut pruned, mut held) = (Pruned::default(), BTreeMap::new());
        for (number, bytes) in (state.first_segment..tail).zip(sizes) {
            let is_passed = files.is_passed(number, tail, passed)?;
            if !is_passed || kept - bytes < state.config.retain_bytes {
                break;
            }
            // A reader holds the segment it is at. It needs all that follow too, so this is where pruning ends.
            let file = files.open(&segment_name(number), OpenMode::Write)?;
            if let Some(file) = file {
                if !file.try_lock(LockKind::Exclusive)? {
                    break;
                }
                held.insert(number, file);
            }
            kept -= bytes;
            pruned.segments += 1;
            pruned.bytes += bytes;
            state.first_segment = number + 1;
            let first_seq = files.first_seq(number + 1)?;
            state.cancelled.retain(|(_, last)| *last >= first_seq);
        }
        if pruned.segments == 0 {
            return Ok(pruned);
        }
        files.store_state(&state)?;
        // Subscribers need not wait while files are removed.
        drop(lock);
        let pieces = Pieces::new(files, &shared.options, visible.word, has_time)?;
        retire(files, state.first_segment, &shared.options, held, pieces)?;
        Ok(pruned)
    }

    /// [`Log::prune`], if `automatically_purge` is on. For whoever runs after writes: it looks at two small files if there is nothing to do.
    ///
    /// # Errors
    /// As [`Log::prune`].
    pub fn purge(&self, durable: Seq) -> Result<Pruned> {
        self.purge_in_time(durable, &|| true)
    }

    /// [`Log::purge`], which takes its time for the writers' sake (four seconds a segment) as long as `has_time` says so, and then comes to its end at once.
    ///
    /// # Errors
    /// As [`Log::prune`].
    pub fn purge_in_time(&self, durable: Seq, has_time: &dyn Fn() -> bool) -> Result<Pruned> {
        match self.config()?.automatically_purge {
            true => self.prune_with(durable, has_time),
            false => Ok(Pruned::default()),
        }
    }
}

impl Files {
    fn first_seq(&self, number: u64) -> Result<Seq> {
        let segment = self.segment(number, OpenMode::Read)?;
        let segment =
            segment.ok_or_else(|| crate::files::damaged(number, 0, "the segment is missing"))?;
        Ok(segment.header.first_seq)
    }

    /// Whether a segment is not the last one and all its rows are up to `passed`.
    fn is_passed(&self, number: u64, tail: u64, passed: Seq) -> Result<bool> {
        Ok(number < tail && self.first_seq(number + 1)? <= passed.saturating_add(1))
    }

    /// The file of a pruned segment, locked; `None` if it is gone, or a reader or another who prunes has it.
    fn locked_if_free(&self, name: &str) -> Result<Option<Box<dyn File>>> {
        let Some(file) = self.open(name, OpenMode::Write)? else {
            return Ok(None);
        };
        let ours = file.try_lock(LockKind::Exclusive)? && self.is_named(name, file.as_ref())?;
        Ok(ours.then_some(file))
    }
}

/// Keeps the files of pruned segments for use again, or removes them. `held`: those that the caller has locked, by number. What others hold is left to them.
pub(crate) fn retire(
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
    for number in pruned {
        let name = segment_name(number);
        let file = match held.remove(&number) {
            Some(file) => file,
            None => match files.locked_if_free(&name)? {
                Some(file) => file,
                None => continue,
            },
        };
        // A little short of a segment it is as good: it grows.
        let fits = (options.segment_bytes / 2..=options.segment_bytes).contains(&file.len()?);
        if fits && files.spares()?.len() < options.spares_max {
            match files
                .dir
                .rename(&name, &format!("{}{number:016x}", crate::files::SPARE))
            {
                Err(e) if e.kind != ErrorKind::NotFound => return Err(e.into()),
                _ => {}
            }
        } else {
            pieces.shrink(file.as_ref())?;
            remove(files, &name)?;
        }
    }
    Ok(())
}

/// Gives back files' room little by little: while the file system frees 64 MiB at once, writes to other files wait for it.
pub(crate) struct Pieces<'a> {
    files: &'a Files,
    options: &'a Options,
    end_file: Box<dyn File>,
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
        Ok(Pieces {
            files,
            options,
            end_file: files.dir.open(END, OpenMode::Read)?,
            seen: (end(word, options), Instant::now()),
            has_time,
        })
    }

    fn shrink(&mut self, file: &dyn File) -> Result<()> {
        let mut len = file.len()?;
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
    word.segment * options.segment_bytes + word.off
}

/// From one piece to the next, when so many bytes were appended in so long a time: nobody is disturbed if none were, and the writers do not get ahead.
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
        assert_eq!(period(0, PERIOD), Duration::ZERO, "nobody is disturbed");
    }
}

//! Prunes segments that are no longer needed, off the writers' path (docs/decisions/log.md, Pruning
//! and segment recycling).
//!
//! A segment goes if all its rows are durably applied, decided, and acknowledged by every
//! subscriber, if enough other bytes are retained, if no reader is at or before it, and if all
//! earlier segments go too. Subscribers that keep more than `max_retained_bytes` are dropped first.
//! The state names the first segment that stays, durably, before any file is touched. A damaged
//! header keeps only its segment and the one before, whose end it has, until all rows up to a later
//! header can go. The log never begins with such a segment.

use crate::files::{Files, STATE_LOCK, damaged, no_state, segment_name};
use crate::format::{DATA_OFF, SEGMENT_MAX};
use crate::log::Log;
use crate::patience::usual;
use crate::recycle::{Pieces, finish, recycle};
use crate::{Error, Result, Seq};
use densite_disk::{File, LockKind, OpenMode};
use std::collections::BTreeMap;
use std::ops::Range;

/// The outcome of pruning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of pruned segments.
    pub segments: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// More could be pruned, but a reader is there, or a subscriber has not acknowledged the rows.
    pub is_held: bool,
}

impl Log {
    /// Prunes what is no longer needed. `durable` is the last row whose effect the database holds
    /// durably: committed before a checkpoint that completed, and synced since (rule L4).
    ///
    /// # Errors
    /// `Full`, `Io`; `Damaged`, also if a damaged header keeps a segment. The other segments are
    /// pruned even then. Acknowledgements stay valid.
    pub fn prune(&self, durable: Seq) -> Result<Pruned> {
        self.prune_with(durable, &|| true)
    }

    fn prune_with(&self, durable: Seq, has_time: &dyn Fn() -> bool) -> Result<Pruned> {
        let shared = &self.shared;
        shared.may_write()?;
        let files = &shared.dir.files;
        let visible = shared.visible()?;
        let lock = files.locked(STATE_LOCK, &usual)?;
        let mut state = files.load_state()?.ok_or_else(no_state)?;
        let has_dropped = self.drop_slow(&mut state)?;
        let slowest = state.slowest().unwrap_or(Seq::MAX);
        let passed = durable.min(slowest).min(visible.last);
        let tail = visible.word.segment;
        let cuts = files.cuts(state.first_segment, tail, passed)?;
        let mut pruned = Pruned::default();
        let mut held = BTreeMap::new();
        if !cuts.at.is_empty() {
            let sizes = files.sizes(state.first_segment..tail)?;
            let mut kept = total(sizes.values()) + (visible.word.off - DATA_OFF);
            for (cut, first_seq) in cuts.at {
                let part = state.first_segment..cut;
                let bytes = total(sizes.range(part.clone()).map(|(_, len)| len));
                if kept - bytes < state.config.retain_bytes {
                    break;
                }
                // A reader holds its segment. It also needs all that follow, so pruning ends here.
                let Some(files) = files.locked_against_readers(part)? else {
                    pruned.is_held = true;
                    break;
                };
                held.extend(files);
                kept -= bytes;
                pruned.segments += cut - state.first_segment;
                pruned.bytes += bytes;
                state.first_segment = cut;
                state.cancelled.retain(|(_, last)| *last >= first_seq);
            }
        }
        pruned.is_held |= slowest < durable.min(visible.last) && state.first_segment < tail;
        if pruned.segments > 0 {
            files.store_state(&state)?;
            // Subscribers do not have to wait while files are removed.
            drop(lock);
            let pieces = Pieces::new(files, &shared.options, visible.word, has_time)?;
            shared.dir.is_in_place()?;
            recycle(files, state.first_segment, &shared.options, held, pieces)?;
        } else {
            if has_dropped {
                files.store_state(&state)?;
            }
            drop(lock);
            self.finish_earlier(state.first_segment, has_time)?;
        }
        match cuts.damage {
            Some(damage) => Err(damage),
            None => Ok(pruned),
        }
    }

    /// Removes files of segments that were pruned earlier. The process that pruned them may have
    /// failed to remove them, or ended before. They can exist even if nothing can be pruned now.
    fn finish_earlier(&self, first_segment: u64, has_time: &dyn Fn() -> bool) -> Result<()> {
        let (files, options) = (&self.shared.dir.files, &self.shared.options);
        if files.has_pruned(first_segment)? {
            let word = self.shared.visible()?.word;
            finish(files, first_segment, options, word, has_time)?;
        }
        Ok(())
    }

    /// [`Log::prune`], if `auto_prune` is on. Called after writes: without work to do, it reads two
    /// small files and lists the directory.
    ///
    /// # Errors
    /// As [`Log::prune`].
    pub fn auto_prune(&self, durable: Seq) -> Result<Pruned> {
        self.auto_prune_in_time(durable, &|| true)
    }

    /// As [`Log::auto_prune`]. It pauses between pieces for the sake of writers (four seconds a
    /// segment) while `has_time` is true, and then finishes without pauses.
    ///
    /// # Errors
    /// As [`Log::prune`].
    pub fn auto_prune_in_time(&self, durable: Seq, has_time: &dyn Fn() -> bool) -> Result<Pruned> {
        match self.config()?.auto_prune {
            true => self.prune_with(durable, has_time),
            false => Ok(Pruned::default()),
        }
    }
}

/// Bytes of segments. Each counts at most the limit of the format, whatever its file claims.
fn total<'a>(lens: impl Iterator<Item = &'a u64>) -> u64 {
    lens.map(|len| len.min(&SEGMENT_MAX)).sum()
}

/// Segments at which the log could begin.
struct Cuts {
    /// The segments, ascending, with their first rows. All rows before each of them are passed.
    at: Vec<(u64, Seq)>,
    /// Damage behind the last cut, where the ends of rows are unknown.
    damage: Option<Error>,
}

impl Files {
    fn cuts(&self, first_segment: u64, tail: u64, passed: Seq) -> Result<Cuts> {
        let mut cuts = Cuts {
            at: Vec::new(),
            damage: None,
        };
        let mut following = first_segment + 1;
        for number in self.numbers(following)? {
            if number > tail {
                break;
            }
            if number > following {
                cuts.damage = Some(damaged(following, 0, "the segment is missing"));
            }
            following = number + 1;
            match self.segment(number, OpenMode::Read) {
                Ok(Some(segment)) if segment.header.first_seq <= passed.saturating_add(1) => {
                    cuts.at.push((number, segment.header.first_seq));
                    // Earlier damage is pruned with its segment.
                    cuts.damage = None;
                }
                Ok(Some(_)) => return Ok(cuts),
                Ok(None) => cuts.damage = Some(damaged(number, 0, "the segment is missing")),
                Err(damage @ Error::Damaged { .. }) => cuts.damage = Some(damage),
                Err(e) => return Err(e),
            }
        }
        if following <= tail {
            cuts.damage = Some(damaged(following, 0, "the segment is missing"));
        }
        Ok(cuts)
    }

    /// The numbers in this range that have a file. The state and the end word can claim many more.
    fn within(&self, of: Range<u64>) -> Result<Vec<u64>> {
        let mut numbers = self.numbers(of.start)?;
        numbers.retain(|number| of.contains(number));
        Ok(numbers)
    }

    /// Bytes of the segments' files.
    fn sizes(&self, of: Range<u64>) -> Result<BTreeMap<u64, u64>> {
        let mut sizes = BTreeMap::new();
        for number in self.within(of)? {
            let file = self.open(&segment_name(number), OpenMode::Read)?;
            sizes.insert(number, file.map_or(Ok(0), |f| f.len())?);
        }
        Ok(sizes)
    }

    /// The locked files of these segments, so that no reader can open them; `None` if a reader is
    /// at one of them.
    fn locked_against_readers(
        &self,
        of: Range<u64>,
    ) -> Result<Option<BTreeMap<u64, Box<dyn File>>>> {
        let mut held = BTreeMap::new();
        for number in self.within(of)? {
            if let Some(file) = self.open(&segment_name(number), OpenMode::Write)? {
                if !file.try_lock(LockKind::Exclusive)? {
                    return Ok(None);
                }
                held.insert(number, file);
            }
        }
        Ok(Some(held))
    }
}

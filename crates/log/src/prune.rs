//! Giving back segments that nobody needs, off the writers' path.
//!
//! A segment goes when all its rows are applied durably (the caller says up to where), acknowledged
//! by every subscriber and decided, when enough other bytes are retained, when no reader is at it
//! or before it, and when all segments before it go too.
//!
//! The state names the first segment that stays, durably, before any file is touched. So whatever
//! becomes of the files in a power cut, what a subscriber acknowledged is durable before rows go
//! for it, and a segment is never missing between others.
//!
//! A header tells where the rows of the segment before it end. One that is damaged keeps nothing
//! but its own segment and that one from going, and these only until all that is up to a later
//! header may go. Until then it is told. The log never begins with a segment whose header is
//! damaged.

use crate::files::{Files, STATE_LOCK, damaged, no_state, segment_name};
use crate::format::{DATA_OFF, SEGMENT_MAX};
use crate::log::Log;
use crate::patience::usual;
use crate::recycle::{Pieces, finish, recycle};
use crate::{Error, Result, Seq};
use densite_disk::{File, LockKind, OpenMode};
use std::collections::BTreeMap;
use std::ops::Range;

/// What pruning did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Segments that went.
    pub segments: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// More would have gone, but a reader was there, or a subscriber has not acknowledged it.
    pub is_held: bool,
}

impl Log {
    /// Prunes what may go. `durable` is the last row whose effect the database holds durably:
    /// committed before a checkpoint that completed, and synced since (rule 4).
    ///
    /// # Errors
    /// `Full`, `Io`; `Damaged`, also where a damaged header keeps something from going:
    /// what else could go has gone. What was acknowledged or not stays true.
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
                // A reader holds the segment it is at. It needs all that follow too, so this is
                // where pruning ends.
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
            // Subscribers need not wait while files are removed.
            drop(lock);
            let pieces = Pieces::new(files, &shared.options, visible.word, has_time)?;
            shared.dir.is_in_place()?;
            recycle(files, state.first_segment, &shared.options, held, pieces)?;
        } else {
            drop(lock);
            self.finish_earlier(state.first_segment, has_time)?;
        }
        match cuts.damage {
            Some(damage) => Err(damage),
            None => Ok(pruned),
        }
    }

    /// Files of segments that were pruned and that whoever did it could not remove, or did not live
    /// to: there may be some without anything that could be pruned now.
    fn finish_earlier(&self, first_segment: u64, has_time: &dyn Fn() -> bool) -> Result<()> {
        let (files, options) = (&self.shared.dir.files, &self.shared.options);
        if files.has_pruned(first_segment)? {
            let word = self.shared.visible()?.word;
            finish(files, first_segment, options, word, has_time)?;
        }
        Ok(())
    }

    /// [`Log::prune`], if `auto_prune` is on. For whoever runs after writes: it looks at two small
    /// files and at the directory if there is nothing to do.
    ///
    /// # Errors
    /// As [`Log::prune`].
    pub fn auto_prune(&self, durable: Seq) -> Result<Pruned> {
        self.auto_prune_in_time(durable, &|| true)
    }

    /// [`Log::auto_prune`], which takes its time for the writers' sake (four seconds a segment) as
    /// long as `has_time` says so, and then comes to its end at once.
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

/// Bytes of segments, of which none has more than the format allows, whatever its file claims.
fn total<'a>(lens: impl Iterator<Item = &'a u64>) -> u64 {
    lens.map(|len| len.min(&SEGMENT_MAX)).sum()
}

/// Where the log could begin.
struct Cuts {
    /// Segments, ascending, and the first row of each: all rows before them are passed.
    at: Vec<(u64, Seq)>,
    /// Behind the last one nobody knows where rows end.
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
                    // Whatever it was, it goes.
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

    /// Those of these segments that are there: what the state and the end word claim may be many
    /// more.
    fn within(&self, of: Range<u64>) -> Result<Vec<u64>> {
        let mut numbers = self.numbers(of.start)?;
        numbers.retain(|number| of.contains(number));
        Ok(numbers)
    }

    /// Bytes of segments' files.
    fn sizes(&self, of: Range<u64>) -> Result<BTreeMap<u64, u64>> {
        let mut sizes = BTreeMap::new();
        for number in self.within(of)? {
            let file = self.open(&segment_name(number), OpenMode::Read)?;
            sizes.insert(number, file.map_or(Ok(0), |f| f.len())?);
        }
        Ok(sizes)
    }

    /// The files of segments, so that no reader comes to them; `None` if one is at one of them.
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

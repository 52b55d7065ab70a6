//! Frames of a unit, copied to new places: as they are stored, but for runs of which only some pages live.

use super::begun::Begun;
use super::live::Frame;
use super::recode::{Recoding, decode_at};
use crate::error::Result;
use crate::format::record::RECORD_LEN;
use crate::handle::Handle;
use crate::map::Entry;
use crate::shared::Shared;
use std::collections::BTreeSet;

/// How much of a unit a step moves.
pub(super) struct Part<'a> {
    /// Whether so many bytes are enough.
    pub(super) enough: &'a dyn Fn(u64) -> bool,
    /// What the pool is coding is left to it.
    pub(super) leave: bool,
}

/// What is on its way to new places.
#[derive(Default)]
pub(super) struct Moving {
    pub(super) moved: u64,
    pub(super) frames: BTreeSet<u64>,
}

impl Handle {
    /// Copies the frames of the unit, or a part of them: as much as the budget allows, and one at least unless the pool is at them. Returns whether
    /// none is left.
    pub(super) fn copy(
        &mut self,
        shared: &Shared,
        begun: &mut Begun,
        moving: &mut Moving,
        part: Option<Part<'_>>,
    ) -> Result<bool> {
        let part = part.as_ref();
        let later = begun.recoding.is_running() && part.is_some_and(|part| part.leave);
        let mut from = 0;
        while let Some((&off, next)) = begun.frames.range(from..).next() {
            let enough =
                part.is_some_and(|part| !moving.frames.is_empty() && (part.enough)(moving.moved));
            if enough {
                return Ok(false);
            }
            from = off + 1;
            if later && next.is_loose() {
                continue;
            }
            let Some(mut frame) = begun.frames.remove(&off) else {
                break;
            };
            // Others may have written its pages since it was found.
            {
                let state = shared.state.read();
                let mut lives = Vec::with_capacity(frame.pages.len());
                for (page, entry) in frame.pages {
                    if shared.lookup(&*self.file, &state, page)? == entry {
                        lives.push((page, entry));
                    }
                }
                frame.pages = lives;
            }
            // A frame that reaches into two units was moved with the first.
            if frame.pages.is_empty() || !moving.frames.insert(off) {
                continue;
            }
            self.copy_frame(shared, off, frame, moving, &mut begun.recoding)?;
        }
        Ok(begun.frames.is_empty())
    }

    fn copy_frame(
        &mut self,
        shared: &Shared,
        off: u64,
        frame: Frame,
        moving: &mut Moving,
        recoding: &mut Recoding,
    ) -> Result<()> {
        let len = (RECORD_LEN + frame.payload.len()) as u64;
        if frame.is_loose() {
            self.loosen(shared, off, &frame, recoding)?;
            moving.moved += (len * frame.pages.len() as u64) >> frame.record.run_log2;
            return Ok(());
        }
        moving.moved += len;
        self.append_frame(shared, frame.record, &frame.payload, |place| {
            let moved = |(page, entry)| {
                let off = place.off;
                (page, Entry { off, ..entry })
            };
            frame.pages.into_iter().map(moved).collect()
        })
    }

    /// Writes the living pages of a run anew: the others would be carried along for ever. Coded by the pool, if it was done with them.
    fn loosen(
        &mut self,
        shared: &Shared,
        off: u64,
        frame: &Frame,
        recoding: &mut Recoding,
    ) -> Result<()> {
        if let Some(coded) = recoding.take(off, frame)
            && self.place_coded(shared, &coded)?
        {
            return Ok(());
        }
        let dict = self.dict_of(shared, &frame.record)?;
        let raw = decode_at(off, &frame.record, &frame.payload, dict.as_deref())?;
        let page_size = 1usize << frame.record.page_log2;
        for (page, entry) in &frame.pages {
            let at = page_size * usize::from(entry.slot);
            let bytes = raw.get(at..at + page_size).unwrap_or_default();
            self.put_page(*page, bytes.into(), None)?;
        }
        Ok(())
    }
}

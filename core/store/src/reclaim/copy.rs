//! Copies frames of a unit to new places, as they are stored. Only runs with many dead pages are
//! encoded again.

use super::Reclaimer;
use crate::codec::Dictionary;
use crate::error::{Damage, Error, Result};
use crate::format::record::{RECORD_LEN, Record};
use crate::reclaim_state::{Begun, Frame, Recoding, Run, decode};
use crate::shared::Shared;
use crate::transaction::Transaction;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Limits the part of a unit that a step moves.
pub(super) struct Part<'a> {
    /// Whether so many bytes are enough.
    pub(super) enough: &'a dyn Fn(u64) -> bool,
    /// Frames that the pool is encoding are left for later.
    pub(super) leave: bool,
}

/// What a step has moved so far.
#[derive(Default)]
pub(super) struct Moving {
    pub(super) moved: u64,
    pub(super) frames: BTreeSet<u64>,
}

impl Reclaimer<'_> {
    /// Copies frames of the unit: all, or as many as the budget allows, but at least one unless the
    /// pool is encoding them. Returns whether all are copied.
    pub(super) fn copy(
        &mut self,
        (shared, transaction): (&Shared, &mut Transaction),
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
            // Other commits may have replaced pages since the frame was found.
            {
                let state = shared.state.read();
                let mut lives = Vec::with_capacity(frame.pages.len());
                for (page, entry) in frame.pages {
                    if shared.lookup(self.connection.open.file(), &state, page)? == entry {
                        lives.push((page, entry));
                    }
                }
                frame.pages = lives;
            }
            // A frame that spans two units was moved with the first.
            if frame.pages.is_empty() || !moving.frames.insert(off) {
                continue;
            }
            let target = (shared, &mut *transaction);
            self.copy_frame(target, off, frame, moving, &mut begun.recoding)?;
        }
        Ok(begun.frames.is_empty())
    }

    fn copy_frame(
        &mut self,
        (shared, transaction): (&Shared, &mut Transaction),
        off: u64,
        frame: Frame,
        moving: &mut Moving,
        recoding: &mut Recoding,
    ) -> Result<()> {
        let len = (RECORD_LEN + frame.payload.len()) as u64;
        if frame.is_loose() {
            self.loosen((shared, transaction), off, &frame, recoding)?;
            moving.moved += (len * frame.pages.len() as u64) >> frame.record.run_log2;
            return Ok(());
        }
        moving.moved += len;
        let stored = (frame.record, &*frame.payload);
        transaction.move_frame(self.connection, shared, stored, &frame.pages)
    }

    /// Writes the live pages of a run again, so that the dead ones are not copied each time. Uses
    /// the pool's result if it is ready.
    fn loosen(
        &mut self,
        (shared, transaction): (&Shared, &mut Transaction),
        off: u64,
        frame: &Frame,
        recoding: &mut Recoding,
    ) -> Result<()> {
        if let Some(encoded) = recoding.take(off, frame)
            && transaction.place_encoded(self.connection, shared, &encoded)?
        {
            return Ok(());
        }
        let dict = self.dict_of(shared, &frame.record)?;
        let raw = decode(&frame.record, &frame.payload, dict.as_deref());
        let raw = raw.map_err(|problem| damaged(off, &frame.record, problem))?;
        let page_size = 1usize << frame.record.page_log2;
        for (page, entry) in &frame.pages {
            let at = page_size * usize::from(entry.slot);
            let bytes = raw.get(at..at + page_size).unwrap_or_default();
            transaction.put_page(self.connection, *page, bytes.into(), None)?;
        }
        Ok(())
    }

    /// Queues in the pool the encoding of those frames that are loose, if there is a pool with
    /// room.
    pub(super) fn recode_ahead<'a>(
        &mut self,
        (shared, transaction): (&Shared, &Transaction),
        frames: impl Iterator<Item = (&'a u64, &'a Frame)>,
    ) -> Result<Recoding> {
        let Some(pool) = self.connection.open.pool().cloned() else {
            return Ok(Recoding::default());
        };
        let mut runs = Vec::new();
        for (off, frame) in frames.filter(|(_, frame)| frame.is_loose()) {
            runs.push(Run::new(*off, frame, self.dict_of(shared, &frame.record)?));
        }
        if runs.is_empty() {
            return Ok(Recoding::default());
        }
        let settings = transaction.encode_settings(self.connection)?;
        Ok(Recoding::start(runs, settings, &pool))
    }

    /// The dictionary that a frame needs.
    fn dict_of(&self, shared: &Shared, record: &Record) -> Result<Option<Arc<Dictionary>>> {
        match record.model {
            0 => Ok(None),
            id => {
                let state = shared.state.read();
                let file = self.connection.open.file();
                shared.dictionary(file, &state, id).map(Some)
            }
        }
    }
}

fn damaged(off: u64, record: &Record, problem: String) -> Error {
    Error::Corrupt(Damage {
        what: "frame".to_owned(),
        offset: off,
        page: Some(record.number),
        problem,
    })
}

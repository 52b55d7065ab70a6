//! Runs of which more than a quarter is dead are coded anew, without the dead pages, which takes longer than anything else that emptying a unit does. So while others write the pool does
//! it, between two commits, and a later step finds the frames ready.
//!
//! What was coded ahead is used as pre-encoded frames are (`preencoded`): for these pages, all of which must live where they did, and only while what they were coded by still holds. So it can
//! be late or of no use, and not wrong: what is not ready a step codes itself.

use super::live::Frame;
use crate::codec::family::Family;
use crate::codec::{self, CodecId, Dictionary};
use crate::encode::{EncodeSettings, Job, PreEncodedFrame, encode_batch};
use crate::error::{Damage, Error, Result};
use crate::format::record::{RECORD_LEN, Record, raw_check};
use crate::handle::Handle;
use crate::map::{Entry, NodeRef};
use crate::pending::PendingPage;
use crate::pool::Task;
use crate::shared::Shared;
use std::collections::HashMap;
use std::sync::Arc;

/// Runs coded anew, by their places: the pages that lived, and their frames.
pub(super) type Coded = HashMap<u64, (Vec<u32>, Vec<PreEncodedFrame>)>;

/// Runs that the pool codes anew.
#[derive(Default)]
pub(super) struct Recoding {
    task: Option<Task<Coded>>,
    ready: Coded,
}

impl Recoding {
    /// Whether the pool is still at it.
    pub(super) fn is_running(&mut self) -> bool {
        if let Some(task) = self.task.take_if(|task| task.is_done()) {
            self.ready = task.wait().unwrap_or_default();
        }
        self.task.is_some()
    }

    /// The frames of the run at `off`, if they are ready and all of its pages that were coded live still.
    pub(super) fn take(&mut self, off: u64, frame: &Frame) -> Option<Vec<PreEncodedFrame>> {
        let (pages, frames) = self.ready.remove(&off)?;
        let live = frame.pages.iter().map(|(page, _)| page);
        pages.iter().eq(live).then_some(frames)
    }
}

/// A run as the pool gets it.
struct Loose {
    off: u64,
    record: Record,
    payload: Vec<u8>,
    dict: Option<Arc<Dictionary>>,
    /// Pages that live, and their places in the run.
    pages: Vec<(u32, u8)>,
}

impl Loose {
    /// The bytes of the pages that live; `None` if they are not what their checksum says: whoever moves them will find out.
    fn pages(&self) -> Option<Vec<(u32, Arc<[u8]>)>> {
        let raw = decode(&self.record, &self.payload, self.dict.as_deref()).ok()?;
        let page_size = 1usize << self.record.page_log2;
        let bytes = |slot: u8| raw.chunks_exact(page_size).nth(usize::from(slot));
        let pages = self.pages.iter();
        pages
            .map(|(page, slot)| Some((*page, bytes(*slot)?.into())))
            .collect()
    }
}

impl Handle {
    /// Has the pool code these frames anew, as far as they are loose and there is a pool that takes it.
    pub(super) fn recode_ahead<'a>(
        &mut self,
        shared: &Shared,
        frames: impl Iterator<Item = (&'a u64, &'a Frame)>,
    ) -> Result<Recoding> {
        let Some(pool) = self.pool.clone() else {
            return Ok(Recoding::default());
        };
        let mut runs = Vec::new();
        for (off, frame) in frames.filter(|(_, frame)| frame.is_loose()) {
            runs.push(Loose {
                off: *off,
                record: frame.record,
                payload: frame.payload.clone(),
                dict: self.dict_of(shared, &frame.record)?,
                pages: frame.pages.iter().map(|(p, e)| (*p, e.slot)).collect(),
            });
        }
        if runs.is_empty() {
            return Ok(Recoding::default());
        }
        let settings = self.encode_settings()?;
        let task = Task::lazy(move || code(&runs, &settings));
        Ok(Recoding {
            task: task.offer(&pool).then_some(task),
            ready: Coded::new(),
        })
    }

    /// Appends frames that the pool has coded, if what they were coded by still holds for all of them.
    pub(super) fn place_coded(
        &mut self,
        shared: &Shared,
        coded: &[PreEncodedFrame],
    ) -> Result<bool> {
        let settings = self.encode_settings()?;
        if !coded.iter().all(|frame| frame.holds(&settings)) {
            return Ok(false);
        }
        for frame in coded {
            let record = Record {
                version: settings.version,
                ..frame.record
            };
            let pages = (record.number..).take(1 << record.run_log2).zip(0..);
            self.append_frame(shared, record, &frame.payload, |place| {
                let stored = pages.map(|(page, slot)| {
                    let entry = Entry {
                        off: place.off,
                        version: place.version,
                        len: place.len,
                        model: record.model,
                        codec: record.codec,
                        run_log2: record.run_log2,
                        slot,
                    };
                    (page, entry)
                });
                stored.collect()
            })?;
        }
        Ok(true)
    }

    /// Appends a frame to the pending commit; its pages get the entries that `entries` makes of its place.
    pub(super) fn append_frame(
        &mut self,
        shared: &Shared,
        record: Record,
        payload: &[u8],
        entries: impl FnOnce(NodeRef) -> Vec<(u32, Entry)>,
    ) -> Result<()> {
        let Some(p) = &mut self.pending else {
            return Err(Error::ReadOnly);
        };
        let mut writer = shared.writer.lock();
        let Some((_, space)) = &mut writer.space else {
            return Err(Error::ReadOnly);
        };
        let len = (RECORD_LEN + payload.len()) as u64;
        p.appender.make_room(space, len, p.commit)?;
        let place = p.appender.push(record, payload);
        drop(writer);
        for (page, entry) in entries(place) {
            p.pages.insert(page, PendingPage::Stored(entry));
        }
        p.appender.flush_if_long(&*self.file)
    }

    /// The dictionary that a frame needs.
    pub(super) fn dict_of(
        &self,
        shared: &Shared,
        record: &Record,
    ) -> Result<Option<Arc<Dictionary>>> {
        match record.model {
            0 => Ok(None),
            id => {
                let state = shared.state.read();
                shared.dictionary(&*self.file, &state, id).map(Some)
            }
        }
    }
}

/// On the pool. Whoever commits does not wait for it where both share a core: it gives way after each run, some 100 µs.
fn code(runs: &[Loose], settings: &EncodeSettings) -> Coded {
    let mut coded = Coded::new();
    for run in runs {
        let Some(pages) = run.pages() else { continue };
        let numbers = pages.iter().map(|(page, _)| *page).collect();
        let jobs = pages.into_iter().map(|(page, bytes)| Job {
            page,
            seq: 0,
            family: Family::of(&bytes),
            bytes,
            preencoded: None,
        });
        let frames = encode_batch(jobs.collect(), settings).into_iter();
        let frames = frames.map(|frame| PreEncodedFrame::of(frame, settings));
        coded.insert(run.off, (numbers, frames.collect()));
        std::thread::yield_now();
    }
    coded
}

/// The pages of a run, verified.
///
/// # Errors
/// What is wrong with them.
fn decode(
    record: &Record,
    payload: &[u8],
    dict: Option<&Dictionary>,
) -> std::result::Result<Vec<u8>, String> {
    let mut raw = vec![0; (1usize << record.page_log2) << record.run_log2];
    codec::decode(CodecId(record.codec), payload, dict, &mut raw)?;
    if raw_check(&raw) == record.raw_check {
        Ok(raw)
    } else {
        Err("the decoded page does not match its checksum".to_owned())
    }
}

/// The same, for whoever must have them.
///
/// # Errors
/// [`Error::Corrupt`].
pub(super) fn decode_at(
    off: u64,
    record: &Record,
    payload: &[u8],
    dict: Option<&Dictionary>,
) -> Result<Vec<u8>> {
    decode(record, payload, dict).map_err(|problem| {
        Error::Corrupt(Damage {
            what: "frame".to_owned(),
            offset: off,
            page: Some(record.number),
            problem,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::Kind;
    use crate::reclaim::begun::Begun;
    use std::collections::BTreeMap;

    #[test]
    fn the_pool_is_waited_for_a_while_and_only_while_it_is_at_it() {
        let at_it = Recoding {
            task: Some(Task::lazy(Coded::new)),
            ready: Coded::new(),
        };
        let mut begun = Begun::new(1, u64::MAX, at_it, BTreeMap::new());
        let mut steps = 0;
        while !begun.is_overdue() {
            assert!(begun.waits(2 << 10));
            steps += 1;
        }
        assert!((4..=32).contains(&steps), "{steps}");
        let mut done = Begun::new(1, u64::MAX, Recoding::default(), BTreeMap::new());
        assert!(!done.waits(u64::MAX) && !done.is_overdue());
    }

    #[test]
    fn what_was_coded_is_of_use_only_if_all_of_its_pages_live_still() {
        let frame = |pages: &[u32]| Frame {
            record: Record::plain(Kind::Frame, 5, 1),
            payload: Vec::new(),
            pages: pages.iter().map(|page| (*page, Entry::NONE)).collect(),
        };
        let coded = || Recoding {
            task: None,
            ready: Coded::from([(100, (vec![5, 6], Vec::new()))]),
        };
        assert!(coded().take(100, &frame(&[5, 6])).is_some());
        assert!(coded().take(100, &frame(&[5])).is_none());
        assert!(coded().take(200, &frame(&[5, 6])).is_none());
    }
}

//! Encodes runs again without their dead pages.
//!
//! This takes longer than the rest of emptying a unit. So while others write, the pool encodes
//! between two commits, and a later step finds the frames ready. They are used like pre-encoded
//! frames (`preencoded`), while their dictionary is valid. All of their pages must still be live in
//! the same place. A step encodes the other frames itself.

use super::frame::Frame;
use crate::codec::family::Family;
use crate::codec::{self, CodecId, Dictionary};
use crate::encode::{EncodeSettings, Job, PreEncodedFrame, encode_batch};
use crate::format::record::{Record, raw_check};
use crate::pool::{Pool, Task};
use std::collections::HashMap;
use std::sync::Arc;

/// Runs that were encoded again, by their places: the live pages, and their frames.
type Coded = HashMap<u64, (Vec<u32>, Vec<PreEncodedFrame>)>;

/// Runs that the pool encodes again.
#[derive(Default)]
pub(crate) struct Recoding {
    task: Option<Task<Coded>>,
    ready: Coded,
}

impl Recoding {
    /// Queues these runs in the pool, if there are any and it has room.
    pub(crate) fn start(runs: Vec<Run>, settings: EncodeSettings, pool: &Pool) -> Recoding {
        if runs.is_empty() {
            return Recoding::default();
        }
        let task = Task::lazy(move || code(&runs, &settings));
        Recoding {
            task: task.offer(pool).then_some(task),
            ready: Coded::new(),
        }
    }

    /// Whether the pool is still encoding.
    pub(crate) fn is_running(&mut self) -> bool {
        if let Some(task) = self.task.take_if(|task| task.is_done()) {
            self.ready = task.wait().unwrap_or_default();
        }
        self.task.is_some()
    }

    /// The frames of the run at `off`, if they are ready and all of its encoded pages are still
    /// live.
    pub(crate) fn take(&mut self, off: u64, frame: &Frame) -> Option<Vec<PreEncodedFrame>> {
        let (pages, frames) = self.ready.remove(&off)?;
        let live = frame.pages.iter().map(|(page, _)| page);
        pages.iter().eq(live).then_some(frames)
    }
}

/// A run as the pool gets it.
pub(crate) struct Run {
    off: u64,
    record: Record,
    payload: Vec<u8>,
    dict: Option<Arc<Dictionary>>,
    /// Live pages, and their places in the run.
    pages: Vec<(u32, u8)>,
}

impl Run {
    /// The run at `off`, coded with `dict`.
    pub(crate) fn new(off: u64, frame: &Frame, dict: Option<Arc<Dictionary>>) -> Run {
        Run {
            off,
            record: frame.record,
            payload: frame.payload.clone(),
            dict,
            pages: frame.pages.iter().map(|(p, e)| (*p, e.slot)).collect(),
        }
    }

    /// The bytes of the live pages. `None` if they do not match their checksum: the step that moves
    /// them finds that out.
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

/// Runs on the pool. It yields after each run, about 100 µs, so that a commit on the same core does
/// not wait for it.
fn code(runs: &[Run], settings: &EncodeSettings) -> Coded {
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
/// What is wrong with them, in a few words.
pub(crate) fn decode(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::Entry;
    use crate::format::record::Kind;
    use crate::reclaim_state::begun::Begun;
    use std::collections::BTreeMap;

    #[test]
    fn steps_wait_a_while_for_the_pool_and_only_while_it_encodes() {
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
    fn an_encoded_run_is_used_only_if_all_of_its_pages_are_still_live() {
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

//! Pre-encoded pages: the frames of a checkpoint, encoded before it
//! (docs/decisions/preencoded-pages.md). Pages on their way to the WAL are noted here, the pool
//! encodes them, and the checkpoint finds its frames ready.
//!
//! A pre-encoded frame is used only for a page of the same number and the same bytes, all of which
//! are compared, and if its dictionary is still valid ([`PreEncodedFrame::named`]). So a note
//! cannot cause a wrong result. [`YOUNGER`], [`untrained`] and [`KEPT_BYTES`] bound the work and
//! the memory. Callers never wait: if the lock is taken, they do without.

mod untrained;

use crate::codec::Dictionary;
use crate::codec::family::Family;
use crate::codec::learn::TrainingJob;
use crate::encode::{
    EncodeSettings, Frame, Job, PreEncodedFrame, ReadyFrame, are_linked, encode_batch, may_join,
};
use crate::heat::Heat;
use crate::pool::Pool;
use densite_disk::sync::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use untrained::Untrained;

/// The most raw bytes of pages kept: twice the WAL of 4 KiB pages at which SQLite checkpoints.
const BUDGET_BYTES: usize = 8 << 20;
/// The part of it for pages whose frames are ready. The rest is for pages that come meanwhile.
const KEPT_BYTES: usize = BUDGET_BYTES / 4 * 3;
/// The most bytes of frames and of what is known about their pages.
const FRAMES_BYTES: usize = 8 << 20;
/// The bytes that a frame takes in addition to its payload.
const FRAME_BYTES: usize = 192;
/// The pages noted last, which are likely to change again.
const YOUNGER: usize = 32;
/// A worker is woken if so many more pages wait.
const WORTH_WAKING: usize = 32;
/// The pages that a worker takes at a time,
const STRETCH: usize = 16;
/// and how often it does so before it goes to the end of the pool's queue.
const STRETCHES: usize = 8;
/// The most buffers kept for reuse.
const SPARE: usize = 64;

/// A page that was noted: its bytes, its frame, or both.
struct Noted {
    /// `None` if only the frame is kept.
    bytes: Option<Arc<[u8]>>,
    /// Distinguishes this note from later ones of the same page.
    seq: u64,
    frame: Option<Arc<PreEncodedFrame>>,
}

impl Noted {
    fn raw_bytes(&self) -> usize {
        self.bytes.as_ref().map_or(0, |bytes| bytes.len())
    }

    fn frame_bytes(&self) -> usize {
        let frame = self.frame.as_ref();
        frame.map_or(0, |frame| FRAME_BYTES + frame.payload.len())
    }
}

/// What is known about a page that is written to the database: a buffer with its bytes, and its
/// frame.
pub(crate) struct Known {
    pub(crate) bytes: Option<Arc<[u8]>>,
    pub(crate) found: Option<ReadyFrame>,
}

#[derive(Default)]
struct State {
    /// The settings of the last commit and its pool. `None` before the first commit and without a
    /// pool. Also has what was trained since.
    by: Option<(EncodeSettings, Arc<Pool>)>,
    /// How often the settings were renewed.
    round: u64,
    pages: HashMap<u32, Noted>,
    /// Bytes of all pages, and of those whose frames are ready.
    bytes: usize,
    kept: usize,
    frames: usize,
    /// The highest page number noted.
    highest: u32,
    /// Pages to encode, the oldest first. An entry is skipped if its page was noted again.
    waiting: VecDeque<(u32, u64)>,
    untrained: Untrained,
    seq: u64,
    /// A worker is busy or queued.
    running: bool,
    spare: Vec<Arc<[u8]>>,
}

/// The next task of a worker.
enum Work {
    Encode(Vec<Job>, EncodeSettings),
    Learn(TrainingJob, u64),
}

/// Pages on their way to a WAL, of one file in this process. See the module's documentation.
#[derive(Default)]
pub struct PreEncoded {
    state: Mutex<State>,
    /// Pages that the checkpoint stores raw.
    pub(crate) heat: Heat,
}

impl PreEncoded {
    /// Notes a page that is being written to the WAL. Never fails and never waits.
    pub fn note(self: &Arc<Self>, page: u32, bytes: &[u8]) {
        let Some(mut state) = self.state.try_lock() else {
            return;
        };
        let state = &mut *state;
        if state.by.is_none() {
            return;
        }
        let old = state.remove(page);
        if self.heat.is_hurried(page) {
            return;
        }
        if state.bytes + bytes.len() > BUDGET_BYTES || state.frames > FRAMES_BYTES {
            // The removed note of this page was out of date.
            return;
        }
        let copy = state.copy_of(bytes, old);
        state.bytes += bytes.len();
        state.seq += 1;
        state.highest = state.highest.max(page);
        state.waiting.push_back((page, state.seq));
        let noted = Noted {
            bytes: Some(copy),
            seq: state.seq,
            frame: None,
        };
        state.pages.insert(page, noted);
        // A page that changes often leaves many entries. They must not pile up while the pool is
        // busy.
        while let Some((page, seq)) = state.waiting.front()
            && state.pages.get(page).is_none_or(|noted| noted.seq != *seq)
        {
            state.waiting.pop_front();
        }
        if state.waiting.len() > YOUNGER + WORTH_WAKING && !state.running {
            self.send(state);
        }
    }

    /// Queues a worker in the pool.
    fn send(self: &Arc<Self>, state: &mut State) {
        let preencoded = Arc::clone(self);
        let pool = state.by.as_ref().map(|(_, pool)| pool);
        state.running =
            pool.is_some_and(|pool| pool.submit(Box::new(move || preencoded.work())).is_ok());
    }

    /// Drops everything. The WAL is restarted, so all pages noted are in the database.
    pub fn forget(&self) {
        if let Some(mut state) = self.state.try_lock() {
            let state = &mut *state;
            state.pages.clear();
            state.waiting.clear();
            state.untrained.clear();
            (state.bytes, state.kept, state.frames, state.highest) = (0, 0, 0, 0);
        }
    }

    /// Pages noted whose frames are ready.
    pub fn ready(&self) -> usize {
        let state = self.state.lock();
        state.pages.values().filter(|p| p.frame.is_some()).count()
    }

    /// Sets how commits encode now. Runs of several pages cannot be predicted, so they are not
    /// pre-encoded.
    pub(crate) fn renew(&self, set: &EncodeSettings, pool: Option<&Arc<Pool>>) {
        if let Some(mut state) = self.state.try_lock() {
            state.round += 1;
            state.untrained.clear();
            let mut set = set.clone();
            set.dicts = state.untrained.with_vain(&set.dicts);
            state.by = pool
                .filter(|_| set.run_pages == 1)
                .map(|pool| (set, Arc::clone(pool)));
        }
    }

    /// Takes what is known about a page that is written to the database as `bytes`.
    pub(crate) fn take(&self, page: u32, bytes: &[u8]) -> Option<Known> {
        let mut state = self.state.try_lock()?;
        let raw = state.pages.get(&page)?.bytes.as_ref();
        // Different bytes are of another version of the page, which may still come.
        if raw.is_some_and(|raw| **raw != *bytes) {
            return None;
        }
        let noted = state.remove(page)?;
        let compared = noted.bytes.is_some();
        Some(Known {
            found: noted.frame.map(|frame| ReadyFrame { frame, compared }),
            bytes: noted.bytes,
        })
    }

    /// Trains with and encodes pages that have waited long enough.
    fn work(self: &Arc<Self>) {
        for _ in 0..STRETCHES {
            let Some(work) = self.state.lock().next() else {
                self.state.lock().running = false;
                return;
            };
            match work {
                Work::Encode(jobs, set) => {
                    let frames = encode_batch(jobs, &set);
                    self.state.lock().lay(frames, &set);
                }
                Work::Learn(training_job, round) => {
                    let family = training_job.family;
                    let brought = training_job.train();
                    let mut state = self.state.lock();
                    let brought = brought.into_iter().map(|trained| {
                        let number = state.untrained.number();
                        Arc::new(Dictionary::new(number, trained.codec, trained.bytes))
                    });
                    let brought = brought.collect();
                    state.learned(family, brought, round);
                }
            }
        }
        // Queues itself again, so that other jobs get their turn.
        self.send(&mut self.state.lock());
    }
}

impl State {
    /// Removes a page.
    fn remove(&mut self, page: u32) -> Option<Noted> {
        let noted = self.pages.remove(&page)?;
        self.bytes -= noted.raw_bytes();
        if noted.frame.is_some() {
            self.kept -= noted.raw_bytes();
            self.frames -= noted.frame_bytes();
        }
        Some(noted)
    }

    /// A copy of a page, in a free buffer if there is one.
    fn copy_of(&mut self, page: &[u8], old: Option<Noted>) -> Arc<[u8]> {
        let buffer = old.and_then(|old| old.bytes).or_else(|| self.spare.pop());
        if let Some(mut buffer) = buffer
            && let Some(bytes) = Arc::get_mut(&mut buffer)
            && bytes.len() == page.len()
        {
            bytes.copy_from_slice(page);
            return buffer;
        }
        page.into()
    }

    /// The next task.
    fn next(&mut self) -> Option<Work> {
        let mut jobs = Vec::new();
        while self.waiting.len() > YOUNGER && jobs.len() < STRETCH {
            let (page, seq) = self.waiting.pop_front()?;
            let set = &self.by.as_ref()?.0;
            let Some(noted) = self.pages.get(&page).filter(|noted| noted.seq == seq) else {
                continue;
            };
            let Some(bytes) = &noted.bytes else { continue };
            let family = Family::of(bytes);
            let is_bulk = self.pages.len() > set.pages as usize;
            if is_bulk && set.dicts.get(&family).is_some_and(Vec::is_empty) {
                // The checkpoint has more pages to train on.
                self.remove(page);
                continue;
            }
            if !set.dicts.contains_key(&family) {
                let many = self.untrained.add(family, page, seq);
                if family != Family::OTHER
                    && let Some(training_job) = self.training_job(family, many)
                {
                    let back = jobs.into_iter().rev();
                    back.for_each(|job: Job| self.waiting.push_front((job.page, job.seq)));
                    return Some(Work::Learn(training_job, self.round));
                }
                if is_bulk || family != Family::OTHER && many > untrained::FIRST_PAGES {
                    continue;
                }
            }
            let joins = |neighbour: u32| {
                let other = self.pages.get(&neighbour).and_then(|o| o.bytes.as_ref());
                other.is_some_and(|other| may_join(set, bytes, other))
            };
            let linked = |first: u32, behind: u32| {
                let page = |page| self.pages.get(page)?.bytes.as_ref();
                let both = page(&first).zip(page(&behind));
                both.is_some_and(|(page, behind)| are_linked(first, page, behind))
            };
            let (before, behind) = (page.wrapping_sub(1), page.wrapping_add(1));
            if joins(before) || joins(behind) {
                continue;
            }
            // The checkpoint codes the pages of a chain together.
            if set.chains && (linked(before, page) || linked(page, behind)) {
                continue;
            }
            jobs.push(Job {
                page,
                seq,
                bytes: Arc::clone(bytes),
                family,
                preencoded: None,
            });
        }
        let mut set = self.by.as_ref()?.0.clone();
        // Each page gets its own frame, because it is not known which of them come together.
        (set.join, set.chains) = (false, false);
        // Without room for the pages, the checkpoint has to decode the frames anyway.
        let raw: usize = jobs.iter().map(|job| job.bytes.len()).sum();
        set.checked = self.kept + raw <= KEPT_BYTES;
        (!jobs.is_empty()).then_some(Work::Encode(jobs, set))
    }

    /// The training job of a family with so many waiting pages, if it is due.
    fn training_job(&self, family: Family, many: usize) -> Option<TrainingJob> {
        if many < untrained::FIRST_PAGES
            || !many.is_power_of_two() && many != untrained::FIRST_PAGES
        {
            return None;
        }
        let set = &self.by.as_ref()?.0;
        let still = self.untrained.of(family).filter_map(|(page, seq)| {
            let noted = self.pages.get(&page).filter(|noted| noted.seq == seq)?;
            noted.bytes.as_deref()
        });
        let page = still.clone().next().map_or(0, <[u8]>::len);
        let database = u64::from(self.highest.max(set.pages)) * page as u64;
        untrained::training_job(family, still, database, set)
    }

    /// Adds the result of a training job and queues its pages again. If a bulk load gets no result
    /// for them, they are left to the checkpoint.
    fn learned(&mut self, family: Family, brought: Vec<Arc<Dictionary>>, round: u64) {
        if brought.is_empty() {
            self.untrained.in_vain(family);
        }
        if round != self.round {
            return;
        }
        if let Some((set, _)) = &mut self.by {
            set.dicts = untrained::with(&set.dicts, family, brought);
        }
        for waited in self.untrained.take(family).into_iter().rev() {
            self.waiting.push_front(waited);
        }
    }

    /// Adds encoded frames to their notes.
    fn lay(&mut self, frames: Vec<Frame>, set: &EncodeSettings) {
        for frame in frames {
            let (page, seq) = (frame.record.number, frame.seqs.first().copied());
            let Some(noted) = self.pages.get_mut(&page).filter(|n| Some(n.seq) == seq) else {
                continue;
            };
            let raw = noted.raw_bytes();
            if noted.frame.is_some() {
                // It was encoded before its family was trained.
                self.kept -= raw;
                self.frames -= noted.frame_bytes();
            }
            noted.frame = Some(Arc::new(PreEncodedFrame::of(frame, set)));
            self.frames += noted.frame_bytes();
            if set.checked {
                self.kept += raw;
            } else if let Some(bytes) = noted.bytes.take() {
                self.bytes -= raw;
                if self.spare.len() < SPARE {
                    self.spare.push(bytes);
                }
            }
        }
    }
}

#[cfg(test)]
mod stale;
#[cfg(test)]
mod tests;

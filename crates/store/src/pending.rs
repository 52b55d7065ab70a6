//! The writes of a handle that nobody else sees yet.
//!
//! Pages collect in a batch; full batches are encoded on the pool and appended as frames when they come back, in order. So a bulk load
//! takes little memory, however large: what stays is the entry of each page.

use crate::append::Appender;
use crate::codec::choice::{Chooser, Pages, TrainedFamilies};
use crate::codec::family::Family;
use crate::codec::{self, Encoded};
use crate::format::record::{Kind, RECORD_LEN, Record, raw_check};
use crate::format::tip::{TIP_LEN, Tip};
use crate::format::trailer::{DictInfo, HEAD_LEN};
use crate::map::Entry;
use crate::options::CodecChoice;
use crate::pool::Task;
use crate::preencoded::ReadyFrame;
use crate::sparse;
use densite_typed::PageContext;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Raw bytes of a batch.
pub(crate) const BATCH_BYTES: usize = 128 << 10;
/// Most bytes of buffers kept to be filled again.
const SPARE_BYTES: usize = 2 * BATCH_BYTES;

/// The state of a written page.
pub(crate) enum PendingPage {
    /// In a batch, encoded or not; `seq` tells this write from later ones of the same page.
    Raw { seq: u64, bytes: Arc<[u8]> },
    /// Appended as a frame.
    Stored(Entry),
}

/// Pages waiting to be encoded.
pub(crate) struct Job {
    pub(crate) page: u32,
    pub(crate) seq: u64,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) family: Family,
    /// It was encoded before.
    pub(crate) preencoded: Option<ReadyFrame>,
}

/// An encoded frame, without a place yet.
pub(crate) struct Frame {
    pub(crate) record: Record,
    pub(crate) payload: Vec<u8>,
    pub(crate) seqs: Vec<u64>,
    pub(crate) family: Family,
}

impl Frame {
    /// Bytes of its record.
    pub(crate) fn record_len(&self) -> usize {
        RECORD_LEN + self.payload.len()
    }
}

/// The writes of one handle since it last published.
pub(crate) struct Pending {
    pub(crate) pages: HashMap<u32, PendingPage>,
    /// The tip block when this was begun.
    pub(crate) tip_before: [u8; TIP_LEN],
    /// The last attempt at publishing this, if it was not published and may be whole in the file: see `attempt`.
    pub(crate) tried: Option<Tip>,
    pub(crate) page_size: u32,
    pub(crate) logical_len: u64,
    /// Of the published pages, only those up to this number may still be seen: the database was at times no longer than that.
    pub(crate) visible: u64,
    pub(crate) head: [u8; HEAD_LEN],
    pub(crate) batch: Vec<Job>,
    pub(crate) batch_bytes: usize,
    pub(crate) inflight: VecDeque<Task<Vec<Frame>>>,
    pub(crate) appender: Appender,
    /// The number the commit will have; also the version of its frames.
    pub(crate) commit: u64,
    pub(crate) seq: u64,
    pub(crate) new_dicts: Vec<DictInfo>,
    /// Every byte of a page is kept: what is written was stored before, and is not known to be as SQLite wrote it just now.
    pub(crate) keep_all: bool,
    /// Some write failed for lack of space: pages that are written back as they were are dropped rather than appended.
    pub(crate) pressed: bool,
    /// Buffers of pages that are frames by now, to be filled again.
    pub(crate) spare: Vec<Arc<[u8]>>,
}

/// Settings of encoding, for the pool.
#[derive(Clone)]
pub(crate) struct EncodeSettings {
    pub(crate) level: i32,
    pub(crate) choice: CodecChoice,
    pub(crate) run_pages: u32,
    /// Sparse pages may share a frame beyond that.
    pub(crate) join: bool,
    pub(crate) dicts: Arc<TrainedFamilies>,
    pub(crate) version: u64,
    /// Pages that the database has, or is about to have.
    pub(crate) pages: u32,
    /// Bytes at the end of each page that SQLite leaves to others.
    pub(crate) reserved: usize,
    /// Pages are decoded again and compared, as all must be before they are gone; frames that are not have no checksum of their page yet.
    pub(crate) checked: bool,
}

/// Encodes a batch: sparse neighbours joined where that is smaller, runs where adjacent, aligned pages allow it, single pages otherwise.
pub(crate) fn encode_batch(jobs: Vec<Job>, set: &EncodeSettings) -> Vec<Frame> {
    let mut batch = Batch {
        set,
        chooser: Chooser::new(set.level, set.choice, &set.dicts, set.checked),
        kept: Vec::new(),
        coded: Vec::new(),
    };
    let mut frames = Vec::with_capacity(jobs.len());
    let used = sparse::used(&jobs, set);
    let mut rest = jobs.as_slice();
    while !rest.is_empty() {
        let used = used.get(jobs.len() - rest.len()..).unwrap_or_default();
        let group = sparse::join_len(rest, used, set);
        let n = match group {
            1 => run_len(rest, set.run_pages),
            n => n,
        };
        let (now, later) = rest.split_at(n.min(rest.len()));
        rest = later;
        let before = frames.len();
        batch.runs(now, &mut frames);
        let apart = frames.get(before..).unwrap_or_default();
        if group > 1
            && let Some(joined) = batch.joined(now)
            && joined.record_len() < apart.iter().map(Frame::record_len).sum()
        {
            frames.truncate(before);
            frames.push(joined);
        }
    }
    frames
}

/// A batch that is being encoded.
struct Batch<'a> {
    set: &'a EncodeSettings,
    chooser: Chooser<'a>,
    /// What decoding the last frame gives, and its payload.
    kept: Vec<u8>,
    coded: Vec<u8>,
}

impl Batch<'_> {
    /// Encodes jobs as runs and single pages.
    fn runs(&mut self, jobs: &[Job], frames: &mut Vec<Frame>) {
        let set = self.set;
        let mut rest = jobs;
        while let Some(first) = rest.first() {
            let run = run_len(rest, set.run_pages);
            let (now, later) = rest.split_at(run.min(rest.len()));
            rest = later;
            if run == 1
                && let Some(frame) = self.preencoded(first)
            {
                frames.push(frame);
                continue;
            }
            frames.extend(self.frame(now, |chooser, pages, kept, coded| {
                Some(chooser.encode(pages, kept, coded))
            }));
        }
    }

    /// The frame of a page that was encoded before, if it holds and is that page's.
    fn preencoded(&mut self, job: &Job) -> Option<Frame> {
        let ReadyFrame { frame, compared } = job.preencoded.as_ref()?;
        let dict = frame.named(self.set)?;
        let page = (job.page, &*job.bytes);
        let raw_check = if *compared {
            frame.record.raw_check
        } else {
            let same = frame.is_of(page, dict.map(|d| &**d), self.set, &mut self.kept);
            same.then(|| raw_check(&self.kept))?
        };
        Some(Frame {
            record: Record {
                version: self.set.version,
                model: dict.map_or(0, |d| d.id()),
                raw_check,
                ..frame.record
            },
            payload: frame.payload.clone(),
            seqs: vec![job.seq],
            family: frame.family,
        })
    }

    /// Encodes jobs as one frame of joined pages, if they can be.
    fn joined(&mut self, jobs: &[Job]) -> Option<Frame> {
        self.frame(jobs, |chooser, pages, kept, coded| {
            let settings = chooser.settings(pages.family);
            codec::encode_joined(
                pages.raw,
                pages.page_size,
                &pages.context,
                &settings,
                kept,
                coded,
            )
        })
    }

    /// Encodes jobs as one frame by `encode`, which fills what decoding gives and the payload.
    fn frame(
        &mut self,
        jobs: &[Job],
        encode: impl FnOnce(&mut Chooser<'_>, &Pages<'_>, &mut Vec<u8>, &mut Vec<u8>) -> Option<Encoded>,
    ) -> Option<Frame> {
        let (first, set) = (jobs.first()?, self.set);
        let joined: Vec<u8>;
        let raw: &[u8] = if jobs.len() == 1 {
            &first.bytes
        } else {
            joined = jobs.iter().flat_map(|j| j.bytes.iter().copied()).collect();
            &joined
        };
        let pages = Pages {
            raw,
            page_size: first.bytes.len(),
            context: PageContext {
                number: first.page,
                pages: set.pages,
                reserved: set.reserved,
            },
            family: first.family,
        };
        self.coded.clear();
        let coded = encode(&mut self.chooser, &pages, &mut self.kept, &mut self.coded)?;
        // Frames wait for their turn, by the thousand at times: none holds more than it needs.
        let payload = self.coded.clone();
        let record = Record {
            codec: coded.codec.0,
            page_log2: first.bytes.len().trailing_zeros() as u8,
            run_log2: jobs.len().trailing_zeros() as u8,
            stored_len: payload.len() as u32,
            model: coded.dict_id,
            raw_check: if set.checked {
                raw_check(&self.kept)
            } else {
                0
            },
            ..Record::plain(Kind::Frame, first.page, set.version)
        };
        Some(Frame {
            record,
            payload,
            seqs: jobs.iter().map(|j| j.seq).collect(),
            family: first.family,
        })
    }
}

/// How many of the first jobs make one frame: as many adjacent pages of one family as follow, up to `run_pages`, a power of
/// two and aligned to it.
fn run_len(jobs: &[Job], run_pages: u32) -> usize {
    let Some(first) = jobs.first() else { return 1 };
    let mut n = run_pages.max(1) as usize;
    while n > 1 {
        let aligned = (first.page as usize - 1).is_multiple_of(n);
        if aligned && let Some(run) = jobs.get(..n) {
            let alike = |(job, page): (&Job, u32)| job.page == page && job.family == first.family;
            if run.iter().zip(first.page..).all(alike) {
                return n;
            }
        }
        n /= 2;
    }
    1
}

impl Pending {
    /// Pages of the database as it is about to be.
    pub(crate) fn page_count(&self) -> u32 {
        u32::try_from(self.logical_len.div_ceil(u64::from(self.page_size))).unwrap_or(u32::MAX)
    }

    /// A copy of a page, in a buffer that nobody needs any more where there is one.
    pub(crate) fn copy_of(&mut self, page: &[u8]) -> Arc<[u8]> {
        if let Some(mut spare) = self.spare.pop()
            && let Some(bytes) = Arc::get_mut(&mut spare)
            && bytes.len() == page.len()
        {
            bytes.copy_from_slice(page);
            return spare;
        }
        page.into()
    }

    /// Places encoded frames: what was overwritten or cut off meanwhile is dropped.
    pub(crate) fn append_frames(
        &mut self,
        frames: &[Frame],
        space: &mut crate::space::Space,
    ) -> crate::Result<()> {
        for frame in frames {
            let first = frame.record.number;
            // The pages come last: what follows the highest page there can be has no number.
            let current = |(seq, page): (&u64, u32)| matches!(self.pages.get(&page), Some(PendingPage::Raw { seq: s, .. }) if s == seq);
            if !frame.seqs.iter().zip(first..).any(current) {
                continue;
            }
            let len = (RECORD_LEN + frame.payload.len()) as u64;
            self.appender.make_room(space, len, self.commit)?;
            let place = self.appender.push(frame.record, &frame.payload);
            let (model, codec, run_log2) = (
                frame.record.model,
                frame.record.codec,
                frame.record.run_log2,
            );
            for ((seq, page), slot) in frame.seqs.iter().zip(first..).zip(0..) {
                if let Some(p) = self.pages.get_mut(&page)
                    && matches!(p, PendingPage::Raw { seq: s, .. } if s == seq)
                {
                    let stored = PendingPage::Stored(Entry {
                        off: place.off,
                        version: place.version,
                        len: place.len,
                        model,
                        codec,
                        run_log2,
                        slot,
                    });
                    if let PendingPage::Raw { bytes, .. } = std::mem::replace(p, stored)
                        && self.spare.len() * bytes.len() < SPARE_BYTES
                    {
                        self.spare.push(bytes);
                    }
                }
            }
        }
        Ok(())
    }
}

//! Encodes pages into frames: alone, in runs of adjacent pages, or joined if they are sparse.
//!
//! Encoding needs no file and no lock, so it runs on the pool. A frame gets its place when it is
//! appended.

mod encode_settings;
mod job;
mod ready;
mod runs;
mod sparse;

pub(crate) use encode_settings::{DEFAULT_PAGE, EncodeSettings, Frame, RESERVED_AT};
pub(crate) use job::Job;
pub(crate) use ready::{PreEncodedFrame, ReadyFrame, UNNAMED};
pub(crate) use runs::{are_linked, whole_runs};
pub(crate) use sparse::may_join;

use crate::codec::dictionary_choice::{Chooser, Pages};
use crate::codec::{self, Encoded};
use crate::format::record::{Kind, Record, raw_check};
use crate::options::CodecChoice;
use densite_typed::PageContext;

/// Encodes a batch: joins sparse adjacent pages if that is smaller, makes runs of adjacent pages
/// (see [`runs`]), and encodes the others one by one.
pub(crate) fn encode_batch(jobs: Vec<Job>, set: &EncodeSettings) -> Vec<Frame> {
    let mut batch = Batch::new(set);
    let mut frames = Vec::with_capacity(jobs.len());
    let used = sparse::used(&jobs, set);
    let mut rest = jobs.as_slice();
    while !rest.is_empty() {
        let used = used.get(jobs.len() - rest.len()..).unwrap_or_default();
        let group = sparse::join_len(rest, used, set);
        let n = match group {
            1 => runs::run_len(rest, set),
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

/// Makes a raw frame of each page.
pub(crate) fn raw_frames(jobs: &[Job], set: &EncodeSettings) -> Vec<Frame> {
    let raw = EncodeSettings {
        choice: CodecChoice::Raw,
        run_pages: 1,
        join: false,
        ..set.clone()
    };
    let mut batch = Batch::new(&raw);
    let mut frames = Vec::with_capacity(jobs.len());
    batch.runs(jobs, &mut frames);
    for frame in &mut frames {
        frame.hurried = true;
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

impl<'a> Batch<'a> {
    fn new(set: &'a EncodeSettings) -> Batch<'a> {
        Batch {
            set,
            chooser: Chooser::new(set.level, set.choice, &set.dicts, set.checked),
            kept: Vec::new(),
            coded: Vec::new(),
        }
    }

    /// Encodes jobs as runs and single pages.
    fn runs(&mut self, jobs: &[Job], frames: &mut Vec<Frame>) {
        let set = self.set;
        let mut rest = jobs;
        while let Some(first) = rest.first() {
            let run = runs::run_len(rest, set);
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

    /// The pre-encoded frame of a page, if it is valid and is that page's.
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
            hurried: false,
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

    /// Encodes jobs as one frame with `encode`, which fills in the decoded pages and the payload.
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
            family: runs::family(jobs),
        };
        self.coded.clear();
        let coded = encode(&mut self.chooser, &pages, &mut self.kept, &mut self.coded)?;
        // Thousands of frames can wait to be appended, so none keeps spare capacity.
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
            family: pages.family,
            hurried: false,
        })
    }
}

//! Runs of which more than a quarter is dead are coded anew, page by page, which takes longer than anything else that emptying a unit does. So while others write the pool does
//! it, between two commits, and the next step finds the frames ready.
//!
//! What was coded ahead is used as what was coded early is (`early`): for these bytes, and only while what they were coded by still holds. So it can be late or of no
//! use, and not wrong: what is not ready a step codes itself.

use super::look::Frame;
use crate::codec::family::Family;
use crate::codec::{self, CodecId, Dictionary};
use crate::early::EarlyFrame;
use crate::error::{Damage, Error, Result};
use crate::format::record::{Record, raw_check};
use crate::handle::Handle;
use crate::pending::{EncodeSettings, Job, encode_batch};
use crate::pool::Task;
use crate::shared::Shared;
use std::collections::HashMap;
use std::sync::Arc;

/// Pages coded anew, by their numbers: the bytes, and the frame.
pub(super) type Coded = HashMap<u32, (Arc<[u8]>, Arc<EarlyFrame>)>;

/// Pages that the pool codes anew.
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

    /// A page, if it is ready.
    pub(super) fn take(&mut self, page: u32) -> Option<(Arc<[u8]>, Arc<EarlyFrame>)> {
        self.ready.remove(&page)
    }
}

/// A run as the pool gets it.
struct Loose {
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
        frames: impl Iterator<Item = &'a Frame>,
    ) -> Result<Recoding> {
        let Some(pool) = self.pool.clone() else {
            return Ok(Recoding::default());
        };
        let mut runs = Vec::new();
        for frame in frames.filter(|frame| frame.is_loose()) {
            runs.push(Loose {
                record: frame.record,
                payload: frame.payload.clone(),
                dict: self.dict_of(shared, &frame.record)?,
                pages: frame.pages.iter().map(|(p, e)| (*p, e.slot)).collect(),
            });
        }
        if runs.is_empty() {
            return Ok(Recoding::default());
        }
        let settings = EncodeSettings {
            run_pages: 1,
            join: false,
            ..self.encode_settings()?
        };
        let task = Task::lazy(move || code(&runs, &settings));
        Ok(Recoding {
            task: task.offer(&pool).then_some(task),
            ready: Coded::new(),
        })
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

/// On the pool.
fn code(runs: &[Loose], settings: &EncodeSettings) -> Coded {
    let mut coded = Coded::new();
    for (page, bytes) in runs.iter().filter_map(Loose::pages).flatten() {
        let job = Job {
            page,
            seq: 0,
            bytes: Arc::clone(&bytes),
            family: Family::of(&bytes),
            early: None,
        };
        if let Some(frame) = encode_batch(vec![job], settings).into_iter().next() {
            coded.insert(page, (bytes, Arc::new(EarlyFrame::of(frame, settings))));
        }
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

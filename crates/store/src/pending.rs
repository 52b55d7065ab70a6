//! The writes of a handle that nobody else sees yet.
//!
//! Pages collect in a batch; full batches are encoded on the pool and appended as frames when they come back, in order. So a bulk load
//! takes little memory, however large: what stays is the entry of each page.

use crate::append::Appender;
use crate::encode::{Frame, Job};
use crate::format::record::RECORD_LEN;
use crate::format::tip::{TIP_LEN, Tip};
use crate::format::trailer::{DictInfo, HEAD_LEN};
use crate::map::Entry;
use crate::pool::Task;
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

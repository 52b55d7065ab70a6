//! Places encoded frames.

use super::Transaction;
use crate::connection::Connection;
use crate::encode::Frame;
use crate::error::Result;
use crate::format::entry::{Entry, NodeRef};
use crate::format::record::{RECORD_LEN, Record};
use crate::shared::Shared;
use crate::space::Space;
use std::sync::Arc;

/// The most bytes of buffers kept for reuse.
const SPARE_BYTES: usize = 256 << 10;

impl Transaction {
    /// A copy of a page, in a spare buffer if there is one.
    pub(super) fn copy_of(&mut self, page: &[u8]) -> Arc<[u8]> {
        if let Some(mut spare) = self.spare.pop()
            && let Some(bytes) = Arc::get_mut(&mut spare)
            && bytes.len() == page.len()
        {
            bytes.copy_from_slice(page);
            return spare;
        }
        page.into()
    }

    /// Keeps a buffer for reuse.
    pub(super) fn keep_spare(&mut self, buffer: Arc<[u8]>) {
        if self.spare.len() * buffer.len() < SPARE_BYTES {
            self.spare.push(buffer);
        }
    }

    /// Appends encoded frames. Frames whose pages were all overwritten or cut off meanwhile are
    /// dropped.
    pub(super) fn append_frames(&mut self, frames: &[Frame], space: &mut Space) -> Result<()> {
        for frame in frames {
            let first = frame.record.number;
            // The page numbers are the second iterator, which must not run further than the first:
            // there is no number after the highest page.
            let current = |(seq, page): (&u64, u32)| self.pages.is_sent(page, *seq);
            if !frame.seqs.iter().zip(first..).any(current) {
                continue;
            }
            let len = (RECORD_LEN + frame.payload.len()) as u64;
            self.appender.make_room(space, len, self.commit)?;
            if self.holds_back {
                self.part.begins(|| self.appender.mark());
            }
            let place = self.appender.push(frame.record, &frame.payload);
            let (model, codec, run_log2) = (
                frame.record.model,
                frame.record.codec,
                frame.record.run_log2,
            );
            if model != 0 {
                *self.dict_uses.entry(model).or_default() += frame.seqs.len() as i64;
            }
            for ((seq, page), slot) in frame.seqs.iter().zip(first..).zip(0..) {
                let entry = Entry {
                    off: place.off,
                    version: place.version,
                    len: place.len,
                    model,
                    codec,
                    run_log2,
                    slot,
                };
                if let Some(buffer) = self.pages.encoded(page, *seq, entry) {
                    self.keep_spare(buffer);
                }
            }
        }
        Ok(())
    }

    /// Notes where a frame was placed, for those of its pages whose bit is set in `live`.
    pub(super) fn note_run(&mut self, record: &Record, place: NodeRef, live: u64) {
        for (page, slot) in (record.number..).take(1 << record.run_log2).zip(0u8..) {
            if live >> slot & 1 == 1 {
                let entry = Entry {
                    off: place.off,
                    version: place.version,
                    len: place.len,
                    model: record.model,
                    codec: record.codec,
                    run_log2: record.run_log2,
                    slot,
                };
                self.pages.store(page, entry);
            }
        }
    }

    /// Appends one frame and returns its place.
    ///
    /// # Errors
    /// I/O, a full disk.
    pub(super) fn append_frame(
        &mut self,
        connection: &Connection,
        shared: &Shared,
        record: Record,
        payload: &[u8],
    ) -> Result<NodeRef> {
        let mut writer = shared.writer.lock();
        let mut none = Space::default();
        let space = writer.accounting.space_mut().unwrap_or(&mut none);
        let len = (RECORD_LEN + payload.len()) as u64;
        self.appender.make_room(space, len, self.commit)?;
        let place = self.appender.push(record, payload);
        drop(writer);
        self.appender.flush_if_long(connection.open.file())?;
        Ok(place)
    }
}

//! Copies ranges of the file into an object, as of a restore point, while others write the file.
//!
//! Ranges are copied without a lock. Then those that were written meanwhile are copied again, until
//! so little is left that it is read at once and proved with [`Source::is_kept`]
//! (`core/store/src/handle/image.rs` says why that suffices). Later extents of an object win.

use crate::error::{Error, Result};
use crate::extents::{Sink, Writer};
use crate::source::Source;
use densite_disk::wait::pause;
use densite_log::Image;
use densite_store::{CommitId, Written, joined};
use std::time::Duration;

/// Bytes of one read. After each it is asked what was written meanwhile, while the commits since are
/// still known.
const CHUNK: u64 = 1 << 20;
/// So many bytes are read at once and proved.
const LAST: u64 = 8 << 20;
/// The most rounds. A database whose every round fails is written faster than it can be read.
const ROUNDS: u32 = 100;

/// The time between two attempts to take a restore point.
const WAIT: Duration = Duration::from_millis(50);

/// Ranges of the file, start and end, in ascending order.
pub(crate) type Ranges = Vec<(u64, u64)>;

/// How many bytes the ranges have.
pub(crate) fn total(ranges: &Ranges) -> u64 {
    ranges.iter().map(|(start, end)| end - start).sum()
}

/// What became of a copy.
pub(crate) enum Copied {
    /// It is the file as of this commit, which had so many bytes, with this log.
    Whole(CommitId, u64, Option<Box<Image>>),
    /// Readers hold back the next restore point.
    HeldBack,
    /// It cannot be told what was written meanwhile.
    Lost,
}

/// A copy in progress.
pub(crate) struct Assembly<'a, S> {
    source: &'a mut dyn Source,
    writer: &'a mut Writer<S>,
    /// `pending` is what is missing of the file as of this commit.
    at: CommitId,
    pending: Ranges,
    /// The log as of the last restore point.
    log: Option<Image>,
    /// Whether `at` is a restore point.
    is_point: bool,
    progress: &'a mut dyn FnMut(u64) -> bool,
    /// Whether it waits while readers hold back the restore point.
    waits: bool,
    /// Ranges that are copied again at the end.
    repeated: Ranges,
}

impl<'a, S: Sink> Assembly<'a, S> {
    /// Begins with the ranges that are missing as of `at`. `progress` gets the bytes that were
    /// copied, and stops the work by returning false.
    pub(crate) fn new(
        source: &'a mut dyn Source,
        writer: &'a mut Writer<S>,
        at: CommitId,
        pending: Ranges,
        progress: &'a mut dyn FnMut(u64) -> bool,
    ) -> Self {
        Assembly {
            source,
            writer,
            at,
            pending,
            log: None,
            is_point: false,
            progress,
            waits: false,
            repeated: Ranges::new(),
        }
    }

    /// Makes it copy ranges again at the end, so that one read of the end of the object has them.
    pub(crate) fn repeating(mut self, ranges: Ranges) -> Self {
        self.repeated = ranges;
        self
    }

    /// Makes it wait while readers hold back the restore point: much was copied until then.
    pub(crate) fn waiting(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Says that `at` is a restore point, with this log. That spares taking another one.
    pub(crate) fn at_point(mut self, log: Option<Image>) -> Self {
        self.log = log;
        self.is_point = true;
        self
    }

    /// Copies.
    ///
    /// # Errors
    /// The bucket's and the source's; [`Error::TooFast`], [`Error::Stopped`].
    pub(crate) fn run(mut self) -> Result<Copied> {
        for _ in 0..ROUNDS {
            if total(&self.pending) > LAST {
                self.is_point = false;
                if !self.copy_pending()? {
                    return Ok(Copied::Lost);
                }
                continue;
            }
            if !self.is_point {
                let Some(point) = self.point()? else {
                    return Ok(Copied::HeldBack);
                };
                if !self.follow(&point)? {
                    return Ok(Copied::Lost);
                }
                if total(&self.pending) > LAST {
                    continue;
                }
            }
            let Some(len) = self.source.image_len(&self.at)? else {
                return Ok(Copied::Lost);
            };
            let mut read = self.read_ranges(&self.pending.clone(), len)?;
            read.extend(self.read_ranges(&self.repeated.clone(), len)?);
            if self.source.is_kept(&self.at)? {
                for (offset, bytes) in read {
                    self.writer.put(offset, &bytes)?;
                }
                for (offset, bytes) in densite_store::preamble(&self.at) {
                    self.writer.put(offset, &bytes)?;
                }
                return Ok(Copied::Whole(self.at, len, self.log.map(Box::new)));
            }
            self.is_point = false;
        }
        Err(Error::TooFast)
    }

    /// Takes a restore point.
    fn point(&mut self) -> Result<Option<CommitId>> {
        loop {
            let point = self.source.restore_point()?;
            self.log = self.source.take_log();
            if point.is_some() || !self.waits {
                return Ok(point);
            }
            if !(self.progress)(self.writer.body_len()) {
                return Err(Error::Stopped);
            }
            pause(WAIT);
        }
    }

    /// Adds what was written up to `to`. Returns false if that cannot be told.
    fn follow(&mut self, to: &CommitId) -> Result<bool> {
        if *to == self.at {
            return Ok(true);
        }
        let Written::Ranges(more) = self.source.written(&self.at, to)? else {
            return Ok(false);
        };
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend(more);
        self.pending = joined(pending);
        self.at = *to;
        Ok(true)
    }

    /// Copies all pending ranges. Those that are written meanwhile are pending then. Returns false if that
    /// cannot be told.
    fn copy_pending(&mut self) -> Result<bool> {
        for (start, end) in std::mem::take(&mut self.pending) {
            let mut at = start;
            while at < end {
                let len = CHUNK.min(end - at);
                let bytes = self.read(at, len)?;
                self.writer.put(at, &bytes)?;
                if !(self.progress)(self.writer.body_len()) {
                    return Err(Error::Stopped);
                }
                at += len;
                if !self.follow_newest()? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn follow_newest(&mut self) -> Result<bool> {
        match self.source.newest()? {
            Some(newest) => self.follow(&newest),
            None => Ok(false),
        }
    }

    /// The bytes of ranges before `len`.
    fn read_ranges(&mut self, ranges: &Ranges, len: u64) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut read = Vec::with_capacity(ranges.len());
        for (start, end) in ranges {
            let (start, end) = (*start, (*end).min(len));
            if start < end {
                read.push((start, self.read(start, end - start)?));
            }
        }
        Ok(read)
    }

    /// Reads bytes of the file, fewer at its end.
    fn read(&mut self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let n = self.source.read(&mut bytes, offset)?;
        bytes.truncate(n);
        Ok(bytes)
    }
}

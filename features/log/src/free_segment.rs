//! Files for new segments: pruned segments that are recycled, or new files.
//!
//! Writing over blocks that were written before changes no metadata, so a data sync is one write.
//! So a pruned segment is kept as a free segment. If there is no free segment, one is prepared
//! while the current segment fills.
//!
//! Invariant: a writer to a free segment holds its lock exclusively. So no reader that still has
//! the old segment open is disturbed.

use crate::Result;
use crate::files::{FREE_SEGMENT, Files, NEW, PREPARING, segment_name, unique};
use crate::fork_safe_lock::ForkSafeLock;
use crate::format::DATA_OFF;
use crate::format::segment::SegmentHeader;
use crate::patience::{lock, usual};
use densite_disk::{ErrorKind, File, LockKind, OpenMode, SyncKind};
use std::time::Duration;

/// Bytes of zeros between two syncs.
const ZEROS: u64 = 1 << 20;
/// Bytes of zeros in one write. The kernel caches the bytes of one call as one piece. Each small
/// write or sync in it processes the whole piece.
const PIECE: usize = 16 << 10;

/// Writes zeros to the range `from..to` of a file.
pub(crate) fn write_zeros(file: &dyn File, from: u64, to: u64) -> densite_disk::Result<()> {
    let zeros = [0; PIECE];
    let mut at = from;
    while at < to {
        // Writes end at multiples of their length.
        let end = (at + 1).next_multiple_of(PIECE as u64).min(to);
        file.write_at(zeros.get(..(end - at) as usize).unwrap_or(&zeros), at)?;
        at = end;
    }
    Ok(())
}

/// Writes zeros to the part of `from..to` that the file has, durably. Does nothing if the bytes are
/// zeros already.
///
/// Used behind the end of the log before anything else is written there. The first bytes of all
/// records are the same. So a new record that a power cut tears could otherwise complete the
/// remains of an old record.
pub(crate) fn blank(file: &dyn File, from: u64, to: u64) -> densite_disk::Result<()> {
    let to = to.min(file.len()?);
    let mut piece = [0; PIECE];
    let mut at = from;
    while at < to {
        let want = usize::try_from(to - at).unwrap_or(PIECE).min(PIECE);
        let got = file.read_at(piece.get_mut(..want).unwrap_or_default(), at)?;
        if got == 0 {
            break;
        }
        if piece.iter().take(got).any(|byte| *byte != 0) {
            write_zeros(file, at, to)?;
            return file.sync(SyncKind::Data);
        }
        at += got as u64;
    }
    Ok(())
}

/// Removes a file if it is there.
pub(crate) fn remove(files: &Files, name: &str) -> Result<()> {
    match files.dir.remove(name) {
        Err(e) if e.kind != ErrorKind::NotFound => Err(e.into()),
        _ => Ok(()),
    }
}

impl Files {
    /// Names of the free segments.
    pub(crate) fn free_segments(&self) -> Result<Vec<String>> {
        let mut names = self.dir.list()?;
        names.retain(|n| n.starts_with(FREE_SEGMENT));
        Ok(names)
    }

    /// Makes a segment with this header, durable under its name, from a free segment or a new file.
    /// The caller holds the append lock.
    ///
    /// After an error, the segment does not exist or has no records, and can be made again.
    pub(crate) fn make_segment(&self, header: &SegmentHeader) -> Result<Box<dyn File>> {
        for free_segment in self.free_segments()? {
            let Some(file) = self.open(&free_segment, OpenMode::Write)? else {
                continue;
            };
            if !file.try_lock(LockKind::Exclusive)? {
                continue;
            }
            // A free segment that cannot be written is removed. The next one or a new file can
            // still work.
            match self.name_segment(file.as_ref(), &free_segment, header) {
                Ok(()) => return Ok(file),
                Err(_) => remove(self, &free_segment)?,
            }
        }
        let name = unique(NEW)?;
        let file = self.dir.open(&name, OpenMode::CreateNew)?;
        match self.name_segment(file.as_ref(), &name, header) {
            Ok(()) => Ok(file),
            Err(e) => {
                // The first error tells more than an error of the removal.
                remove(self, &name).ok();
                Err(e)
            }
        }
    }

    fn name_segment(&self, file: &dyn File, from: &str, header: &SegmentHeader) -> Result<()> {
        let mut block = vec![0; DATA_OFF as usize];
        if let Some(head) = block.get_mut(..crate::format::segment::HEADER_LEN) {
            head.copy_from_slice(&header.encode());
        }
        file.write_at(&block, 0)?;
        file.sync(SyncKind::Full)?;
        self.dir.rename(from, &segment_name(header.number))?;
        self.dir.sync()?;
        file.unlock()?;
        Ok(())
    }

    /// Prepares a free segment of this size if there is none. Returns whether it did. Pauses for
    /// `pause` after each mebibyte, so that syncs of writers do not wait for the whole file. Gives
    /// up when `ends` returns true after a mebibyte.
    pub(crate) fn prepare_free_segment(
        &self,
        bytes: u64,
        pause: Duration,
        ends: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let names = self.dir.list()?;
        if names
            .iter()
            .any(|n| n.starts_with(FREE_SEGMENT) || n.starts_with(PREPARING))
        {
            return Ok(false);
        }
        let name = unique(PREPARING)?;
        let file = ForkSafeLock::of(self.dir.open(&name, OpenMode::CreateNew)?);
        let done = self
            .fill(file.as_ref(), bytes, pause, ends)
            .and_then(|is_full| {
                if is_full {
                    self.dir
                        .rename(&name, &name.replace(PREPARING, FREE_SEGMENT))?;
                }
                Ok(is_full)
            });
        if !matches!(done, Ok(true)) {
            remove(self, &name).ok();
        }
        done
    }

    /// Returns whether the whole file was written.
    fn fill(
        &self,
        file: &dyn File,
        bytes: u64,
        pause: Duration,
        ends: &dyn Fn() -> bool,
    ) -> Result<bool> {
        // Locked while it grows: a log that is opened meanwhile removes unfinished files that are
        // not locked.
        lock(file, PREPARING, LockKind::Exclusive, &usual)?;
        let mut at = 0;
        while at < bytes {
            let end = (at + ZEROS).min(bytes);
            write_zeros(file, at, end)?;
            file.sync(SyncKind::Data)?;
            at = end;
            if ends() {
                return Ok(false);
            }
            densite_disk::wait::pause(pause);
        }
        file.sync(SyncKind::Full)?;
        Ok(true)
    }

    /// Removes unfinished files that a crash left. The caller holds the append lock.
    pub(crate) fn clear_unfinished(&self) -> Result<()> {
        for name in self.dir.list()? {
            if name.starts_with(NEW) {
                remove(self, &name)?;
            } else if name.starts_with(PREPARING) {
                let held = match self.open(&name, OpenMode::Write)? {
                    Some(file) => !file.try_lock(LockKind::Exclusive)?,
                    None => true,
                };
                if !held {
                    remove(self, &name)?;
                }
            }
        }
        Ok(())
    }
}

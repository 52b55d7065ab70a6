//! Files for new segments: pruned ones used again, or new ones.
//!
//! A file whose blocks were written before can be written again without changing metadata, so a data sync of it is one write. A
//! pruned segment is therefore kept as a free segment; where there is none, one is prepared while the present segment fills.
//!
//! Invariant: whoever writes to a free segment holds its lock exclusively, so no reader that still has the old segment open is disturbed.

use crate::Result;
use crate::files::{FREE_SEGMENT, Files, NEW, PREPARING, segment_name, unique};
use crate::format::DATA_OFF;
use crate::format::segment::SegmentHeader;
use crate::held::Held;
use crate::patience::{lock, usual};
use densite_disk::{ErrorKind, File, LockKind, OpenMode, SyncKind};
use std::time::Duration;

/// Bytes of zeros between two syncs.
const ZEROS: u64 = 1 << 20;
/// Bytes of zeros written at once. The kernel keeps what one call wrote as one piece, and goes through all of a piece for each small write and sync that meets it.
const PIECE: usize = 16 << 10;

/// Writes zeros over a part of a file.
pub(crate) fn write_zeros(file: &dyn File, from: u64, to: u64) -> densite_disk::Result<()> {
    let zeros = [0; PIECE];
    let mut at = from;
    while at < to {
        // Pieces end where multiples of their length do.
        let end = (at + 1).next_multiple_of(PIECE as u64).min(to);
        file.write_at(zeros.get(..(end - at) as usize).unwrap_or(&zeros), at)?;
        at = end;
    }
    Ok(())
}

/// Writes zeros over what the file has of a part, durably; nothing if they are there already.
///
/// For the end of what counts, before anything else is written there: the first bytes of all records are the same, so over what is left of an old one a new one that a power cut tears
/// could make it whole again.
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

    /// Makes a segment with this header: durable, under its name, from a free segment or anew. Called under the append lock.
    ///
    /// If it fails the segment is not there, or is there without records; then it may be made again.
    pub(crate) fn make_segment(&self, header: &SegmentHeader) -> Result<Box<dyn File>> {
        for free_segment in self.free_segments()? {
            let Some(file) = self.open(&free_segment, OpenMode::Write)? else {
                continue;
            };
            if !file.try_lock(LockKind::Exclusive)? {
                continue;
            }
            // One that cannot be written is not tried again; a new file may do.
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
                // The error that stopped it tells more than one of cleaning up.
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

    /// Prepares a free segment of this size if there is none; answers whether it did. `pause` lies between pieces of a mebibyte, so that writers'
    /// syncs do not wait for all of it. It is given up when `ends` says so between two of them.
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
        let file = Held::of(self.dir.open(&name, OpenMode::CreateNew)?);
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

    /// Whether it came to the end.
    fn fill(
        &self,
        file: &dyn File,
        bytes: u64,
        pause: Duration,
        ends: &dyn Fn() -> bool,
    ) -> Result<bool> {
        // Held while it grows: a log that is opened meanwhile removes what nobody holds.
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
            std::thread::sleep(pause);
        }
        file.sync(SyncKind::Full)?;
        Ok(true)
    }

    /// Removes what a crash left of files in the making. Called under the append lock.
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

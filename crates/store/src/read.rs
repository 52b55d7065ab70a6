//! Reading: from this handle's own writes, the cache, or a frame.

use crate::codec::{self, CodecId, Dictionary};
use crate::error::{Damage, Error, Result};
use crate::format::MAX_PAGE;
use crate::format::record::{Kind, Record, raw_check};
use crate::format::trailer::HEAD_LEN;
use crate::handle::Handle;
use crate::map::Entry;
use crate::pending::PendingPage;
use crate::shared::Shared;
use std::sync::Arc;

/// Tries to read a page that is being moved or replaced before it counts as damage (rule 6).
const TRIES: u32 = 100;

impl Handle {
    /// Reads logical bytes at `offset`. Returns how many of them lie before the end; the rest of `buf` is filled with zeros.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`] naming page and offset.
    pub fn read_at(&mut self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.check_poison()?;
        let (len, page_size) = match &self.pending {
            Some(p) => (p.logical_len, p.page_size),
            None => {
                if !self.attach()? {
                    buf.fill(0);
                    return Ok(0);
                }
                let shared = self.shared()?;
                self.refresh(&shared)?;
                let state = shared.state.read();
                (state.logical_len, state.page_size)
            }
        };
        let inside = usize::try_from(len.saturating_sub(offset))
            .unwrap_or(usize::MAX)
            .min(buf.len());
        let (mut rest, beyond) = buf.split_at_mut(inside);
        beyond.fill(0);
        if page_size == 0 {
            rest.fill(0);
            return Ok(inside);
        }
        let mut at = offset;
        while !rest.is_empty() {
            let page = page_at(at, page_size)?;
            let in_page = (at % u64::from(page_size)) as usize;
            let n = rest.len().min(page_size as usize - in_page);
            let (now, later) = rest.split_at_mut(n);
            self.read_page(page, in_page, now)?;
            rest = later;
            at += n as u64;
        }
        Ok(inside)
    }

    /// Part of one page, as this handle sees it.
    pub(crate) fn read_page(&mut self, page: u32, at: usize, out: &mut [u8]) -> Result<()> {
        let Some(p) = &self.pending else {
            return self.read_published(page, at, out);
        };
        match p.pages.get(&page) {
            Some(PendingPage::Raw { bytes, .. }) => {
                copy_part(bytes, at, out);
                Ok(())
            }
            Some(PendingPage::Stored(entry)) if entry.is_none() => {
                out.fill(0);
                Ok(())
            }
            Some(PendingPage::Stored(entry)) => {
                let entry = *entry;
                let stored = p.appender.read(&*self.file, entry.off, entry.len)?;
                let page_size = p.page_size as usize;
                let shared = self.shared()?;
                let raw = decode_run(&shared, &*self.file, page, &entry, page_size, &stored)?;
                copy_part(page_of(&raw, &entry, page_size), at, out);
                Ok(())
            }
            None if u64::from(page) > p.visible => {
                out.fill(0);
                Ok(())
            }
            None => self.read_published(page, at, out),
        }
    }

    /// One page as the newest commit has it, without what this handle has written since. `out` has the size of a page.
    ///
    /// # Errors
    /// As [`Handle::read_at`].
    pub fn read_committed(&mut self, page: u32, out: &mut [u8]) -> Result<()> {
        self.check_poison()?;
        let shared = self.shared()?;
        self.refresh(&shared)?;
        self.read_published(page, 0, out)
    }

    /// Part of one page, as the newest known commit has it.
    pub(crate) fn read_published(&mut self, page: u32, at: usize, out: &mut [u8]) -> Result<()> {
        let shared = self.shared()?;
        let mut problem = Error::NotDensite;
        for attempt in 0..TRIES {
            let tip;
            let found;
            {
                let state = shared.state.read();
                tip = state.tip;
                if page == 1 && at + out.len() <= HEAD_LEN {
                    copy_part(&state.head, at, out);
                    return Ok(());
                }
                // What `Shared::lookup` does, with the leaves this handle used last at hand.
                let entry = match state.overlay.get(&page) {
                    Some(e) => Ok(*e),
                    None if state.root.node.is_none() || page == 0 => Ok(Entry::NONE),
                    None => self.leaves.lookup(
                        shared.source(&*self.file),
                        state.root,
                        u64::from(page) - 1,
                    ),
                };
                found = entry.map(|e| (e, state.page_size as usize));
            }
            let read = match found {
                Ok((entry, _)) if entry.is_none() => {
                    out.fill(0);
                    return Ok(());
                }
                Ok((entry, page_size)) => {
                    self.read_entry(&shared, page, &entry, page_size, at, out)
                }
                Err(e) => Err(e),
            };
            match read {
                Ok(()) => return Ok(()),
                // Whatever it was (a map node, a dictionary), it is this page that cannot be read.
                Err(Error::Corrupt(d)) => {
                    problem = Error::Corrupt(Damage {
                        page: Some(page),
                        ..d
                    })
                }
                Err(e) => return Err(e),
            }
            // Not there: it was replaced and its place used again, if there is a newer commit; damage if there is none.
            let changed = shared.refresh(&*self.file)? || shared.state.read().tip != tip;
            if !changed {
                return Err(problem);
            }
            if attempt > 10 {
                std::thread::sleep(std::time::Duration::from_micros(u64::from(attempt) * 10));
            }
        }
        Err(problem)
    }

    fn read_entry(
        &mut self,
        shared: &Arc<Shared>,
        page: u32,
        entry: &Entry,
        page_size: usize,
        at: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let whole = at == 0 && out.len() == page_size;
        if whole {
            self.read_ahead(shared, page, page_size);
            if let Some(keep) = self.batches.get(page, entry.version, out) {
                if keep {
                    shared.cache.insert_copy(page, entry.version, out);
                }
                return Ok(());
            }
        }
        if shared.cache.get_into(page, entry.version, out, at) {
            return Ok(());
        }
        let mut stored = std::mem::take(&mut self.scratch);
        stored.resize(entry.len as usize, 0);
        let read = self
            .file
            .read_at(&mut stored, entry.off)
            .map_err(Error::from);
        let result = read.and_then(|n| {
            stored.truncate(n);
            if whole && entry.run_log2 == 0 {
                decode_frame(shared, &*self.file, page, entry, page_size, &stored, out)?;
                shared.cache.insert_copy(page, entry.version, out);
                return Ok(());
            }
            let raw = decode_run(shared, &*self.file, page, entry, page_size, &stored)?;
            copy_part(page_of(&raw, entry, page_size), at, out);
            let first = page - u32::from(entry.slot);
            // A page of the run may have been written again within the same commit, and so have the same version: only pages
            // whose newest frame this is may be kept.
            let state = shared.state.read();
            for ((bytes, p), slot) in raw.chunks_exact(page_size).zip(first..).zip(0..) {
                if shared.lookup(&*self.file, &state, p)? == (Entry { slot, ..*entry }) {
                    shared.cache.insert_copy(p, entry.version, bytes);
                }
            }
            Ok(())
        });
        self.scratch = stored;
        result
    }
}

/// Verifies and decodes the stored bytes of a frame: all pages of its run.
///
/// # Errors
/// As [`decode_frame`].
fn decode_run(
    shared: &Shared,
    file: &dyn densite_disk::File,
    page: u32,
    entry: &Entry,
    page_size: usize,
    stored: &[u8],
) -> Result<Vec<u8>> {
    let mut raw = vec![0; page_size << entry.run_log2];
    decode_frame(shared, file, page, entry, page_size, stored, &mut raw)?;
    Ok(raw)
}

/// The page of `entry` and what follows it in its run.
fn page_of<'a>(raw: &'a [u8], entry: &Entry, page_size: usize) -> &'a [u8] {
    raw.get(page_size * usize::from(entry.slot)..)
        .unwrap_or_default()
}

/// Verifies and decodes the stored bytes of a frame into `out`, which is as long as its run.
///
/// # Errors
/// [`Error::Corrupt`] if it is not the frame that `entry` names, or is damaged.
pub(crate) fn decode_frame(
    shared: &Shared,
    file: &dyn densite_disk::File,
    page: u32,
    entry: &Entry,
    page_size: usize,
    stored: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let dict = match entry.model {
        0 => None,
        id => Some(shared.dictionary(file, &shared.state.read(), id)?),
    };
    decode_frame_with(
        shared.salt,
        dict.as_deref(),
        page,
        entry,
        page_size,
        stored,
        out,
    )
}

/// The same, with the dictionary at hand.
pub(crate) fn decode_frame_with(
    salt: u64,
    dict: Option<&Dictionary>,
    page: u32,
    entry: &Entry,
    page_size: usize,
    stored: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let damage = |problem: &str| {
        let what = "frame".to_owned();
        Error::Corrupt(Damage {
            what,
            offset: entry.off,
            page: Some(page),
            problem: problem.to_owned(),
        })
    };
    if stored.len() < entry.len as usize {
        return Err(damage("the file ends before it"));
    }
    let (record, _, payload) =
        Record::open(stored, salt, entry.off).ok_or_else(|| damage("checksum mismatch"))?;
    let right = record.kind == Kind::Frame
        && entry.fits(page, page_size)
        && record.number == page.wrapping_sub(u32::from(entry.slot))
        && record.version == entry.version
        && record.total_len() == entry.len
        && record.run_log2 == entry.run_log2
        && record.codec == entry.codec
        && record.model == entry.model
        && 1usize << record.page_log2 == page_size;
    if !right {
        return Err(damage("another frame lies there"));
    }
    codec::decode(CodecId(record.codec), payload, dict, out).map_err(|e| damage(&e))?;
    if raw_check(out) != record.raw_check {
        return Err(damage("the decoded page does not match its checksum"));
    }
    Ok(())
}

/// The page (1 is the first) that holds the byte at `offset`.
pub(crate) fn page_at(offset: u64, page_size: u32) -> Result<u32> {
    let page = u32::try_from(offset / u64::from(page_size) + 1)
        .ok()
        .filter(|page| *page <= MAX_PAGE);
    page.ok_or_else(|| {
        Error::Setting(format!(
            "offset {offset} is beyond the largest database of pages of {page_size} bytes"
        ))
    })
}

/// Copies what `from` has at `at` into `out`; zeros where it ends.
pub(crate) fn copy_part(from: &[u8], at: usize, out: &mut [u8]) {
    let part = from.get(at..).unwrap_or_default();
    let n = part.len().min(out.len());
    let (head, tail) = out.split_at_mut(n);
    head.copy_from_slice(part.get(..n).unwrap_or_default());
    tail.fill(0);
}

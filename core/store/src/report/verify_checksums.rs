//! Verifies checksums of everything that the newest commit reaches, and decodes nothing: for copies
//! of the file, which would carry damage along.

use crate::error::Result;
use crate::format::entry::Entry;
use crate::open_file::OpenFile;
use crate::shared::Shared;
use crate::{frame, writer};
use densite_disk::File;

/// So many pages are verified at once.
const PAGES: u32 = 4096;
/// Frames that lie within so many bytes are read at once.
const WINDOW: u64 = 1 << 20;

/// Verifies the map nodes and the frames of some pages from `first` on (1 is the first); together
/// with page 1 also the dictionaries and the space table. Returns the page after them; `None` at
/// the end of the database.
///
/// # Errors
/// I/O; [`Error::Corrupt`](crate::Error::Corrupt) for the first damage.
pub(crate) fn check_stored(open: &mut OpenFile, first: u32) -> Result<Option<u32>> {
    open.check_poison()?;
    if !open.attach()? {
        return Ok(None);
    }
    let shared = open.shared()?;
    let stored = Stored {
        shared: &shared,
        file: open.file(),
    };
    if first <= 1 {
        // What is in memory says nothing about the file.
        shared.forget_nodes();
        stored.dictionaries_and_space()?;
    }
    stored.pages(first.max(1))
}

struct Stored<'a> {
    shared: &'a Shared,
    file: &'a dyn File,
}

impl Stored<'_> {
    fn dictionaries_and_space(&self) -> Result<()> {
        let shared = self.shared;
        shared.while_it_moves(self.file, || {
            let state = shared.state.read().clone();
            for d in state.dicts() {
                (shared.dictionaries).reread(self.file, shared.salt, &state, d.id)?;
            }
            writer::load(&shared.sources(self.file), &state).map(drop)
        })
    }

    fn pages(&self, first: u32) -> Result<Option<u32>> {
        let shared = self.shared;
        let (mut entries, page_size, next) = shared.while_it_moves(self.file, || {
            let state = shared.state.read();
            let last = first.saturating_add(PAGES - 1);
            let last = u64::from(last).min(state.pages()) as u32;
            let mut entries = Vec::new();
            for page in first..=last {
                let entry = shared.lookup(self.file, &state, page)?;
                if !entry.is_none() {
                    entries.push((page, entry));
                }
            }
            let next = (u64::from(last) < state.pages()).then(|| last + 1);
            Ok((entries, state.page_size() as usize, next))
        })?;
        // Pages of a run have one frame.
        entries.sort_unstable_by_key(|(_, entry)| entry.off);
        entries.dedup_by_key(|(_, entry)| entry.off);
        let mut rest = entries.as_slice();
        while let Some((_, nearest)) = rest.first() {
            let begin = nearest.off;
            let near = rest.partition_point(|(_, e)| e.off - begin < WINDOW);
            let (near, further) = rest.split_at(near.max(1));
            let end = near.iter().map(|(_, e)| e.off + u64::from(e.len)).max();
            let bytes = self.read(begin, end.unwrap_or(begin) - begin)?;
            for (page, entry) in near {
                let at = (entry.off - begin) as usize;
                let frame = bytes.get(at..).unwrap_or_default();
                let opened = frame::open(shared.salt, *page, entry, page_size, frame);
                if opened.is_err() {
                    self.again(*page)?;
                }
            }
            rest = further;
        }
        Ok(next)
    }

    /// Verifies the frame of a page in the newest commit. The one that was read can have been
    /// reused.
    fn again(&self, page: u32) -> Result<()> {
        let shared = self.shared;
        shared.while_it_moves(self.file, || {
            let (entry, page_size): (Entry, u32) = {
                let state = shared.state.read();
                if u64::from(page) > state.pages() {
                    return Ok(());
                }
                (shared.lookup(self.file, &state, page)?, state.page_size())
            };
            if entry.is_none() {
                return Ok(());
            }
            let bytes = self.read(entry.off, u64::from(entry.len))?;
            frame::open(shared.salt, page, &entry, page_size as usize, &bytes).map(drop)
        })
    }

    /// Reads bytes of the file, fewer at its end.
    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let n = self.file.read_at(&mut bytes, offset)?;
        bytes.truncate(n);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::{CodecChoice, Error, Handle, Options};
    use densite_disk::{OpenMode, SyncKind};
    use densite_sim_disk::SimDisk;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    const PAGE: usize = 4096;

    fn open(disk: &SimDisk) -> Handle {
        let file = disk.open("/a.db", OpenMode::Create).expect("open");
        let options = Options {
            threads: 0,
            level: 1,
            codec: CodecChoice::Auto,
            ..Options::default()
        };
        Handle::open(Box::new(file), "/a.db", options).expect("open")
    }

    fn verified(handle: &mut Handle) -> Result<u32, Error> {
        let mut batches = 0;
        let mut next = Some(1);
        while let Some(first) = next {
            next = handle.check_stored(first)?;
            batches += 1;
        }
        Ok(batches)
    }

    /// Wherever a bit of a live record is flipped, it is found whenever `check` finds it.
    #[test]
    fn what_check_finds_in_records_is_found_without_decoding() {
        let disk = SimDisk::new(1);
        let mut rng = StdRng::seed_from_u64(1);
        let mut handle = open(&disk);
        for page in 0..5000u64 {
            let mut bytes = vec![0; PAGE];
            rng.fill(&mut bytes[..200]);
            handle.write_at(&bytes, page * PAGE as u64).expect("write");
        }
        handle.publish().expect("publish");
        handle.sync(SyncKind::Full).expect("sync");
        assert_eq!(verified(&mut handle).expect("verified"), 2);
        handle.close_clean().expect("close");
        drop(handle);
        let bytes = disk.contents("/a.db").expect("contents");
        let mut found = 0;
        for _ in 0..60 {
            let at = rng.random_range(16384..bytes.len());
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            disk.put_file("/a.db", &changed);
            let mut handle = open(&disk);
            let report = match handle.check(&mut |_, _| true) {
                Ok(report) => report,
                // It cannot be opened.
                Err(_) => continue,
            };
            let expected = !report.problems.is_empty();
            let got = verified(&mut handle);
            assert_eq!(got.is_err(), expected, "byte {at}: {got:?}, {report:?}");
            found += u32::from(expected);
        }
        assert!(found > 20, "{found} of 60");
    }
}

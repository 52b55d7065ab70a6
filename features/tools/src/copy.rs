//! Copies pages from one form to the other, and proves that the copy is equal.

use crate::db::{Access, Through};
use crate::error::{Error, Result};
use crate::form;
use crate::progress::Progress;
use crate::source::Pages;
use crate::target::Target;
use crate::temp::Temp;
use densite_disk::{File, SyncKind};
use densite_sqlite::Api;
use densite_sqlite_format::{Header, PageSet, header};
use densite_store::{Handle, Options, PageContext};
use std::path::Path;

/// Bytes read and written at a time, and of a piece of [`Input::held`]; a multiple of every page
/// size.
pub(crate) const PIECE: u64 = 1 << 20;

/// Holes are made of blocks of this many zeros: at least one block of a file system.
const HOLE: usize = 64 << 10;

/// A compressed copy is published after this many bytes, so that the pending state stays small.
pub(crate) const PUBLISH_EVERY: u64 = 32 << 20;

/// Sample pages for dictionaries: a 64th of the database, but within these limits in bytes.
const SAMPLE_LEAST: u64 = 4 << 20;
const SAMPLE_MOST: u64 = 32 << 20;

/// A state of the source, and the parts that are not copied.
pub(crate) struct Input<'a> {
    pub(crate) pages: &'a mut dyn Pages,
    pub(crate) header: Header,
    /// Pages that become zeros in the copy.
    pub(crate) zero: PageSet,
    /// The pieces of [`PIECE`] bytes, numbered from 0, that hold data other than zeros, if known.
    pub(crate) held: Option<PageSet>,
    /// Whether the copy has no freelist: it would name pages that are in use.
    pub(crate) without_freelist: bool,
    /// Whether the copy has zeros in unallocated bytes of pages where SQLite allows it.
    pub(crate) scrub: bool,
    /// The source, for messages.
    pub(crate) path: &'a Path,
}

impl Input<'_> {
    /// See [`samples`].
    pub(crate) fn samples(&mut self, progress: &mut dyn Progress) -> Result<Vec<Vec<u8>>> {
        samples(
            &mut *self.pages,
            &self.header,
            &self.zero,
            self.path,
            progress,
        )
    }

    /// Fills `buf` with the content of the copy at `offset`.
    pub(crate) fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.pages.read(buf, offset)?;
        if self.without_freelist
            && offset == 0
            && let Some(fields) = buf.get_mut(header::FREELIST)
        {
            fields.fill(0);
        }
        let size = self.header.page_size as usize;
        let number_at = |at: u64| u32::try_from(at / size as u64 + 1).unwrap_or(u32::MAX);
        let mut context = PageContext {
            number: number_at(offset),
            pages: number_at(self.pages.len()),
            reserved: size.saturating_sub(self.header.usable as usize),
        };
        let mut kept = Vec::new();
        for page in buf.chunks_mut(size) {
            if self.zero.contains(context.number) {
                page.fill(0);
            } else if self.scrub && page.len() == size {
                densite_store::scrub(page, &context, &mut kept);
                page.copy_from_slice(&kept);
            }
            context.number = context.number.saturating_add(1);
        }
        Ok(())
    }

    /// The pages up to `count` that can hold data other than zeros. The work depends on the pieces
    /// that do, not on the length that the database claims to have.
    pub(crate) fn held_pages(&self, count: u32) -> Box<dyn Iterator<Item = u32> + '_> {
        let each = u32::try_from(PIECE).unwrap_or(1) / self.header.page_size.max(1);
        match &self.held {
            None => Box::new(1..=count),
            Some(held) => Box::new(held.pages().flat_map(move |piece| {
                let first = piece.saturating_mul(each).saturating_add(1);
                first..=first.saturating_add(each - 1).min(count)
            })),
        }
    }

    /// Calls `each` for every chunk, in order.
    fn chunks(
        &mut self,
        phase: &'static str,
        progress: &mut dyn Progress,
        mut each: impl FnMut(&mut [u8], u64) -> Result<()>,
    ) -> Result<()> {
        let len = self.pages.len();
        progress.phase(phase, len);
        let mut buf = vec![0u8; usize::try_from(PIECE.min(len)).unwrap_or(0)];
        let mut offset = 0;
        while offset < len {
            if progress.cancelled() {
                return Err(Error::Interrupted {
                    path: self.path.to_path_buf(),
                });
            }
            let n = usize::try_from(PIECE.min(len - offset)).unwrap_or(0);
            // Skip pieces that hold no data: a damaged file can claim any length.
            let piece = u32::try_from(offset / PIECE).ok();
            if let (Some(held), Some(piece)) = (&self.held, piece)
                && !held.contains(piece)
            {
                offset += n as u64;
                continue;
            }
            let Some(part) = buf.get_mut(..n) else { break };
            self.read(part, offset)?;
            each(part, offset)?;
            offset += n as u64;
            progress.done(offset);
        }
        Ok(())
    }
}

/// The pieces of a compressed file that hold data, for [`Input::held`]: those with a frame. The
/// caller must prevent writes to the file.
pub(crate) fn held(api: Api, target: &Target) -> Result<PageSet> {
    let failed = |e| Error::from_store(&target.given, "read", e);
    let file = Through::Host.file(api, target, Access::Read)?;
    let mut store = form::open_store(target, file).map_err(failed)?;
    let size = u64::from(store.page_size().map_err(failed)?);
    let mut held = PageSet::default();
    store
        .each_frame(&mut |frame| {
            let piece = u64::from(frame.page.saturating_sub(1)) * size / PIECE;
            // Pieces beyond the range of the set are always copied.
            if let Ok(piece) = u32::try_from(piece) {
                held.insert(piece);
            }
        })
        .map_err(failed)?;
    Ok(held)
}

/// Bytes that are written for a database of `len` bytes.
pub(crate) fn held_bytes(held: &PageSet, len: u64) -> u64 {
    len.min(held.len().saturating_mul(PIECE))
}

/// Pages spread over the file, without those in `without`. The same database always gives the same
/// pages.
///
/// # Errors
/// Reading; [`Error::Interrupted`] with `path`.
pub(crate) fn samples(
    from: &mut dyn Pages,
    header: &Header,
    without: &PageSet,
    path: &Path,
    progress: &mut dyn Progress,
) -> Result<Vec<Vec<u8>>> {
    let size = u64::from(header.page_size);
    let pages = from.len() / size;
    let want = (from.len() / 64).clamp(SAMPLE_LEAST, SAMPLE_MOST) / size;
    let want = want.clamp(1, pages.max(1));
    let mut samples = Vec::new();
    let mut random = pages.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    // A remote source is fetched here, which can take long.
    progress.phase("sampling", want.min(pages) * size);
    for i in 0..want.min(pages) {
        if progress.cancelled() {
            return Err(Error::Interrupted {
                path: path.to_path_buf(),
            });
        }
        progress.done(i * size);
        // Divide the file into `want` equal parts and take one pseudo-random page from each.
        let (first, next) = (i * pages / want, (i + 1) * pages / want);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let page = first + random % (next - first).max(1);
        if without.contains(u32::try_from(page + 1).unwrap_or(u32::MAX)) {
            continue;
        }
        let mut buf = vec![0u8; usize::try_from(size).unwrap_or(0)];
        from.read(&mut buf, page * size)?;
        samples.push(buf);
    }
    Ok(samples)
}

/// Writes a compressed copy into an empty file and makes it durable.
pub(crate) fn to_compressed(
    input: &mut Input<'_>,
    temp: &Temp,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<()> {
    let failed = |e| Error::from_store(temp.path(), "write", e);
    let mut store = open_store(temp, options.clone(), "copy")?;
    let samples = input.samples(progress)?;
    progress.phase("learning", 0);
    store.learn(&samples, input.pages.len()).map_err(failed)?;
    let size = input.header.page_size as usize;
    let mut unpublished = 0u64;
    input.chunks("compressing", progress, |chunk, offset| {
        for (i, page) in chunk.chunks(size).enumerate() {
            store
                .write_at(page, offset + (i * size) as u64)
                .map_err(failed)?;
        }
        unpublished += chunk.len() as u64;
        if unpublished >= PUBLISH_EVERY {
            store.publish().map_err(failed)?;
            unpublished = 0;
        }
        Ok(())
    })?;
    store.set_len(input.pages.len()).map_err(failed)?;
    store.sync(SyncKind::Full).map_err(failed)?;
    store.close_clean().map_err(failed)
}

/// Opens the compressed copy again and compares every byte with the input.
pub(crate) fn prove_compressed(
    input: &mut Input<'_>,
    temp: &Temp,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<()> {
    let options = Options {
        read_only: true,
        ..options.clone()
    };
    let path = temp.path();
    let mut store = open_store(temp, options, "proof")?;
    let len = store
        .len()
        .map_err(|e| Error::from_store(path, "read", e))?;
    prove(input, path, len, progress, |buf, offset| {
        store
            .read_at(buf, offset)
            .map_err(|e| Error::from_store(path, "read", e))
    })
}

/// Writes a plain copy into an empty file and makes it durable.
pub(crate) fn to_plain(
    input: &mut Input<'_>,
    temp: &Temp,
    progress: &mut dyn Progress,
) -> Result<()> {
    let failed = |e| Error::from_disk(temp.path(), "write", &e);
    let file = temp.open()?;
    let len = input.pages.len();
    // Blocks of zeros become holes.
    input.chunks("writing", progress, |chunk, offset| {
        let zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
        for (block, at) in chunk.chunks(HOLE).zip((offset..).step_by(HOLE)) {
            if !zero(block) {
                file.write_at(block, at).map_err(failed)?;
            }
        }
        Ok(())
    })?;
    file.set_len(len).map_err(failed)?;
    file.sync(SyncKind::Full).map_err(failed)
}

/// Compares every byte of a plain copy with the input.
pub(crate) fn prove_plain(
    input: &mut Input<'_>,
    temp: &Temp,
    progress: &mut dyn Progress,
) -> Result<()> {
    let path = temp.path();
    let failed = |e| Error::from_disk(path, "read", &e);
    let file = temp.open()?;
    let len = File::len(&file).map_err(failed)?;
    prove(input, path, len, progress, |buf, offset| {
        file.read_at(buf, offset).map_err(failed)
    })
}

fn prove(
    input: &mut Input<'_>,
    path: &Path,
    len: u64,
    progress: &mut dyn Progress,
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize>,
) -> Result<()> {
    let differs = |at: u64| Error::Io {
        path: path.to_path_buf(),
        doing: "verify".into(),
        message: format!(
            "the copy differs from the database at byte {at}; try again, and check disk and memory"
        ),
    };
    if len != input.pages.len() {
        return Err(differs(len.min(input.pages.len())));
    }
    let mut copy = vec![0u8; usize::try_from(PIECE.min(len)).unwrap_or(0)];
    input.chunks("verifying", progress, |chunk, offset| {
        let Some(part) = copy.get_mut(..chunk.len()) else {
            return Err(differs(offset));
        };
        let n = read(part, offset)?;
        if n == chunk.len() && part == chunk {
            return Ok(());
        }
        let same = part
            .iter()
            .zip(chunk.iter())
            .take(n)
            .take_while(|(a, b)| a == b)
            .count();
        Err(differs(offset + same as u64))
    })
}

/// Opens the store in `temp`. `purpose` separates cached state by purpose: the proof must not read
/// from the memory of the writer.
pub(crate) fn open_store(temp: &Temp, options: Options, purpose: &str) -> Result<Handle> {
    let (path, file) = (temp.path(), temp.open()?);
    let identity = format!("{purpose}:{}", path.display());
    Handle::open(Box::new(file), &identity, options).map_err(|e| Error::from_store(path, "open", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    const SIZE: usize = 1024;

    fn header() -> Header {
        Header::new(SIZE as u32)
    }

    /// Pages of which half the bytes repeat; the last page is cut off.
    fn data() -> Vec<u8> {
        let mut x = 1u32;
        (0..SIZE * 1500 + 300)
            .map(|i| {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if i % 2 == 0 { (x >> 24) as u8 } else { b'a' }
            })
            .collect()
    }

    fn input(data: &mut Vec<u8>) -> Input<'_> {
        Input {
            pages: data,
            header: header(),
            zero: PageSet::default(),
            held: None,
            without_freelist: false,
            scrub: true,
            path: Path::new("source.db"),
        }
    }

    fn file(dir: &tempfile::TempDir) -> Temp {
        let like = dir.path().join("source.db");
        std::fs::write(&like, b"").expect("write");
        let like = crate::target::resolve(&like).expect("a file");
        Temp::create(&dir.path().join("copy"), &like, false).expect("a file")
    }

    #[test]
    fn copies_are_equal_both_ways_and_every_difference_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let temp = file(&dir);
        let options = Options {
            threads: 0,
            ..Options::default()
        };
        let mut source = data();
        to_compressed(&mut input(&mut source), &temp, &options, &mut Silent).expect("a copy");
        prove_compressed(&mut input(&mut source), &temp, &options, &mut Silent).expect("the same");
        for at in [0, SIZE * 1200 + 77, source.len() - 1] {
            let mut other = source.clone();
            other[at] ^= 1;
            let e = prove_compressed(&mut input(&mut other), &temp, &options, &mut Silent)
                .expect_err("a difference");
            assert!(e.to_string().contains(&format!("at byte {at};")), "{e}");
        }
        let mut shorter = source[..source.len() - 1].to_vec();
        assert!(prove_compressed(&mut input(&mut shorter), &temp, &options, &mut Silent).is_err());

        let temp = file(&dir);
        to_plain(&mut input(&mut source), &temp, &mut Silent).expect("a copy");
        prove_plain(&mut input(&mut source), &temp, &mut Silent).expect("the same");
        assert!(std::fs::read(temp.path()).expect("read") == source);
        let mut bad = source.clone();
        bad[SIZE * 1100] ^= 1;
        std::fs::write(temp.path(), &bad).expect("write");
        assert!(prove_plain(&mut input(&mut source), &temp, &mut Silent).is_err());
        std::fs::write(temp.path(), [&source[..], b"x"].concat()).expect("write");
        assert!(prove_plain(&mut input(&mut source), &temp, &mut Silent).is_err());
    }

    #[test]
    fn a_copy_stops_when_cancelled() {
        struct Stop(u32);
        impl Progress for Stop {
            fn cancelled(&mut self) -> bool {
                self.0 += 1;
                self.0 > 1
            }
        }
        let dir = tempfile::tempdir().expect("a directory");
        let temp = file(&dir);
        let stopped = to_plain(&mut input(&mut data()), &temp, &mut Stop(0));
        assert!(
            matches!(stopped, Err(Error::Interrupted { .. })),
            "{stopped:?}"
        );
    }
}

//! Estimates how large a plain database would be as a Densite file.
//!
//! Pieces spread over the file are compressed into a temporary file, with the models and
//! dictionaries that a conversion of the whole file would learn. Their share is that of the file.
//! The database is only read: a hot journal stays, and so does the content of a WAL, which is not
//! part of the estimate. Pages that a checkpoint changes meanwhile make no difference to it.

use crate::copy::{self, Input, PIECE};
use crate::db::{Access, Through};
use crate::error::{Error, Result};
use crate::form::{self, Form};
use crate::objects::Bytes;
use crate::progress::Progress;
use crate::temp::Temp;
use crate::{lock, source, target};
use densite_disk::File;
use densite_sqlite::Api;
use densite_sqlite_format::{HEADER_LEN, Header, PageSet};
use densite_store::Options;
use std::path::Path;
use std::time::Duration;

/// How long to wait for a lock.
const WAIT: Duration = Duration::from_secs(1);
/// The most pieces that are compressed.
const PIECES: u64 = 48;

/// The estimated result of `compress`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// Length of the Densite file.
    pub compressed_bytes: u64,
    /// Bytes of the database that were compressed for the estimate.
    pub sampled_bytes: u64,
}

/// Estimates the result of `compress` for a plain database. Writes to a temporary file only.
///
/// # Errors
/// [`Error::Setting`] for other files; the errors of reading the database and of writing to the
/// directory of temporary files; [`Error::Interrupted`].
pub fn estimate(api: Api, path: &Path, progress: &mut dyn Progress) -> Result<Estimate> {
    let target = target::resolve_to_read(api, path)?;
    if form::form(api, &target)? != Form::Plain {
        return Err(Error::Setting(format!(
            "{}: only a plain database can be compressed",
            target.given.display()
        )));
    }
    let path = target.given.as_path();
    let failed = |e| Error::from_disk(path, "read", &e);
    let file = Through::Host.file(api, &target, Access::Read)?;
    lock::shared(&file, &target, WAIT)?;
    let mut start = [0u8; HEADER_LEN];
    file.read_at(&mut start, 0).map_err(failed)?;
    let header = Header::parse(&start).filter(|header| target.len >= u64::from(header.page_size));
    let header = header.ok_or_else(|| Error::NotADatabase {
        path: path.to_path_buf(),
        empty: false,
    })?;
    let len = File::len(&file).map_err(failed)?;
    let len = len - len % u64::from(header.page_size);
    let mut source = Bytes::Plain(file, len, path.to_path_buf());
    let zero = match source::free_leaves(&mut source, &header) {
        // `check` reports it, and another process can be changing it in WAL mode.
        Err(Error::Damaged { .. }) => PageSet::default(),
        found => found?,
    };
    let pieces = len.div_ceil(PIECE);
    let taken = pieces.min(PIECES);
    let mut held = PageSet::default();
    let mut sampled_bytes = 0;
    for i in 0..taken {
        let piece = i * pieces / taken;
        sampled_bytes += PIECE.min(len - piece * PIECE);
        held.insert(u32::try_from(piece).unwrap_or(u32::MAX));
    }
    let mut input = Input {
        pages: &mut source,
        header,
        zero,
        held: Some(held),
        without_freelist: false,
        scrub: true,
        path,
    };
    let wanted = std::env::temp_dir().join("densite-estimate");
    let temp = Temp::create_own(&wanted, 0o600)?;
    copy::to_compressed(&mut input, &temp, &Options::default(), progress)?;
    let mut store = copy::open_store(&temp, Options::default(), "estimate")?;
    let stats = store
        .stats()
        .map_err(|e| Error::from_store(temp.path(), "read", e))?;
    let figures = stats.figures();
    let figure = |name: &str| {
        let found = figures.iter().find(|(n, _)| *n == name);
        found.map_or(0, |(_, n)| *n)
    };
    let frames = figure("frame_bytes");
    let fixed = figure("live_bytes").saturating_sub(frames);
    let share = u128::from(frames) * u128::from(len) / u128::from(sampled_bytes.max(1));
    Ok(Estimate {
        compressed_bytes: u64::try_from(share)
            .unwrap_or(u64::MAX)
            .saturating_add(fixed),
        sampled_bytes,
    })
}

//! Decoding stored frames into pages.

use crate::codec::{self, CodecId, Dictionary};
use crate::error::{Damage, Error, Result};
use crate::format::entry::Entry;
use crate::format::record::{Kind, Record, raw_check};
use crate::shared::Shared;
use densite_disk::File;

/// Verifies and decodes the stored bytes of a frame into `out`, which has the length of its run.
///
/// # Errors
/// [`Error::Corrupt`] if it is not the frame that `entry` names, or is damaged; I/O.
pub(crate) fn decode(
    shared: &Shared,
    file: &dyn File,
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
    let salt = shared.salt;
    decode_with(salt, dict.as_deref(), page, entry, page_size, stored, out)
}

/// Like [`decode`], and returns all pages of the run.
///
/// # Errors
/// As [`decode`].
pub(crate) fn decode_run(
    shared: &Shared,
    file: &dyn File,
    page: u32,
    entry: &Entry,
    page_size: usize,
    stored: &[u8],
) -> Result<Vec<u8>> {
    let mut raw = vec![0; page_size << entry.run_log2];
    decode(shared, file, page, entry, page_size, stored, &mut raw)?;
    Ok(raw)
}

/// [`decode`] with a given dictionary.
///
/// # Errors
/// [`Error::Corrupt`].
pub(crate) fn decode_with(
    salt: u64,
    dict: Option<&Dictionary>,
    page: u32,
    entry: &Entry,
    page_size: usize,
    stored: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let (record, payload) = open(salt, page, entry, page_size, stored)?;
    let damage = |problem: &str| damage(page, entry, problem);
    codec::decode(CodecId(record.codec), payload, dict, out).map_err(|e| damage(&e))?;
    if raw_check(out) != record.raw_check {
        return Err(damage("the decoded page does not match its checksum"));
    }
    Ok(())
}

/// The record and payload of the frame that `entry` names, which is not decoded.
///
/// # Errors
/// [`Error::Corrupt`] if it is another one, or its checksum does not match.
pub(crate) fn open<'a>(
    salt: u64,
    page: u32,
    entry: &Entry,
    page_size: usize,
    stored: &'a [u8],
) -> Result<(Record, &'a [u8])> {
    let damage = |problem: &str| damage(page, entry, problem);
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
        return Err(damage("another frame is there"));
    }
    Ok((record, payload))
}

fn damage(page: u32, entry: &Entry, problem: &str) -> Error {
    Error::Corrupt(Damage {
        what: "frame".to_owned(),
        offset: entry.off,
        page: Some(page),
        problem: problem.to_owned(),
    })
}

/// The page of `entry`, and the pages after it in its run.
pub(crate) fn page_of<'a>(raw: &'a [u8], entry: &Entry, page_size: usize) -> &'a [u8] {
    raw.get(page_size * usize::from(entry.slot)..)
        .unwrap_or_default()
}

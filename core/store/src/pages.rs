//! Maps the bytes of a database to pages.

use crate::error::{Error, Result};
use crate::format::MAX_PAGE;
use crate::reader::Part;

/// The page (1 is the first) that has the byte at `offset`.
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

/// Reads the bytes at `offset` of a database of `len` bytes, page by page. Returns how many of them
/// are before its end, and fills the rest of `buf` with zeros. `page_size` is 0 before the first
/// write.
///
/// # Errors
/// Those of `read`; [`Error::Setting`] for an offset beyond the largest database.
pub(crate) fn read_pages(
    buf: &mut [u8],
    offset: u64,
    (len, page_size): (u64, u32),
    mut read: impl FnMut(Part<'_>) -> Result<()>,
) -> Result<usize> {
    let inside = usize::try_from(len.saturating_sub(offset))
        .unwrap_or(usize::MAX)
        .min(buf.len());
    let (mut rest, beyond) = buf.split_at_mut(inside);
    beyond.fill(0);
    if page_size == 0 {
        rest.fill(0);
        return Ok(inside);
    }
    let mut next = offset;
    while !rest.is_empty() {
        let page = page_at(next, page_size)?;
        let at = (next % u64::from(page_size)) as usize;
        let n = rest.len().min(page_size as usize - at);
        let (out, later) = rest.split_at_mut(n);
        read(Part { page, at, out })?;
        rest = later;
        next += n as u64;
    }
    Ok(inside)
}

//! Reads SQLite's freelist from a state that does not change. SQLite never reads its leaves, so a
//! copy can hold zeros instead.

use crate::error::Result;
use crate::header::Header;
use crate::page_source::Pages;
use densite_sqlite::image::{Freelist, freelist};

pub(crate) use densite_sqlite::image::PageSet;
pub(crate) use densite_sqlite::image::freelist::LOCK_BYTE;

/// The leaves of the freelist; `None` if the list is malformed.
pub(crate) fn leaves(pages: &mut dyn Pages, header: &Header) -> Result<Option<PageSet>> {
    Ok(list(pages, header)?.map(|list| list.leaves))
}

/// The freelist; `None` if it is malformed.
pub(crate) fn list(pages: &mut dyn Pages, header: &Header) -> Result<Option<Freelist>> {
    let size = u64::from(header.page_size);
    let count = u32::try_from(pages.len() / size).unwrap_or(u32::MAX);
    freelist::list(count, header, |page, buf| {
        pages.read(buf, u64::from(page.saturating_sub(1)) * size)
    })
}

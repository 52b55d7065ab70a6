//! SQLite's freelist in a state that is held still. Its leaves are never read by SQLite, so a copy
//! may hold zeros in their place.

use crate::error::Result;
use crate::header::Header;
use crate::pages::Pages;
use densite_sqlite::image::{Freelist, freelist};

pub(crate) use densite_sqlite::image::PageSet;
pub(crate) use densite_sqlite::image::freelist::LOCK_BYTE;

/// The freelist's leaves; `None` when the list is not well formed.
pub(crate) fn leaves(pages: &mut dyn Pages, header: &Header) -> Result<Option<PageSet>> {
    Ok(list(pages, header)?.map(|list| list.leaves))
}

/// The freelist; `None` when it is not well formed.
pub(crate) fn list(pages: &mut dyn Pages, header: &Header) -> Result<Option<Freelist>> {
    let size = u64::from(header.page_size);
    let count = u32::try_from(pages.len() / size).unwrap_or(u32::MAX);
    freelist::list(count, header, |page, buf| {
        pages.read(buf, u64::from(page.saturating_sub(1)) * size)
    })
}

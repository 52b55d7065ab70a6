//! Corrects the counts of a b-tree page, so that mutants are read as pages.

use crate::target::put;
use densite_sqlite_format::page::{Kind, Page, header_at, local_len};
use densite_sqlite_format::{be16, varint};

/// Content start, freeblocks and fragments become what the cells leave, if no cells overlap.
pub(super) fn btree(bytes: &mut [u8]) {
    let [flags, reserved, _, _, page @ ..] = bytes else {
        return;
    };
    let (first, is_layout) = (*flags & 1 != 0, *flags & 2 != 0);
    if is_layout
        || page.len() > 65_536
        || Page::new().parse(
            page,
            page.len().saturating_sub(usize::from(*reserved)),
            first,
        )
    {
        return;
    }
    // Cells outside the page end the repair.
    let _ = accounts(page, usize::from(*reserved), header_at(first));
}

fn accounts(page: &mut [u8], reserved: usize, header_at: usize) -> Option<()> {
    let usable = page.len().checked_sub(reserved)?;
    let kind = Kind::from_byte(*page.get(header_at)?)?;
    let cells = be16(page, header_at + 3)?;
    let pointers_at = header_at + kind.header_len();
    let mut taken = Vec::new();
    for i in 0..cells {
        let start = be16(page, pointers_at + 2 * i)?;
        let mut at = start + if kind.has_child() { 4 } else { 0 };
        let mut payload = 0;
        if kind != Kind::TableInterior {
            let (value, len) = varint(page.get(at..usable)?)?;
            payload = value;
            at += len;
        }
        if kind.is_table() {
            at += varint(page.get(at..usable)?)?.1;
        }
        let local = local_len(kind, usable, payload);
        at += local;
        if (local as u64) < payload {
            at += 4;
        }
        taken.push((start, at.max(start + 4)));
    }
    taken.sort_unstable();
    let start = taken.first().map_or(usable, |cell| cell.0);
    let (mut at, mut fragments, mut block_before) = (start, 0, header_at + 1);
    for (from, to) in taken.into_iter().chain([(usable, usable)]) {
        let gap = from.checked_sub(at)?;
        if gap < 4 {
            fragments += gap;
        } else {
            put(page, block_before, &(at as u16).to_be_bytes());
            put(page, at + 2, &(gap as u16).to_be_bytes());
            block_before = at;
        }
        at = to;
    }
    put(page, block_before, &[0, 0]);
    put(page, header_at + 5, &(start as u16).to_be_bytes());
    put(page, header_at + 7, &[u8::try_from(fragments).ok()?]);
    Some(())
}

//! Reading the pages that a page names, although the page is damaged.

use super::{Kind, header_at, local_len};
use crate::{be16, be32, varint};

/// Calls `each` with every page that a page names if it is one of a b-tree, whatever else is wrong
/// with it. `first`: it is page 1. The flag is true for a child, and false for an overflow page.
pub fn pointers(bytes: &[u8], usable: usize, first: bool, mut each: impl FnMut(u32, bool)) {
    let at = header_at(first);
    let Some(kind) = Kind::of(bytes, first) else {
        return;
    };
    if kind.has_child()
        && let Some(right) = be32(bytes, at + 8)
    {
        each(right, true);
    }
    let cells = be16(bytes, at + 3).unwrap_or(0).min(usable / 2);
    for cell in 0..cells {
        let Some(at) = be16(bytes, at + kind.header_len() + 2 * cell) else {
            return;
        };
        if let Some(child) = be32(bytes, at).filter(|_| kind.has_child()) {
            each(child, true);
        }
        if let Some(overflow) = overflow(bytes, kind, usable, at) {
            each(overflow, false);
        }
    }
}

/// The first overflow page of the cell at `at`.
fn overflow(bytes: &[u8], kind: Kind, usable: usize, at: usize) -> Option<u32> {
    if kind == Kind::TableInterior {
        return None;
    }
    let at = at + if kind.has_child() { 4 } else { 0 };
    let (payload, len) = varint(bytes.get(at..)?)?;
    let local = local_len(kind, usable, payload);
    if payload <= local as u64 {
        return None;
    }
    let mut at = at + len;
    if kind == Kind::TableLeaf {
        at += varint(bytes.get(at..)?)?.1;
    }
    be32(bytes, at + local)
}

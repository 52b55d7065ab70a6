//! Entries of the page map, and where its nodes are.
//!
//! An entry, as a trailer holds it (a leaf holds the same fields, column by column):
//!
//! ```text
//! offset  size  field
//!      0     8  off        where the frame's record starts; 0: the page has no frame and reads as
//!                          zeros
//!      8     8  version    the version in its record: the commit its contents were written in
//!     16     4  len        bytes of the frame's record
//!     20     4  model      dictionary or model id; 0 none
//!     24     1  codec      codec number
//!     25     1  run_log2   log2 of the pages in the frame
//!     26     1  slot       which page of the run this is
//!     27     1  reserved   0
//! ```

use super::MAX_OFF;
use super::record::{MAX_PAYLOAD, RECORD_LEN};
use crate::bytes::Put;
use densite_disk::Fields;

/// Where the newest version of one page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Entry {
    pub(crate) off: u64,
    pub(crate) version: u64,
    pub(crate) len: u32,
    pub(crate) model: u32,
    pub(crate) codec: u8,
    pub(crate) run_log2: u8,
    pub(crate) slot: u8,
}

impl Entry {
    /// The entry of a page without a frame.
    pub(crate) const NONE: Entry = Entry {
        off: 0,
        version: 0,
        len: 0,
        model: 0,
        codec: 0,
        run_log2: 0,
        slot: 0,
    };

    pub(crate) fn is_none(&self) -> bool {
        self.off == 0
    }

    /// Whether the fields are in range; a writer never makes others.
    pub(crate) fn plausible(&self) -> bool {
        self.is_none()
            || (self.off < MAX_OFF
                && self.len >= RECORD_LEN as u32
                && self.len <= MAX_PAYLOAD + RECORD_LEN as u32
                && self.run_log2 <= 6
                && u32::from(self.slot) < 1 << self.run_log2)
    }

    /// Whether this can be the entry of `page` (1 is the first) of `page_size` bytes. Its run must
    /// begin and end with valid page numbers, and its frame must not be longer than the pages in
    /// it.
    pub(crate) fn fits(&self, page: u32, page_size: usize) -> bool {
        let first = page
            .checked_sub(u32::from(self.slot))
            .filter(|first| *first > 0);
        let ends = first
            .and_then(|first| first.checked_add(1 << self.run_log2))
            .is_some();
        ends && self.len as usize <= RECORD_LEN + (page_size << self.run_log2)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.off);
        out.put_u64(self.version);
        out.put_u32(self.len);
        out.put_u32(self.model);
        out.put_u8(self.codec);
        out.put_u8(self.run_log2);
        out.put_u8(self.slot);
        out.put_u8(0);
    }

    pub(crate) fn take(f: &mut Fields<'_>) -> Option<Entry> {
        let (off, version, len, model) = (f.u64()?, f.u64()?, f.u32()?, f.u32()?);
        let (codec, run_log2, slot, _) = (f.u8()?, f.u8()?, f.u8()?, f.u8()?);
        let e = Entry {
            off,
            version,
            len,
            model,
            codec,
            run_log2,
            slot,
        };
        e.plausible().then_some(e)
    }
}

/// Where a node (or another record) is. If `off` is 0, there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) struct NodeRef {
    pub(crate) off: u64,
    pub(crate) version: u64,
    pub(crate) len: u32,
}

impl NodeRef {
    pub(crate) fn is_none(&self) -> bool {
        self.off == 0
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.off);
        out.put_u64(self.version);
        out.put_u32(self.len);
    }

    pub(crate) fn take(f: &mut Fields<'_>) -> Option<NodeRef> {
        let r = NodeRef {
            off: f.u64()?,
            version: f.u64()?,
            len: f.u32()?,
        };
        let ok = r.off < MAX_OFF && r.len <= MAX_PAYLOAD + RECORD_LEN as u32;
        (ok && (r.is_none() || r.len >= RECORD_LEN as u32)).then_some(r)
    }
}

/// Where the tree of the page map begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Root {
    pub(crate) node: NodeRef,
    pub(crate) level: u32,
}

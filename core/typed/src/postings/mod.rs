//! Postings: pages of the leaves of an FTS5 index, a row each with a blob of terms and, for each
//! term, the documents and positions in which it occurs.
//!
//! Such a blob is a sequence of small numbers of different kinds. Row ids, positions and counts are
//! coded each by a prefix code of their kind, which is made for the page. What follows from other
//! numbers is not stored: the lengths of lists, the blob's header and its index of terms. The other
//! bytes of the page are stored unchanged. docs/FORMAT.md (Postings) has the bytes.
//!
//! A page is coded if it is an ordinary leaf of a table and a blob is written as FTS5 writes it.
//! Every payload is decoded and compared.

mod class;
mod event;
mod read;
mod split;

use crate::bits::{BitWriter, PADDING};
use crate::mismatch;
use crate::symbols::huffman::{Bits, Numbers};
#[cfg(test)]
pub(crate) use class::Kind;
use class::Tables;
use densite_sqlite_format::page::{Cell, Kind as PageKind, Page};
use densite_sqlite_format::record::serial_types;
use densite_sqlite_format::{be16, varint};
use event::Event;
use std::cell::RefCell;
use std::ops::Range;

/// Shorter blobs are left among the other bytes.
const BLOB_MIN: usize = 128;
/// The most blobs of a page.
const BLOBS_MAX: usize = 255;
/// Bytes of a length or an address.
const LEN: usize = 2;

/// The memory that a thread encodes with.
#[derive(Default)]
struct Encoder {
    page: Page,
    blobs: Vec<Range<usize>>,
    events: Vec<Event>,
    back: Vec<u8>,
}

thread_local! {
    static ENCODER: RefCell<Encoder> = RefCell::default();
}

/// Encodes a page with postings and appends the payload to `out`. Returns false, and appends
/// nothing, if it is no such page, or does not become smaller.
pub fn encode(page: &[u8], out: &mut Vec<u8>) -> bool {
    let before = out.len();
    let done = ENCODER.with_borrow_mut(|encoder| encoder.encode(page, out));
    if done.is_none() {
        out.truncate(before);
    }
    done.is_some()
}

/// Whether a page may be one with postings: a leaf of a table whose first row ends with a blob of
/// them.
pub fn is_likely(page: &[u8]) -> bool {
    let first = || {
        let cell = page.get(be16(page, 8)?..)?;
        let (payload, len) = varint(cell)?;
        let row = len + varint(cell.get(len..)?)?.1;
        let end = usize::try_from(payload).ok()?.checked_add(row)?;
        last_blob(cell.get(row..end)?)
    };
    PageKind::of(page, false) == Some(PageKind::TableLeaf)
        && first().is_some_and(|blob| blob.len() >= BLOB_MIN && split::has_frame(blob))
}

/// The blob that ends a record.
fn last_blob(record: &[u8]) -> Option<&[u8]> {
    let (types, header) = serial_types(record)?;
    let last = types.last()??;
    let len = usize::try_from(last.checked_sub(12)? / 2).ok()?;
    let from = record.len().checked_sub(len)?;
    record
        .get(from..)
        .filter(|_| last % 2 == 0 && from >= header)
}

impl Encoder {
    fn encode(&mut self, page: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let (before, len) = (out.len(), page.len());
        if !is_likely(page) || !self.page.parse(page, len, false) {
            return None;
        }
        self.events.clear();
        self.blobs.clear();
        let of = |cell: &Cell| {
            let from = cell.local_at as usize;
            let end = from + cell.local_len as usize;
            let blob = last_blob(page.get(from..end)?)?;
            (cell.overflow == 0 && blob.len() >= BLOB_MIN).then_some(end - blob.len()..end)
        };
        for blob in self.page.cells.iter().filter_map(of) {
            let bytes = page.get(blob.clone())?;
            let events = self.events.len();
            if split::blob(bytes, &mut self.events).is_some() {
                self.blobs.push(blob);
            } else {
                self.events.truncate(events);
            }
        }
        // Cells are in the order of their keys, blobs in that of their addresses.
        if !self.blobs.is_sorted_by_key(|blob| blob.start) {
            let blobs = &mut self.blobs;
            blobs.sort_unstable_by_key(|blob| blob.start);
            self.events.clear();
            for blob in blobs.iter() {
                split::blob(page.get(blob.clone())?, &mut self.events)?;
            }
        }
        if self.blobs.is_empty() || self.blobs.len() > BLOBS_MAX {
            return None;
        }
        self.put(page, out)?;
        if out.len() - before >= len {
            return None;
        }
        self.back.clear();
        self.back.resize(len, 0xEE);
        let right = decode(out.get(before..)?, &mut self.back).is_ok() && self.back == page;
        mismatch::check(right).then_some(())
    }

    fn put(&self, page: &[u8], out: &mut Vec<u8>) -> Option<()> {
        out.push(u8::try_from(self.blobs.len()).ok()?);
        let mut other = Vec::with_capacity(page.len());
        let mut at = 0;
        for blob in &self.blobs {
            for len in [blob.start - at, blob.len()] {
                out.extend_from_slice(&u16::try_from(len).ok()?.to_le_bytes());
            }
            other.extend_from_slice(page.get(at..blob.start)?);
            at = blob.end;
        }
        other.extend_from_slice(page.get(at..)?);
        let gap = longest_gap(&other);
        for number in [gap.start, gap.len()] {
            out.extend_from_slice(&u16::try_from(number).ok()?.to_le_bytes());
        }
        out.extend_from_slice(other.get(..gap.start)?);
        out.extend_from_slice(other.get(gap.end..)?);
        let mut bits = BitWriter::default();
        event::put(&self.events, &mut bits);
        bits.finish(out);
        Some(())
    }
}

/// The longest range of zeros.
fn longest_gap(bytes: &[u8]) -> Range<usize> {
    let (mut best, mut from) = (0..0, 0);
    for (at, byte) in bytes.iter().enumerate() {
        if *byte != 0 {
            from = at + 1;
        } else if at + 1 - from > best.len() {
            best = from..at + 1;
        }
    }
    best
}

/// The payload of a page is not one that [`encode`] makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecodable;

impl std::fmt::Display for Undecodable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("payload of postings that no page has")
    }
}

impl std::error::Error for Undecodable {}

/// Decodes the payload of a page, which can be any bytes, into `out` and fills it.
///
/// # Errors
/// The payload is that of no page of this length. `out` is then unspecified.
pub fn decode(payload: &[u8], out: &mut [u8]) -> Result<(), Undecodable> {
    decode_page(payload, out).ok_or(Undecodable)
}

/// Takes a number of two bytes.
fn take_len(rest: &mut &[u8]) -> Option<usize> {
    let (len, behind) = rest.split_first_chunk::<LEN>()?;
    *rest = behind;
    Some(usize::from(u16::from_le_bytes(*len)))
}

fn decode_page(payload: &[u8], out: &mut [u8]) -> Option<()> {
    let (&count, mut rest) = payload.split_first()?;
    let lens = rest;
    let (mut other, mut blobs) = (out.len(), 0);
    for _ in 0..count {
        take_len(&mut rest)?;
        let blob = take_len(&mut rest)?;
        other = other.checked_sub(blob)?;
        blobs += blob;
    }
    let (gap_at, gap) = (take_len(&mut rest)?, take_len(&mut rest)?);
    let stored = other.checked_sub(gap)?;
    let (before, behind) = rest.split_at_checked(stored)?;
    let (before, after) = before.split_at_checked(gap_at)?;
    // The other bytes go to the end, behind all blobs, and each part is moved down to its place.
    let (head, tail) = out.get_mut(blobs..)?.split_at_mut_checked(gap_at)?;
    let (zeros, tail) = tail.split_at_mut_checked(gap)?;
    head.copy_from_slice(before);
    zeros.fill(0);
    tail.copy_from_slice(after);
    let padded = [behind, &[0; PADDING]].concat();
    let mut bits = Bits::new(&padded);
    let tables: Tables<Numbers> = class::take(&mut bits)?;
    let (mut from, mut at, mut lens) = (blobs, 0, lens);
    for _ in 0..count {
        let (part, blob) = (take_len(&mut lens)?, take_len(&mut lens)?);
        let end = from.checked_add(part).filter(|end| *end <= out.len())?;
        out.copy_within(from..end, at);
        (from, at) = (end, at + part);
        read::blob(&tables, &mut bits, out.get_mut(at..at + blob)?)?;
        at += blob;
    }
    bits.at_end().then_some(())
}

#[cfg(test)]
mod tests;

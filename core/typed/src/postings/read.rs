//! Reads the numbers of a blob and writes the blob; see `split` for what it consists of.

use super::class::{self, Kind, Tables, take_wide};
use super::split::{COLUMN, COLUMN_BITS, HEAD, TERM_BITS};
use crate::symbols::huffman::{Bits, Numbers};
use densite_sqlite_format::put_varint;

/// Reads the numbers of a blob and fills `out` with it.
pub(super) fn blob(tables: &Tables<Numbers>, bits: &mut Bits<'_>, out: &mut [u8]) -> Option<()> {
    let flags = bits.take(2)?;
    let usual = bits.take(COLUMN_BITS)?;
    let count = usize::try_from(take_wide(bits)?).ok()?;
    let mut blob = Blob {
        tables,
        bits,
        out,
        at: HEAD,
        usual: usual.checked_sub(1).map(|column| column as u8),
        deletes: flags & 2 != 0,
        first_row: 0,
    };
    let is_cut = flags & 1 != 0;
    let rest = take_wide(blob.bits)?;
    blob.list(rest, Kind::Next)?;
    blob.first_row = blob.at;
    if blob.documents(is_cut && count == 0)? == 0 {
        blob.first_row = 0;
    }
    // Each term has a byte at least.
    if count > blob.out.len() {
        return None;
    }
    let mut terms = Vec::with_capacity(count);
    for i in 0..count {
        terms.push(blob.at);
        blob.term(i > 0)?;
        blob.documents(is_cut && i + 1 == count)?;
    }
    let end = u16::try_from(blob.at).ok()?;
    let mut before = 0;
    for term in terms {
        blob.varint((term - before) as u64)?;
        before = term;
    }
    let row = u16::try_from(blob.first_row).ok()?;
    let head = blob.out.first_chunk_mut::<HEAD>()?;
    let ([a, b], [c, d]) = (row.to_be_bytes(), end.to_be_bytes());
    *head = [a, b, c, d];
    (blob.at == blob.out.len()).then_some(())
}

/// Writes a number at `at`, and moves `at` behind it.
#[inline(always)]
fn put(out: &mut [u8], at: &mut usize, value: u64) -> Option<()> {
    let room = out.get_mut(*at..)?;
    if value < 0x4000
        && let Some(place) = room.first_chunk_mut()
    {
        // One byte or two cannot be predicted, so there is no branch. The byte behind a short
        // number is written again.
        let is_long = value >= 0x80;
        let long = (value >> 7 | 0x80 | (value & 0x7f) << 8) as u16;
        let bytes: u16 = if is_long { long } else { value as u16 };
        *place = bytes.to_le_bytes();
        *at += 1 + usize::from(is_long);
        return Some(());
    }
    *at += match put_long(value, room) {
        0 => return None,
        len => len,
    };
    Some(())
}

#[inline(never)]
fn put_long(value: u64, room: &mut [u8]) -> usize {
    put_varint(value, room)
}

struct Blob<'a, 'b> {
    tables: &'a Tables<Numbers>,
    bits: &'a mut Bits<'b>,
    out: &'a mut [u8],
    at: usize,
    usual: Option<u8>,
    deletes: bool,
    first_row: usize,
}

impl Blob<'_, '_> {
    #[inline(always)]
    fn varint(&mut self, value: u64) -> Option<()> {
        put(self.out, &mut self.at, value)
    }

    #[inline(always)]
    fn coded(&mut self, kind: Kind) -> Option<u64> {
        let [row, count, first, next] = self.tables;
        let table = match kind {
            Kind::Row => row,
            Kind::Count => count,
            Kind::First => first,
            Kind::Next => next,
        };
        class::read(table, self.bits)
    }

    /// A number that is mostly below `2^width - 1`.
    #[inline]
    fn short(&mut self, width: u32) -> Option<u64> {
        let most = (1 << width) - 1;
        let value = self.bits.take(width)? as u64;
        if value < most {
            return Some(value);
        }
        Some(most + take_wide(self.bits)?)
    }

    /// So many numbers of a list.
    #[inline]
    fn list(&mut self, count: u64, kind: Kind) -> Option<()> {
        let [_, _, first, next] = self.tables;
        let mut table = if kind == Kind::First { first } else { next };
        // Copies, which stay in registers.
        let (mut bits, mut at, mut left) = (*self.bits, self.at, count);
        while left > 0 {
            let value = class::read(table, &mut bits)?;
            put(self.out, &mut at, value)?;
            left -= 1;
            table = next;
            if value == COLUMN && left > 0 {
                (*self.bits, self.at) = (bits, at);
                let column = self.short(COLUMN_BITS)?;
                self.varint(column)?;
                (bits, at) = (*self.bits, self.at);
                left -= 1;
                table = first;
            }
        }
        (*self.bits, self.at) = (bits, at);
        Some(())
    }

    fn term(&mut self, shares: bool) -> Option<()> {
        if shares {
            let shared = self.short(TERM_BITS)?;
            self.varint(shared)?;
        }
        let len = self.short(TERM_BITS)?;
        self.varint(len)?;
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        let place = self.out.get_mut(self.at..end)?;
        for byte in place {
            *byte = self.bits.take(8)? as u8;
        }
        self.at = end;
        Some(())
    }

    /// The documents of a term, and how many these are. `is_cut`: the last one has a list that
    /// continues elsewhere.
    fn documents(&mut self, is_cut: bool) -> Option<u64> {
        let count = take_wide(self.bits)?;
        for i in 0..count {
            let row = match i {
                0 => take_wide(self.bits)?,
                _ => self.coded(Kind::Row)?,
            };
            self.varint(row)?;
            self.document(is_cut && i + 1 == count)?;
        }
        Some(count)
    }

    #[inline]
    fn document(&mut self, is_cut: bool) -> Option<()> {
        let count = self.coded(Kind::Count)?;
        let deleted = self.deletes && self.bits.take(1)? == 1;
        // The length of the list is known behind it. Mostly it takes one byte.
        let size_at = self.at;
        self.at += 1;
        if let Some(column) = self.usual
            && count & 1 == 0
        {
            let opening = self.out.get_mut(self.at..)?.first_chunk_mut()?;
            *opening = [COLUMN as u8, column];
            self.at += 2;
        }
        self.list(count >> 1, Kind::First)?;
        let mut len = (self.at - size_at - 1) as u64;
        if is_cut {
            len = take_wide(self.bits)?;
        }
        let size = len.checked_mul(2)? | u64::from(deleted);
        if size < 0x80 {
            *self.out.get_mut(size_at)? = size as u8;
            return Some(());
        }
        self.long_size(size, size_at)
    }

    /// Writes a size of several bytes and moves the list behind it.
    #[inline(never)]
    fn long_size(&mut self, size: u64, at: usize) -> Option<()> {
        let mut bytes = [0; 9];
        let len = put_varint(size, &mut bytes);
        let end = self.at + len - 1;
        if end > self.out.len() {
            return None;
        }
        self.out.copy_within(at + 1..self.at, at + len);
        self.out
            .get_mut(at..at + len)?
            .copy_from_slice(bytes.get(..len)?);
        self.at = end;
        Some(())
    }
}

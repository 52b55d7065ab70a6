//! Takes a blob of an FTS5 index apart into numbers.
//!
//! The blob of a leaf (<https://www.sqlite.org/src/file?name=ext/fts5/fts5_index.c>) has
//!
//! 1. two bytes: the address of the first row id before the first term, or 0; two bytes: the address
//!    behind the lists;
//! 2. the rest of the last list of the leaf before, without a term;
//! 3. the terms: how many bytes the term shares with the one before (not for the first), how many
//!    follow, these bytes; then its documents: the row id, or from the second one on what it is
//!    more than the one before, twice the bytes of its list (plus 1 if it is deleted), and the list;
//! 4. behind the lists, the terms' addresses, each as what it is more than the one before.
//!
//! A list has positions, less the one before, plus 2. A 1 begins another column, whose number
//! follows. All numbers are varints. The last list can continue on the next leaf.

use super::class::Kind;
use super::event::Event;
use densite_sqlite_format::{be16, varint};

/// Bytes before the lists.
pub(super) const HEAD: usize = 4;
/// The number that begins another column.
pub(super) const COLUMN: u64 = 1;
/// Bits of the lengths of a term, if it is shorter than the greatest such number.
pub(super) const TERM_BITS: u32 = 4;
/// Bits of a column's number; see [`TERM_BITS`].
pub(super) const COLUMN_BITS: u32 = 4;

/// The addresses in a blob's head: of the first row id, and behind the lists.
pub(super) fn head(blob: &[u8]) -> Option<(usize, usize)> {
    let (row, end) = (be16(blob, 0)?, be16(blob, 2)?);
    (end >= HEAD && end <= blob.len() && row < end).then_some((row, end))
}

/// The addresses of the terms.
pub(super) fn terms(blob: &[u8], end: usize) -> Option<Vec<usize>> {
    let (mut at, mut term, mut terms) = (end, 0usize, Vec::new());
    while at < blob.len() {
        let (more, len) = varint(blob.get(at..)?)?;
        term = term.checked_add(usize::try_from(more).ok()?)?;
        if term < HEAD || term >= end || more == 0 {
            return None;
        }
        terms.push(term);
        at += len;
    }
    Some(terms)
}

/// Whether the head and the addresses of terms are those of a leaf.
pub(super) fn has_frame(blob: &[u8]) -> bool {
    head(blob).is_some_and(|(_, end)| terms(blob, end).is_some())
}

/// Appends the numbers of a blob. `None` if it is not written as FTS5 writes it.
pub(super) fn blob(blob: &[u8], events: &mut Vec<Event>) -> Option<()> {
    let (row, end) = head(blob)?;
    let terms = terms(blob, end)?;
    let from = events.len();
    let mut split = Split {
        bytes: blob.get(..end)?,
        at: HEAD,
        usual: usual_column(blob, row, &terms, end),
        cut: false,
        deletes: false,
        first_row: 0,
        in_term: false,
        events,
    };
    // What is not known yet.
    let flags = split.put(Event::Bits(0, 2));
    split.put(Event::Bits(
        split.usual.map_or(0, |column| column + 1),
        COLUMN_BITS,
    ));
    split.put(Event::Wide(terms.len() as u64));
    let mut ends = terms.iter().copied().skip(1).chain([end]);
    let first = terms.first().copied().unwrap_or(end);
    split.rest(if row == 0 { first } else { row.min(first) })?;
    split.documents(first)?;
    for (i, &at) in terms.iter().enumerate() {
        split.in_term = true;
        (split.at == at).then_some(())?;
        split.term(i > 0)?;
        split.documents(ends.next()?)?;
    }
    (split.at == end && split.first_row == row).then_some(())?;
    let found = u64::from(split.cut) | u64::from(split.deletes) << 1;
    *split.events.get_mut(flags)? = Event::Bits(found, 2);
    // Whether documents are deleted was not known either.
    if !split.deletes {
        let mut kept = from;
        for i in from..events.len() {
            let event = *events.get(i)?;
            if event != NOT_DELETED {
                *events.get_mut(kept)? = event;
                kept += 1;
            }
        }
        events.truncate(kept);
    }
    events
        .get(from..)?
        .iter()
        .all(Event::is_possible)
        .then_some(())
}

/// That a document is not deleted.
const NOT_DELETED: Event = Event::Bits(0, 1);

/// The column with which the first list begins.
fn usual_column(blob: &[u8], row: usize, terms: &[usize], end: usize) -> Option<u64> {
    let number = |at: usize| varint(blob.get(at..end)?);
    let mut at = row;
    if row == 0 {
        at = *terms.first()?;
        let (len, bytes) = number(at)?;
        at = at
            .checked_add(bytes)?
            .checked_add(usize::try_from(len).ok()?)?;
    }
    for _ in 0..2 {
        at += number(at)?.1;
    }
    let [mark, column] = *blob.get(at..end)?.first_chunk()?;
    let usual = u64::from(mark) == COLUMN && u64::from(column) + 1 < 1 << COLUMN_BITS;
    usual.then_some(u64::from(column))
}

struct Split<'a> {
    /// The blob, up to the end of its lists.
    bytes: &'a [u8],
    at: usize,
    /// Most lists begin with this column.
    usual: Option<u64>,
    /// The last list continues on the next leaf.
    cut: bool,
    deletes: bool,
    /// The address of the first row id, if it is before the first term, or 0.
    first_row: usize,
    in_term: bool,
    events: &'a mut Vec<Event>,
}

impl Split<'_> {
    /// Appends an event and returns its place.
    fn put(&mut self, event: Event) -> usize {
        self.events.push(event);
        self.events.len() - 1
    }

    /// The next varint, which ends at `end` or before.
    fn varint(&mut self, end: usize) -> Option<u64> {
        let (value, len) = varint(self.bytes.get(self.at..end)?)?;
        self.at += len;
        Some(value)
    }

    /// The rest of a list that began on the leaf before.
    fn rest(&mut self, end: usize) -> Option<()> {
        let place = self.put(Event::Wide(0));
        let count = self.list(end, Kind::Next)?;
        *self.events.get_mut(place)? = Event::Wide(count);
        Some(())
    }

    /// Numbers of a list, up to `end`. Returns how many these are.
    fn list(&mut self, end: usize, mut kind: Kind) -> Option<u64> {
        let mut count = 0;
        while self.at < end {
            let value = self.varint(end)?;
            self.put(Event::Coded(kind, value));
            kind = Kind::Next;
            count += 1;
            if value == COLUMN && self.at < end {
                let column = self.varint(end)?;
                self.short(column, COLUMN_BITS);
                kind = Kind::First;
                count += 1;
            }
        }
        Some(count)
    }

    /// A number that is mostly below `2^width - 1`.
    fn short(&mut self, value: u64, width: u32) {
        let most = (1 << width) - 1;
        self.put(Event::Bits(value.min(most), width));
        if value >= most {
            self.put(Event::Wide(value - most));
        }
    }

    /// A term, up to its documents.
    fn term(&mut self, shares: bool) -> Option<()> {
        let end = self.bytes.len();
        if shares {
            let shared = self.varint(end)?;
            self.short(shared, TERM_BITS);
        }
        let len = self.varint(end)?;
        self.short(len, TERM_BITS);
        let len = usize::try_from(len).ok()?;
        let bytes: &[u8] = self.bytes;
        for byte in bytes.get(self.at..self.at.checked_add(len)?)? {
            self.put(Event::Bits(u64::from(*byte), 8));
        }
        self.at += len;
        Some(())
    }

    /// The documents up to `end`.
    fn documents(&mut self, end: usize) -> Option<()> {
        let place = self.put(Event::Wide(0));
        let mut count = 0;
        while self.at < end {
            if self.first_row == 0 && !self.in_term {
                self.first_row = self.at;
            }
            let row = self.varint(end)?;
            self.put(match count {
                0 => Event::Wide(row),
                _ => Event::Coded(Kind::Row, row),
            });
            self.document(end)?;
            count += 1;
        }
        *self.events.get_mut(place)? = Event::Wide(count);
        Some(())
    }

    /// A document behind its row id.
    fn document(&mut self, end: usize) -> Option<()> {
        let size = self.varint(end)?;
        self.deletes |= size & 1 == 1;
        let len = usize::try_from(size >> 1).ok()?;
        let cut = len > end - self.at;
        // Only the last list of the blob can continue.
        (!cut || end == self.bytes.len()).then_some(())?;
        let list_end = if cut { end } else { self.at + len };
        let place = self.put(Event::Coded(Kind::Count, 0));
        self.put(Event::Bits(size & 1, 1));
        let list = self.bytes.get(self.at..list_end)?;
        let usual = self
            .usual
            .is_some_and(|column| list.starts_with(&[1, column as u8]));
        if usual {
            self.at += 2;
        }
        let count = self.list(list_end, Kind::First)?;
        let unusual = u64::from(!usual && self.usual.is_some());
        *self.events.get_mut(place)? = Event::Coded(Kind::Count, count << 1 | unusual);
        if cut {
            self.cut = true;
            self.put(Event::Wide(len as u64));
        }
        Some(())
    }
}

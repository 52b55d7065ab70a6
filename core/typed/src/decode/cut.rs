//! Cells whose records continue on overflow pages, and are in the columns as far as they are local.
//!
//! In the columns such a row ends with the value that is cut, as a text or blob of its local bytes.
//! The serial types of that value and of the later ones are streams of the page. They replace in
//! the record's header what the columns wrote there.

use super::columns::Columns;
use super::record_place::Record;
use super::{Head, local};
use crate::model::PageStream;
use crate::stream::{Source, Streams};
use densite_sqlite_format::put_varint;
use densite_sqlite_format::record::{body_len, header_len, type_len};

/// A cell that is cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// Which of its values is cut.
    column: usize,
    /// The serial type of that value.
    serial_type: u32,
    /// Where in [`Streams::ints`] the types of the later values begin and end.
    from: usize,
    to: usize,
    /// The first overflow page.
    pub(super) overflow: u32,
    /// Where in the page the serial type goes. The types of the later values follow.
    types_at: usize,
}

/// The parts of a record that is cut, in bytes.
pub(super) struct Parts {
    header: usize,
    /// The part of the header before the serial type of the value that is cut.
    before: usize,
    /// The part of the record that is in the page.
    pub(super) local: usize,
    /// The whole record.
    pub(super) payload: u64,
}

impl Cut {
    /// Appends the `n` cut cells of a page to `cuts`, without their overflow pages.
    #[inline]
    pub(super) fn read(n: usize, source: &mut Source<'_>, cuts: &mut Vec<Cut>) -> Option<()> {
        let columns = source.read(PageStream::Cut as usize, n)?;
        let types = source.read(PageStream::Type as usize, n)?;
        let behind = source.read(PageStream::Behind as usize, n)?;
        let mut all = 0usize;
        for n in source.streams.values(behind)? {
            all = all.checked_add(usize::try_from(*n).ok()?)?;
        }
        let mut from = source.read(PageStream::Types as usize, all)?.from;
        let values = |read| Some(source.streams.values(read)?.iter());
        let each = values(columns)?.zip(values(types)?).zip(values(behind)?);
        for ((column, serial_type), behind) in each {
            let to = from + *behind as usize;
            cuts.push(Cut {
                column: usize::try_from(*column).ok()?,
                serial_type: u32::try_from(*serial_type).ok()?,
                from,
                to,
                overflow: 0,
                types_at: 0,
            });
            from = to;
        }
        Some(())
    }

    /// The parts of its record, if row `row` of the columns can be this cell. `types` and `body`
    /// are the bytes of that row's types and values.
    #[inline]
    pub(super) fn parts(
        &self,
        row: usize,
        (types, body): (u32, u32),
        head: &Head,
        columns: &Columns,
        streams: &Streams,
    ) -> Option<Parts> {
        let here = columns.bytes_type_of(self.column, row)?;
        let missing = body_len(self.serial_type).checked_sub(body_len(here))?;
        let before = (types as usize).checked_sub(type_len(here))?;
        let (mut types, mut beyond) = (before + type_len(self.serial_type), missing as u64);
        for t in streams.ints.get(self.from..self.to)? {
            let t = u32::try_from(*t).ok()?;
            types += type_len(t);
            beyond += body_len(t) as u64;
        }
        let header = header_len(types);
        let here = header + body as usize;
        let payload = here as u64 + beyond;
        let (_, len, more) = local(head.kind, head.usable, i64::try_from(payload).ok()?)?;
        // The value is longer than its local part, so its serial type takes at least as many bytes
        // as that of the local part.
        (missing > 0 && more && len == here).then_some(Parts {
            header,
            before,
            local: here,
            payload,
        })
    }

    /// Writes the length of the header and the overflow page of a record that begins at `at`.
    /// Returns where those parts of the record lie that come from the columns.
    #[inline]
    pub(super) fn put(&mut self, parts: &Parts, at: usize, out: &mut [u8]) -> Option<Record> {
        let types = at + put_varint(parts.header as u64, out.get_mut(at..)?);
        let end = at + parts.local;
        let overflow = self.overflow.to_be_bytes();
        *out.get_mut(end..)?.first_chunk_mut()? = overflow;
        self.types_at = types + parts.before;
        Some(Record {
            types,
            values: at + parts.header,
            end,
        })
    }

    /// Writes the serial types of the value that is cut and of the later ones.
    #[inline]
    pub(super) fn write_types(&self, streams: &Streams, out: &mut [u8]) -> Option<()> {
        let mut at = self.types_at;
        at += put_varint(u64::from(self.serial_type), out.get_mut(at..)?);
        for t in streams.ints.get(self.from..self.to)? {
            at += put_varint(*t as u64, out.get_mut(at..)?);
        }
        Some(())
    }
}

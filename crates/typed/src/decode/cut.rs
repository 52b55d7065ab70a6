//! Cells whose records go on on overflow pages, and are in the columns as far as they are local.
//!
//! Such a row ends, in the columns, with the value that is cut, as a text or blob of its local bytes. Its serial type and those of the values
//! behind it are streams of the page, and replace in the record's header what the columns put there.

use super::columns::Columns;
use super::place::Record;
use super::{Head, local};
use crate::model::PageStream;
use crate::page::put_varint;
use crate::record::{body_len, header_len, type_len};
use crate::stream::{Source, Streams};

/// A cell that is cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// Which of its values is.
    column: usize,
    /// The serial type of that one.
    serial_type: u32,
    /// Where in [`Streams::ints`] those of the values behind it begin, and where they end.
    from: usize,
    to: usize,
    /// The first overflow page.
    pub(super) overflow: u32,
    /// Where in the page the serial type goes, the others behind it.
    types_at: usize,
}

/// The parts of a record that is cut, in bytes.
pub(super) struct Parts {
    header: usize,
    /// Of the header what comes before the serial type of the value that is cut.
    before: usize,
    /// The record as far as it is in the page.
    pub(super) local: usize,
    /// All of it.
    pub(super) payload: u64,
}

impl Cut {
    /// Appends the `n` cut cells of a page to `cuts`, but for their overflow pages.
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

    /// What its record takes, if row `row` of the columns can be it: `types` and `body` are the bytes of that row's types and values.
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
        // As there is something missing, its serial type takes no fewer bytes than that of what is here.
        (missing > 0 && more && len == here).then_some(Parts {
            header,
            before,
            local: here,
            payload,
        })
    }

    /// Puts the length of the header and the overflow page where they go: `at` is where the record begins. Returns where the parts of it lie that the columns have.
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

    /// Writes the serial types of the value that is cut and of those behind it.
    pub(super) fn write_types(&self, streams: &Streams, out: &mut [u8]) -> Option<()> {
        let mut at = self.types_at;
        at += put_varint(u64::from(self.serial_type), out.get_mut(at..)?);
        for t in streams.ints.get(self.from..self.to)? {
            at += put_varint(*t as u64, out.get_mut(at..)?);
        }
        Some(())
    }
}

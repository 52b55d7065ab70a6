//! Splitting: a page becomes streams of integers, codes of text and raw bytes, in the order in
//! which they are stored.

use crate::class::Class;
use crate::context::PageContext;
use crate::decimal::to_scaled;
use crate::fast;
use crate::model::{COLUMN_STREAMS, Column, ColumnStream, Form, Model, PAGE_STREAMS, PageStream};
use crate::record::{CUT, Coded, Raw, Small, take_cell};
use crate::scrub::may_scrub;
use crate::stream::{Stream, Tail, most_values};
use crate::template::FIELDS_MAX;
use densite_sqlite_format::HEADER_LEN;
use densite_sqlite_format::page::Page;

/// A page, split. Its memory is used again for the next page.
#[derive(Debug, Default)]
pub(crate) struct Split {
    pub(crate) page: Page,
    /// The short path's view of a leaf whose cells have one size.
    pub(crate) even: fast::EvenLeaf,
    /// The most columns that a row has.
    pub(crate) columns: usize,
    /// 0 and 1 take a byte.
    pub(crate) long: bool,
    pub(crate) ints: Vec<i64>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) codes: Vec<u16>,
    pub(crate) raw: Vec<u8>,
    /// Some unallocated bytes must be kept: they are the end of `raw`.
    pub(crate) residue: bool,
    /// Unallocated bytes need not be kept.
    pub(crate) scrub: bool,
    values: Vec<Raw>,
    /// Where the values of each row begin and end; opaque rows are left out.
    rows: Vec<(u32, u32)>,
    /// The rows that are cut.
    cuts: Vec<Cut>,
    /// See [`take_cell`].
    types: Vec<u32>,
    of_column: OfColumn,
}

/// A row that continues on overflow pages.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Its first value that does not end in the page.
    column: usize,
    /// Where in [`Split::types`] the types of that value and of the later ones begin and end.
    from: usize,
    to: usize,
}

/// The values of one column by class. The classes themselves are written to [`Split::ints`] at
/// once.
#[derive(Debug, Default)]
struct OfColumn {
    numbers: Vec<i64>,
    integers: Vec<i64>,
    reals: Vec<i64>,
    lengths: Vec<i64>,
    formed: [Vec<i64>; FIELDS_MAX],
}

impl OfColumn {
    fn clear(&mut self) {
        self.numbers.clear();
        self.integers.clear();
        self.reals.clear();
        self.lengths.clear();
        for f in &mut self.formed {
            f.clear();
        }
    }
}

impl Split {
    /// Splits `bytes` by a model. False if this codec cannot code the page.
    pub(crate) fn split(&mut self, bytes: &[u8], context: &PageContext, model: &Model) -> bool {
        self.part(bytes, context, model).is_some()
    }

    fn part(&mut self, bytes: &[u8], context: &PageContext, model: &Model) -> Option<()> {
        let usable = bytes.len().checked_sub(context.reserved)?;
        let first = context.number == 1;
        let even = self.even.parse(&mut self.page, bytes, usable, first);
        self.ints.clear();
        self.streams.clear();
        self.codes.clear();
        self.raw.clear();
        if first {
            self.raw.extend_from_slice(bytes.get(..HEADER_LEN)?);
        }
        self.raw.extend_from_slice(bytes.get(usable..)?);
        if !even || self.part_even(bytes, model).is_none() {
            if !self.page.parse(bytes, usable, first) {
                return None;
            }
            if self.part_rows(bytes, model).is_none() {
                self.part_values(bytes, model)?;
            }
        }
        self.residue = false;
        self.scrub = may_scrub(context, bytes, &self.page);
        if !self.scrub {
            let before = self.raw.len();
            let raw = &mut self.raw;
            self.page.unallocated(|from, to| {
                raw.extend_from_slice(bytes.get(from..to).unwrap_or_default());
            });
            let left = self.raw.get(before..).unwrap_or_default();
            self.residue = left.iter().any(|b| *b != 0);
            if !self.residue {
                self.raw.truncate(before);
            }
        }
        Some(())
    }

    /// Splits an even leaf by the short path. `None`, with no stream listed, if it does not apply.
    fn part_even(&mut self, bytes: &[u8], model: &Model) -> Option<()> {
        let (ints, streams) = (&mut self.ints, &mut self.streams);
        let leaf = self.even.split(&self.page, bytes, model, ints, streams)?;
        (self.columns, self.long) = (leaf.columns, leaf.long);
        Some(())
    }

    /// Splits a leaf of short rows of integers by the short path. `None`, with no stream listed, if
    /// it does not apply.
    fn part_rows(&mut self, bytes: &[u8], model: &Model) -> Option<()> {
        let (ints, streams) = (&mut self.ints, &mut self.streams);
        let leaf = fast::split_rows(&self.page, bytes, model, ints, streams)?;
        (self.columns, self.long) = (leaf.columns, leaf.long);
        Some(())
    }

    /// Splits the cells value by value.
    fn part_values(&mut self, bytes: &[u8], model: &Model) -> Option<()> {
        self.part_cells(bytes)?;
        let columns = self.columns;
        if self.rows.len().checked_mul(columns)? > most_values(bytes.len()) {
            return None;
        }
        let mut number = PAGE_STREAMS;
        for c in 0..columns {
            self.part_column(bytes, c, number, model)?;
            number += COLUMN_STREAMS + model.column(c).form.streams();
        }
        Some(())
    }

    /// Splits what belongs to the cells themselves, and takes their records apart where that is
    /// possible.
    fn part_cells(&mut self, bytes: &[u8]) -> Option<()> {
        let kind = self.page.kind;
        self.values.clear();
        self.rows.clear();
        self.cuts.clear();
        self.types.clear();
        self.columns = 0;
        let cells = self.page.cells.len();
        let has_records = !kind.is_table() || !kind.has_child();
        if has_records {
            let mut small = Small::default();
            let start = self.ints.len();
            for cell in &self.page.cells {
                let (from, types_from) = (self.values.len(), self.types.len());
                let coded = take_cell(bytes, cell, &mut small, &mut self.values, &mut self.types);
                self.ints.push(coded as i64);
                let (to, types_to) = (self.values.len(), self.types.len());
                let mut columns = to - from;
                if coded == Coded::Cut {
                    self.cuts.push(Cut {
                        column: columns.checked_sub(1)?,
                        from: types_from,
                        to: types_to,
                    });
                    columns += types_to - types_from - 1;
                }
                if coded != Coded::Opaque {
                    self.rows.push((from as u32, to as u32));
                    self.columns = self.columns.max(columns);
                }
            }
            if small.short && small.long {
                return None;
            }
            self.long = small.long;
            self.stream_from(PageStream::Opaque as usize, start);
        } else {
            self.long = false;
        }
        if kind.has_child() {
            let start = self.ints.len();
            self.ints
                .extend(self.page.cells.iter().map(|c| i64::from(c.child)));
            self.stream_from(PageStream::Child as usize, start);
        }
        if kind.is_table() {
            let start = self.ints.len();
            self.ints.extend(self.page.cells.iter().map(|c| c.rowid));
            self.stream_from(PageStream::Rowid as usize, start);
        }
        if has_records && (self.rows.len() < cells || !self.cuts.is_empty()) {
            self.part_long(bytes)?;
        }
        Some(())
    }

    /// Splits what only opaque and cut cells have.
    #[cold]
    fn part_long(&mut self, bytes: &[u8]) -> Option<()> {
        let coded = self.ints.get(..self.page.cells.len())?.to_vec();
        let start = self.ints.len();
        for (cell, coded) in self.page.cells.iter().zip(&coded) {
            if *coded == Coded::Opaque as i64 {
                self.ints.push(i64::try_from(cell.payload).ok()?);
                let at = cell.local_at as usize;
                let local = bytes.get(at..at + cell.local_len as usize)?;
                self.raw.extend_from_slice(local);
            }
        }
        self.stream_from(PageStream::Payload as usize, start);
        let start = self.ints.len();
        let chained = self.page.cells.iter().filter(|c| c.overflow != 0);
        self.ints.extend(chained.map(|c| i64::from(c.overflow)));
        self.stream_from(PageStream::Overflow as usize, start);

        let cuts = std::mem::take(&mut self.cuts);
        let start = self.ints.len();
        self.ints.extend(cuts.iter().map(|cut| cut.column as i64));
        self.stream_from(PageStream::Cut as usize, start);
        let start = self.ints.len();
        for cut in &cuts {
            self.ints.push(i64::from(*self.types.get(cut.from)?));
        }
        self.stream_from(PageStream::Type as usize, start);
        let start = self.ints.len();
        let behind = cuts.iter().map(|cut| cut.to - cut.from - 1);
        self.ints.extend(behind.map(|n| n as i64));
        self.stream_from(PageStream::Behind as usize, start);
        let start = self.ints.len();
        for cut in &cuts {
            let types = self.types.get(cut.from + 1..cut.to)?;
            self.ints.extend(types.iter().map(|t| i64::from(*t)));
        }
        self.stream_from(PageStream::Types as usize, start);
        self.cuts = cuts;
        Some(())
    }

    /// Lists the integers from `start` on as a stream, unless there are none.
    fn stream_from(&mut self, number: usize, start: usize) {
        let to = self.ints.len();
        if start < to {
            self.streams.push(Stream {
                number,
                from: start,
                to,
                tail: Tail::Nothing,
            });
        }
    }

    fn part_column(&mut self, bytes: &[u8], c: usize, number: usize, model: &Model) -> Option<()> {
        let column = model.column(c);
        let Split {
            values,
            rows,
            codes,
            raw: raw_bytes,
            of_column: of,
            ints,
            streams,
            ..
        } = self;
        of.clear();
        let power = 10i64.checked_pow(u32::from(column.scale))?;
        let mut fields = [0; FIELDS_MAX];
        let codes_from = codes.len();
        // Of a column of repeated text: the last one, and how many there were.
        let (mut repeated, mut ranks) = (None, 0);
        // The classes come first, one for each row, so they are written to their final place.
        let start = ints.len();
        ints.resize(start + rows.len(), Class::Absent as i64);
        let classes = ints.get_mut(start..).unwrap_or_default();
        for ((from, to), of_row) in rows.iter().zip(classes) {
            let value = *from as usize + c;
            let Some(raw) = values.get(value).filter(|_| value < *to as usize) else {
                continue;
            };
            let class = match raw.serial_type {
                0 => Class::Null,
                7 => {
                    let bits = raw.value;
                    match to_scaled(f64::from_bits(bits as u64), column.scale) {
                        Some(m) if m % power != 0 => {
                            of.numbers.push(m);
                            Class::Number
                        }
                        _ => {
                            of.reals.push(bits);
                            Class::Real
                        }
                    }
                }
                1..=6 | 8..12 => {
                    let v = raw.value;
                    match v.checked_mul(power) {
                        Some(m) => {
                            of.numbers.push(m);
                            Class::Number
                        }
                        None => {
                            of.integers.push(v);
                            Class::Integer
                        }
                    }
                }
                t => {
                    let body = raw.body(bytes)?;
                    let text = t % 2 == 1;
                    if let Form::Vector(vector) = &column.form
                        && !text
                    {
                        vector.part(body, &mut of.formed)?;
                        *of_row = Class::Formed as i64;
                        continue;
                    }
                    let formed = text
                        && raw.value != CUT
                        && match &column.form {
                            Form::Free | Form::Vector(_) => false,
                            Form::Repeated => {
                                let is_new = repeated != Some(body);
                                if is_new {
                                    ranks += 1;
                                    repeated = Some(body);
                                    of.lengths.push(put_free(column, body, codes, raw_bytes));
                                }
                                fields = [ranks - 1; FIELDS_MAX];
                                true
                            }
                            Form::Template(template) => template.parse(body, &mut fields),
                            Form::Dictionary(d) => d.number_of(body).is_some_and(|n| {
                                fields = [i64::from(n); FIELDS_MAX];
                                true
                            }),
                        };
                    if formed {
                        let used = column.form.streams();
                        for (to, field) in of.formed.iter_mut().zip(&fields).take(used) {
                            to.push(*field);
                        }
                        Class::Formed
                    } else {
                        of.lengths.push(put_free(column, body, codes, raw_bytes));
                        if text { Class::Text } else { Class::Blob }
                    }
                }
            };
            *of_row = class as i64;
        }
        streams.push(Stream {
            number: number + ColumnStream::Class as usize,
            from: start,
            to: ints.len(),
            tail: Tail::Nothing,
        });
        let mut put = |s: ColumnStream, i: usize, of: &[i64], tail: Tail| {
            if !of.is_empty() {
                let from = ints.len();
                ints.extend_from_slice(of);
                streams.push(Stream {
                    number: number + s as usize + i,
                    from,
                    to: ints.len(),
                    tail,
                });
            }
        };
        put(ColumnStream::Number, 0, &of.numbers, Tail::Nothing);
        put(ColumnStream::Integer, 0, &of.integers, Tail::Nothing);
        let all = of.reals.iter().fold(0, |all, bits| all | bits);
        let zeros = all.trailing_zeros().min(63);
        for bits in &mut of.reals {
            *bits >>= zeros;
        }
        put(ColumnStream::Real, 0, &of.reals, Tail::Zeros(zeros));
        let tail = match &column.symbols {
            Some(symbols) => Tail::Codes {
                from: codes_from,
                to: codes.len(),
                width: symbols.width(),
            },
            None => Tail::Nothing,
        };
        let formed = of.formed.iter().take(column.form.streams()).enumerate();
        // The reader needs the ranks to know how many lengths there are.
        if let Form::Repeated = column.form {
            for (i, of) in formed.clone() {
                put(ColumnStream::Formed, i, of, Tail::Nothing);
            }
            put(ColumnStream::Length, 0, &of.lengths, tail);
            return Some(());
        }
        put(ColumnStream::Length, 0, &of.lengths, tail);
        for (i, of) in formed {
            put(ColumnStream::Formed, i, of, Tail::Nothing);
        }
        Some(())
    }
}

/// Appends text or a blob that has no form, and returns its length: of codes if the column has
/// symbols, otherwise of bytes.
#[inline]
fn put_free(column: &Column, body: &[u8], codes: &mut Vec<u16>, raw: &mut Vec<u8>) -> i64 {
    match &column.symbols {
        Some(symbols) => {
            let before = codes.len();
            symbols.encode(body, codes);
            (codes.len() - before) as i64
        }
        None => {
            raw.extend_from_slice(body);
            body.len() as i64
        }
    }
}

//! Columns made ready: values, serial types, and what each row's record takes.

use super::numbers::{Numbers, number_len};
use super::{Head, Read, Source};
use crate::class::Class;
use crate::model::{COLUMN_STREAMS, ColumnStream, Form, PAGE_STREAMS, SLACK};
use crate::record::{NULL, REAL, bytes_type, type_len};
use crate::symbols::Codes;

/// Columns whose types may be in [`Columns::front`].
pub(super) const FRONT: usize = 32;

/// The serial types of a column.
#[derive(Debug, Clone, Copy)]
pub(super) enum Types {
    /// One for all rows.
    Same(u32),
    /// One for each row: from here on in [`Columns::types`].
    Each(usize),
}

/// The values of a column.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    /// None of any length.
    Nothing,
    /// The rows end before this column.
    Absent,
    /// Integers, or bits of REALs, of one length, from here on in [`Streams::ints`].
    Fixed { from: usize, len: usize },
    /// The same, of lengths that follow from their types.
    Number { from: usize },
    /// Text or blobs: from here on in [`Columns::places`], which lead into [`Columns::text`].
    Bytes { from: usize },
    /// The same, but they lead into the dictionary of the column.
    Listed { from: usize },
    /// The fields of a template, one stream after the other, from here on in [`Streams::ints`].
    Template { from: usize },
    /// Of several classes: by type, a number from here on in [`Streams::ints`], or text from there on in [`Columns::places`].
    Mixed { ints: usize, places: usize },
}

/// A column of the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    pub(super) types: Types,
    pub(super) body: Body,
    /// Every row has a type here that takes one byte.
    pub(super) short: bool,
}

/// All columns of a page.
#[derive(Default)]
pub(super) struct Columns {
    pub(super) ready: Vec<Ready>,
    pub(super) types: Vec<u32>,
    /// Beginnings and lengths.
    pub(super) places: Vec<(u32, u32)>,
    /// Text, and rubbish behind it.
    pub(super) text: Vec<u8>,
    pub(super) text_len: usize,
    /// How many columns there are before the first one that is not short, [`FRONT`] at most.
    pub(super) fronted: usize,
    /// By row, the types of these columns where they differ; zero where they do not.
    pub(super) front: Vec<[u8; FRONT]>,
    /// The types of these columns that are the same in all rows; zero where they differ.
    pub(super) front_same: [u8; FRONT],
    codes: Codes,
    /// For each row, the bytes of the types in its record's header, and those of its values.
    pub(super) lens: Vec<(u32, u32)>,
    /// What all rows have in common of these.
    same: (u32, u32),
}

impl Columns {
    pub(super) fn clear(&mut self, rows: usize) {
        self.ready.clear();
        self.types.clear();
        self.places.clear();
        self.lens.clear();
        self.lens.resize(rows, (0, 0));
        self.same = (0, 0);
        self.text_len = 0;
        self.fronted = 0;
        self.front.clear();
        self.front.resize(rows, [0; FRONT]);
        self.front_same = [0; FRONT];
    }

    /// Reads all columns of a page of `rows` records.
    pub(super) fn read(
        &mut self,
        head: &Head,
        rows: usize,
        source: &mut Source<'_>,
        page_len: usize,
    ) -> Option<()> {
        self.clear(rows);
        // Whatever text a page holds is shorter than it.
        let room = page_len + 2 * SLACK;
        if self.text.len() < room {
            self.text.resize(room, 0);
        }
        let numbers = Numbers::new(head.small);
        let mut number = PAGE_STREAMS;
        if rows > 0 {
            for c in 0..head.columns {
                let ready = self.read_column(c, number, rows, numbers, source)?;
                if self.fronted == c && ready.short && c < FRONT {
                    self.fronted += 1;
                    if let Types::Same(t) = ready.types {
                        *self.front_same.get_mut(c)? = t as u8;
                    }
                }
                self.ready.push(ready);
                number += COLUMN_STREAMS + source.model.column(c).form.streams();
            }
        }
        for len in &mut self.lens {
            len.0 += self.same.0;
            len.1 += self.same.1;
        }
        Some(())
    }

    /// Reads column `c`, whose streams begin with that of this number.
    fn read_column(
        &mut self,
        c: usize,
        number: usize,
        rows: usize,
        numbers: Numbers,
        source: &mut Source<'_>,
    ) -> Option<Ready> {
        let classes = source.read_classes(number + ColumnStream::Class as usize, rows)?;
        let column = source.model.column(c);
        let Some(class) = classes.constant else {
            return self.read_mixed(c, number, classes, numbers, source);
        };
        let stream = |s: ColumnStream| number + s as usize;
        match Class::of(class)? {
            Class::Null => Some(self.same(NULL, 0, Body::Nothing)),
            Class::Absent => Some(Ready {
                types: Types::Same(NULL),
                body: Body::Absent,
                short: false,
            }),
            Class::Number => {
                let read = source.read(stream(ColumnStream::Number), rows)?;
                self.numbers(c, read, column.scale, numbers, source)
            }
            Class::Integer => {
                let read = source.read(stream(ColumnStream::Integer), rows)?;
                self.numbers(c, read, 0, numbers, source)
            }
            Class::Real => {
                let from = source.read_divided(stream(ColumnStream::Real), rows)?.from;
                Some(self.same(REAL, 8, Body::Fixed { from, len: 8 }))
            }
            Class::Formed => match &column.form {
                Form::Free => None,
                Form::Template(template) => {
                    let mut from = None;
                    for i in 0..template.fields() {
                        let read = source.read(stream(ColumnStream::Formed) + i, rows)?;
                        from = from.or(Some(read.from));
                    }
                    let len = template.text_len();
                    let from = from?;
                    Some(self.same(bytes_type(len, true), len, Body::Template { from }))
                }
                Form::Dictionary(d) => {
                    let read = source.read(stream(ColumnStream::Formed), rows)?;
                    let codes = source.streams.ints.get_mut(read.from..read.to)?;
                    if let Some((words, len)) = &d.words {
                        for v in codes {
                            *v = *words.get(usize::try_from(*v).ok()?)?;
                        }
                        let (from, len) = (read.from, *len);
                        return Some(self.same(
                            bytes_type(len, true),
                            len,
                            Body::Fixed { from, len },
                        ));
                    }
                    let from = self.places.len();
                    let mut known = true;
                    self.places.extend(codes.iter().map(|code| {
                        let place = d.places.get(*code as u64 as usize);
                        known &= place.is_some();
                        place.copied().unwrap_or_default()
                    }));
                    known.then_some(())?;
                    self.bytes_types(c, from, true, Body::Listed { from })
                }
            },
            class @ (Class::Text | Class::Blob) => {
                let from = self.places.len();
                self.free(c, number, rows, source)?;
                self.bytes_types(c, from, class == Class::Text, Body::Bytes { from })
            }
        }
    }

    /// A column of values of one type, of `len` bytes each.
    fn same(&mut self, serial_type: u32, len: usize, body: Body) -> Ready {
        self.same.0 += type_len(serial_type) as u32;
        self.same.1 += len as u32;
        Ready {
            types: Types::Same(serial_type),
            body,
            short: serial_type < 0x80,
        }
    }

    /// Column `c` of text (or blobs) whose places begin at `from`.
    fn bytes_types(&mut self, c: usize, from: usize, text: bool, body: Body) -> Option<Ready> {
        let places = self.places.get(from..)?;
        let first = places.first()?.1;
        if places.iter().fold(0, |all, p| all | (p.1 ^ first)) == 0 {
            return Some(self.same(bytes_type(first as usize, text), first as usize, body));
        }
        let each = self.types.len();
        let mut all = 0;
        let rows = places.iter().zip(&mut self.lens).zip(&mut self.front);
        self.types.extend(rows.map(|(((_, len), lens), front)| {
            let serial_type = bytes_type(*len as usize, text);
            all |= serial_type;
            if let Some(to) = front.get_mut(c) {
                *to = serial_type as u8;
            }
            lens.0 += type_len(serial_type) as u32;
            lens.1 += len;
            serial_type
        }));
        Some(Ready {
            types: Types::Each(each),
            body,
            short: all < 0x80,
        })
    }

    /// Integers, or decimals of a scale, in column `c`: what was read becomes what is stored, in place.
    fn numbers(
        &mut self,
        c: usize,
        read: Read,
        scale: u8,
        numbers: Numbers,
        source: &mut Source<'_>,
    ) -> Option<Ready> {
        let values = source.streams.ints.get_mut(read.from..read.to)?;
        let from = read.from;
        let n = numbers;
        match scale {
            0 => self.typed(c, from, values, |v| (v, n.int_type(v))),
            1 => self.typed(c, from, values, |v| n.unscaled::<10>(v, 1)),
            2 => self.typed(c, from, values, |v| n.unscaled::<100>(v, 2)),
            3 => self.typed(c, from, values, |v| n.unscaled::<1000>(v, 3)),
            4 => self.typed(c, from, values, |v| n.unscaled::<10_000>(v, 4)),
            _ => self.typed(c, from, values, |v| n.unscaled::<0>(v, scale)),
        }
    }

    /// Makes `values`, which begin at `from` of all integers, what `stored` says, and notes their types.
    #[inline]
    fn typed(
        &mut self,
        c: usize,
        from: usize,
        values: &mut [i64],
        stored: impl Fn(i64) -> (i64, u32),
    ) -> Option<Ready> {
        let each = self.types.len();
        let (mut any, mut all) = (0, u32::MAX);
        let rows = values.iter_mut().zip(&mut self.lens).zip(&mut self.front);
        self.types.extend(rows.map(|((v, lens), front)| {
            let (value, serial_type) = stored(*v);
            *v = value;
            any |= serial_type;
            all &= serial_type;
            if let Some(to) = front.get_mut(c) {
                *to = serial_type as u8;
            }
            lens.1 += number_len(serial_type);
            serial_type
        }));
        self.same.0 += 1;
        if any != all {
            return Some(Ready {
                types: Types::Each(each),
                body: Body::Number { from },
                short: true,
            });
        }
        self.types.truncate(each);
        let len = number_len(any) as usize;
        Some(Ready {
            types: Types::Same(any),
            body: match len {
                0 => Body::Nothing,
                _ => Body::Fixed { from, len },
            },
            short: true,
        })
    }

    /// Reads `n` values of free text or blobs to [`Columns::text`], and appends their places.
    pub(super) fn free(
        &mut self,
        c: usize,
        number: usize,
        n: usize,
        source: &mut Source<'_>,
    ) -> Option<()> {
        let model = source.model;
        let read = source.read(number + ColumnStream::Length as usize, n)?;
        let lengths = source.streams.values(read)?;
        let mut at = self.text_len;
        match &model.column(c).symbols {
            Some(symbols) => {
                // An escaped byte takes four codes at most; so the sum cannot overflow either.
                let mut all = 0;
                for len in lengths {
                    all += usize::try_from(*len)
                        .ok()
                        .filter(|n| *n <= self.text.len() * 4)?;
                }
                let mut run = source.r.run(all, symbols.width())?;
                symbols.decode(&mut run, all, &mut self.codes, &mut self.text, at)?;
                let mut codes = 0;
                for len in lengths {
                    codes += *len as usize;
                    let end = self.codes.end(codes)?;
                    self.places.push((at as u32, (end - at) as u32));
                    at = end;
                }
            }
            None => {
                for len in lengths {
                    let len = usize::try_from(*len).ok()?;
                    let bytes = source.raw.take(len)?;
                    self.text
                        .get_mut(at..at.checked_add(len)?)?
                        .copy_from_slice(bytes);
                    self.places.push((at as u32, len as u32));
                    at += len;
                }
            }
        }
        self.text_len = at;
        Some(())
    }
}

/// The type of a value that is not there, which no record has.
pub(super) const ABSENT: u32 = u32::MAX;

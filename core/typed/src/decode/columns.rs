//! Prepared columns: values, serial types, and how many bytes each row's record takes.

use super::Head;
use super::front::Front;
use crate::class::Class;
use crate::model::{COLUMN_STREAMS, ColumnStream, Form, PAGE_STREAMS, SLACK};
use crate::numbers::{Numbers, Stored, number_len};
use crate::stream::{Read, Source};
use crate::symbols::Codes;
use crate::vector::Vector;
use densite_sqlite_format::record::{NULL, REAL, bytes_type, type_len};

/// The serial types of a column.
#[derive(Debug, Clone, Copy)]
pub(super) enum Types {
    /// One for all rows.
    Same(u32),
    /// One for each row, which begin here in [`Columns::types`].
    Each(usize),
}

/// The values of a column.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    /// No value has any bytes.
    Nothing,
    /// The rows end before this column.
    Absent,
    /// Integers, or bits of REALs, of `len` bytes each. They begin here in
    /// [`Streams::ints`](crate::stream::Streams::ints).
    Fixed { from: usize, len: usize },
    /// The same, with lengths that follow from their types.
    Number { from: usize },
    /// Texts or blobs, whose places in [`Columns::text`] begin here in [`Columns::places`].
    Bytes { from: usize },
    /// The same, with places in the dictionary of the column.
    Listed { from: usize },
    /// The fields of a template, one stream after the other. They begin here in
    /// [`Streams::ints`](crate::stream::Streams::ints).
    Template { from: usize },
    /// Values of several classes. By its type each value is a number, which is in
    /// [`Streams::ints`](crate::stream::Streams::ints) from `ints` on, or a text, whose place is in
    /// [`Columns::places`] from `places` on.
    Mixed { ints: usize, places: usize },
}

/// A column of the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    pub(super) types: Types,
    pub(super) body: Body,
}

/// Where a column went.
pub(super) enum Place {
    /// In [`Columns::front`].
    Front,
    /// Behind the front. It is still to be written.
    Behind(Ready),
}

/// All columns of a page.
#[derive(Default)]
pub(super) struct Columns {
    /// The columns behind the front.
    pub(super) ready: Vec<Ready>,
    /// The leading columns.
    pub(super) front: Front,
    pub(super) types: Vec<u32>,
    /// Beginnings and lengths.
    pub(super) places: Vec<(u32, u32)>,
    /// Text, with [`TEXT_LEAD`] arbitrary bytes before it, and others behind it.
    pub(super) text: Vec<u8>,
    pub(super) text_len: usize,
    codes: Codes,
    /// For each row, the bytes of the types in its record's header, and the bytes of its values.
    pub(super) lens: Vec<(u32, u32)>,
    /// The part of these that all rows have in common.
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
        self.text_len = TEXT_LEAD;
        self.front.begin(rows);
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
        // The text of a page is shorter than the page.
        let room = TEXT_LEAD + page_len + 2 * SLACK;
        if self.text.len() < room {
            self.text.resize(room, 0);
        }
        let numbers = Numbers::new(head.small);
        let mut number = PAGE_STREAMS;
        if rows > 0 {
            for c in 0..head.columns {
                let place = self.read_column(c, number, rows, numbers, source)?;
                if let Place::Behind(ready) = place {
                    self.ready.push(ready);
                }
                number += COLUMN_STREAMS + source.model.column(c).form.streams();
            }
        }
        self.same.0 += self.front.columns as u32;
        for (len, row) in self.lens.iter_mut().zip(self.front.of_page()) {
            len.0 += self.same.0;
            len.1 += self.same.1 + row.len() as u32;
        }
        Some(())
    }

    /// The serial type of the text or blob in row `row` of column `c`. `None` if the value is
    /// something else or in the front.
    pub(super) fn bytes_type_of(&self, c: usize, row: usize) -> Option<u32> {
        let ready = self.ready.get(c.checked_sub(self.front.columns)?)?;
        let serial_type = match ready.types {
            Types::Same(t) => t,
            Types::Each(from) => *self.types.get(from + row)?,
        };
        (serial_type >= 12 && serial_type != ABSENT).then_some(serial_type)
    }

    /// Reads column `c`, whose first stream has this number.
    fn read_column(
        &mut self,
        c: usize,
        number: usize,
        rows: usize,
        numbers: Numbers,
        source: &mut Source<'_>,
    ) -> Option<Place> {
        let classes = source.read_classes(number + ColumnStream::Class as usize, rows)?;
        let column = source.model.column(c);
        let Some(class) = classes.constant else {
            return self.read_mixed(c, number, classes, numbers, source);
        };
        let stream = |s: ColumnStream| number + s as usize;
        match Class::of(class)? {
            Class::Null => self.same(c, NULL, 0, Body::Nothing, |_| Some(())),
            Class::Absent => Some(Place::Behind(Ready {
                types: Types::Same(NULL),
                body: Body::Absent,
            })),
            Class::Number => {
                let read = source.read(stream(ColumnStream::Number), rows)?;
                self.numbers(c, read, column.scale, numbers, source)
            }
            Class::Integer => {
                let read = source.read(stream(ColumnStream::Integer), rows)?;
                self.numbers(c, read, 0, numbers, source)
            }
            Class::Real => {
                let read = source.read_divided(stream(ColumnStream::Real), rows)?;
                let from = read.from;
                self.same(c, REAL, 8, Body::Fixed { from, len: 8 }, |front| {
                    front.fixed(source.streams.values(read)?, 8)
                })
            }
            Class::Formed => match &column.form {
                Form::Free => None,
                Form::Repeated => {
                    let ranks = source.read(stream(ColumnStream::Formed), rows)?;
                    let all = self.repeated(c, number, ranks, source)?;
                    let body = Body::Bytes { from: all };
                    self.bytes_types(all, true, body).map(Place::Behind)
                }
                Form::Vector(vector) => {
                    let from = self.places.len();
                    self.vectors(*vector, number, rows, source)?;
                    self.bytes_types(from, false, Body::Bytes { from })
                        .map(Place::Behind)
                }
                Form::Template(template) => {
                    let mut from = None;
                    for i in 0..template.fields() {
                        let read = source.read(stream(ColumnStream::Formed) + i, rows)?;
                        from = from.or(Some(read.from));
                    }
                    let (from, len) = (from?, template.text_len());
                    let serial_type = bytes_type(len, true);
                    self.same(c, serial_type, len, Body::Template { from }, |front| {
                        front.formed(template, source.streams.ints.get(from..)?)
                    })
                }
                Form::Dictionary(d) => {
                    let read = source.read(stream(ColumnStream::Formed), rows)?;
                    let codes = source.streams.ints.get_mut(read.from..read.to)?;
                    if let Some((words, len)) = &d.words {
                        for v in codes.iter_mut() {
                            *v = *words.get(*v as u64 as usize)?;
                        }
                        let (from, len) = (read.from, *len);
                        let serial_type = bytes_type(len, true);
                        return self.same(
                            c,
                            serial_type,
                            len,
                            Body::Fixed { from, len },
                            |front| front.fixed(codes, len),
                        );
                    }
                    if d.longest <= SLACK && self.front.takes(c, d.longest) {
                        self.front.listed(codes, d)?;
                        return Some(Place::Front);
                    }
                    let from = self.places.len();
                    let mut known = true;
                    self.places.extend(codes.iter().map(|code| {
                        let place = d.places.get(*code as u64 as usize);
                        known &= place.is_some();
                        place.copied().unwrap_or_default()
                    }));
                    known.then_some(())?;
                    self.bytes_types(from, true, Body::Listed { from })
                        .map(Place::Behind)
                }
            },
            class @ (Class::Text | Class::Blob) => {
                let from = self.places.len();
                self.free(c, number, rows, source)?;
                self.bytes_types(from, class == Class::Text, Body::Bytes { from })
                    .map(Place::Behind)
            }
        }
    }

    /// Places column `c`, whose values have one type and `len` bytes each. `put` writes them to the
    /// front if they belong there.
    #[inline]
    fn same(
        &mut self,
        c: usize,
        serial_type: u32,
        len: usize,
        body: Body,
        put: impl FnOnce(&mut Front) -> Option<()>,
    ) -> Option<Place> {
        if serial_type < 0x80 && self.front.takes(c, len) {
            self.front.same(serial_type);
            put(&mut self.front)?;
            return Some(Place::Front);
        }
        self.same.0 += type_len(serial_type) as u32;
        self.same.1 += len as u32;
        Some(Place::Behind(Ready {
            types: Types::Same(serial_type),
            body,
        }))
    }

    /// Prepares texts or blobs whose places begin at `from`.
    fn bytes_types(&mut self, from: usize, text: bool, body: Body) -> Option<Ready> {
        let places = self.places.get(from..)?;
        let first = places.first()?.1;
        if places.iter().fold(0, |all, p| all | (p.1 ^ first)) == 0 {
            let serial_type = bytes_type(first as usize, text);
            self.same.0 += type_len(serial_type) as u32;
            self.same.1 += first;
            return Some(Ready {
                types: Types::Same(serial_type),
                body,
            });
        }
        let each = self.types.len();
        let rows = places.iter().zip(&mut self.lens);
        self.types.extend(rows.map(|((_, len), lens)| {
            let serial_type = bytes_type(*len as usize, text);
            lens.0 += type_len(serial_type) as u32;
            lens.1 += len;
            serial_type
        }));
        Some(Ready {
            types: Types::Each(each),
            body,
        })
    }

    /// Places integers, or decimals of a scale, in column `c`: in the front, or in place, where the
    /// numbers that were read become those that are stored.
    fn numbers(
        &mut self,
        c: usize,
        read: Read,
        scale: u8,
        numbers: Numbers,
        source: &mut Source<'_>,
    ) -> Option<Place> {
        let values = source.streams.ints.get_mut(read.from..read.to)?;
        if self.front.takes(c, 8) {
            self.front.numbers(values, read.range, scale, numbers)?;
            return Some(Place::Front);
        }
        let (from, n) = (read.from, numbers);
        let ready = match scale {
            0 => self.typed(from, values, |v| n.stored(v)),
            2 => self.typed(from, values, |v| n.unscaled::<100>(v, 2)),
            _ => self.typed(from, values, |v| n.unscaled::<0>(v, scale)),
        };
        Some(Place::Behind(ready))
    }

    /// Replaces `values`, which begin at `from` of all integers, by what `stored` returns, and
    /// notes their types.
    #[inline]
    fn typed(&mut self, from: usize, values: &mut [i64], stored: impl Fn(i64) -> Stored) -> Ready {
        let each = self.types.len();
        let (mut any, mut all) = (0, u32::MAX);
        let rows = values.iter_mut().zip(&mut self.lens);
        self.types.extend(rows.map(|(v, lens)| {
            let stored = stored(*v);
            let serial_type = u32::from(stored.serial_type);
            *v = stored.value;
            any |= serial_type;
            all &= serial_type;
            lens.1 += u32::from(stored.len);
            serial_type
        }));
        self.same.0 += 1;
        if any != all {
            return Ready {
                types: Types::Each(each),
                body: Body::Number { from },
            };
        }
        self.types.truncate(each);
        Ready {
            types: Types::Same(any),
            body: match number_len(any) as usize {
                0 => Body::Nothing,
                len => Body::Fixed { from, len },
            },
        }
    }

    /// Reads the texts of a column of repeated text, and appends for each row the place of its own.
    /// Returns where these places begin.
    fn repeated(
        &mut self,
        c: usize,
        number: usize,
        ranks: Read,
        source: &mut Source<'_>,
    ) -> Option<usize> {
        let mut at = self.places.len();
        let texts = different(source.streams.values(ranks)?);
        self.free(c, number, texts, source)?;
        let ranks = source.streams.values(ranks)?;
        let all = self.places.len();
        let mut last = *ranks.first()?;
        let mut place = *self.places.get(at)?;
        for rank in ranks {
            if *rank != last {
                (last, at) = (*rank, at + 1);
                place = *self.places.get(at)?;
            }
            self.places.push(place);
        }
        Some(all)
    }

    /// Reads `n` free texts or blobs into [`Columns::text`], and appends their places.
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
                // An escaped byte takes at most four codes. With this bound the sum cannot overflow
                // either.
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

    /// Reads `n` vectors into [`Columns::text`], and appends their places.
    pub(super) fn vectors(
        &mut self,
        vector: Vector,
        number: usize,
        n: usize,
        source: &mut Source<'_>,
    ) -> Option<()> {
        let first = number + ColumnStream::Formed as usize;
        let lengths = source.read(first, n)?;
        let (mut numbers, mut behind) = (0, 0);
        for len in source.streams.values(lengths)? {
            let len = usize::try_from(*len).ok()?;
            // With this bound no sum can overflow.
            let len = Some(len).filter(|len| *len <= self.text.len())?;
            numbers += len / vector.size();
            behind += len % vector.size();
        }
        let flags = source.read(first + 1, numbers)?;
        let mut others = 0;
        for flag in source.streams.values(flags)? {
            others += *flag as u64 as usize & 1;
            (*flag as u64 <= 1).then_some(())?;
        }
        let words = source.read(first + 2, others)?;
        let tails = source.read(first + 3, behind)?;
        let values = |from, to| source.streams.ints.get(from..to);
        let mut flags = values(flags.from, flags.to)?;
        // There is room behind every stream.
        let mut words = values(words.from, words.to + 1)?;
        let mut tails = values(tails.from, tails.to)?;
        let mut at = self.text_len;
        for len in values(lengths.from, lengths.to)? {
            let len = *len as usize;
            let to = self.text.get_mut(at..at + len)?;
            let (to, rest) = to.split_at_mut_checked(len - len % vector.size())?;
            let here;
            (here, flags) = flags.split_at_checked(to.len() / vector.size())?;
            words = words.get(vector.join(here, words, to)?..)?;
            let tail;
            (tail, tails) = tails.split_at_checked(rest.len())?;
            for (to, byte) in rest.iter_mut().zip(tail) {
                *to = *byte as u8;
            }
            self.places.push((at as u32, len as u32));
            at += len;
        }
        self.text_len = at;
        Some(())
    }
}

/// Bytes before all text, so that this many bytes up to the end of a text can be loaded.
pub(super) const TEXT_LEAD: usize = 64;

/// How many texts rows of these ranks have.
pub(super) fn different(ranks: &[i64]) -> usize {
    let pairs = ranks.iter().zip(ranks.iter().skip(1));
    usize::from(!ranks.is_empty()) + pairs.filter(|(a, b)| a != b).count()
}

/// The type of an absent value, which no record has.
pub(super) const ABSENT: u32 = u32::MAX;

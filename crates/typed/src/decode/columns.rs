//! Columns made ready: values, serial types, and what each row's record takes.

use super::{Head, RawBytes, Read, Streams};
use crate::bits::BitReader;
use crate::class::Class;
use crate::decimal::from_scaled;
use crate::model::{COLUMN_STREAMS, ColumnStream, Form, Model, PAGE_STREAMS, SLACK};
use crate::record::{BODY_LEN, NULL, REAL, bytes_type, int_type, type_len};

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
    text_len: usize,
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
    }

    /// Reads all columns of a page of `rows` records.
    #[expect(clippy::too_many_arguments, reason = "each is a part of one decoder")]
    pub(super) fn read(
        &mut self,
        head: &Head,
        rows: usize,
        model: &Model,
        streams: &mut Streams,
        r: &mut BitReader<'_>,
        raw: &mut RawBytes<'_>,
        page_len: usize,
    ) -> Option<()> {
        self.clear(rows);
        // Whatever text a page holds is shorter than it.
        let room = page_len + 2 * SLACK;
        if self.text.len() < room {
            self.text.resize(room, 0);
        }
        let mut number = PAGE_STREAMS;
        if rows > 0 {
            for c in 0..head.columns {
                let ready = self.read_column(head, rows, c, number, model, streams, r, raw)?;
                self.ready.push(ready);
                number += COLUMN_STREAMS + model.column(c).form.streams();
            }
        }
        for len in &mut self.lens {
            len.0 += self.same.0;
            len.1 += self.same.1;
        }
        Some(())
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of one decoder")]
    fn read_column(
        &mut self,
        head: &Head,
        rows: usize,
        c: usize,
        number: usize,
        model: &Model,
        streams: &mut Streams,
        r: &mut BitReader<'_>,
        raw: &mut RawBytes<'_>,
    ) -> Option<Ready> {
        let classes =
            streams.read_classes(r, model, number + ColumnStream::Class as usize, rows)?;
        let column = model.column(c);
        let Some(class) = classes.constant else {
            return self.read_mixed(head, rows, c, number, classes, model, streams, r, raw);
        };
        let stream = |s: ColumnStream| number + s as usize;
        match Class::of(class)? {
            Class::Null => {
                self.same.0 += 1;
                Some(Ready {
                    types: Types::Same(NULL),
                    body: Body::Nothing,
                })
            }
            Class::Absent => Some(Ready {
                types: Types::Same(NULL),
                body: Body::Absent,
            }),
            Class::Number => {
                let read = streams.read(r, model, stream(ColumnStream::Number), rows, false)?;
                self.numbers(head, streams, read, column.scale)
            }
            Class::Integer => {
                let read = streams.read(r, model, stream(ColumnStream::Integer), rows, false)?;
                self.numbers(head, streams, read, 0)
            }
            Class::Real => {
                let read = streams.read(r, model, stream(ColumnStream::Real), rows, true)?;
                self.same.0 += 1;
                self.same.1 += 8;
                Some(Ready {
                    types: Types::Same(REAL),
                    body: Body::Fixed {
                        from: read.from,
                        len: 8,
                    },
                })
            }
            Class::Formed => match &column.form {
                Form::Free => None,
                Form::Template(template) => {
                    let mut from = None;
                    for i in 0..template.fields() {
                        let number = stream(ColumnStream::Formed) + i;
                        let read = streams.read(r, model, number, rows, false)?;
                        from = from.or(Some(read.from));
                    }
                    let len = template.text_len();
                    let serial_type = bytes_type(len, true);
                    self.same.0 += type_len(serial_type) as u32;
                    self.same.1 += len as u32;
                    Some(Ready {
                        types: Types::Same(serial_type),
                        body: Body::Template { from: from? },
                    })
                }
                Form::Dictionary(d) => {
                    let number = stream(ColumnStream::Formed);
                    let read = streams.read(r, model, number, rows, false)?;
                    if let Some((words, len)) = &d.words {
                        for v in streams.ints.get_mut(read.from..read.to)? {
                            *v = *words.get(usize::try_from(*v).ok()?)?;
                        }
                        let serial_type = bytes_type(*len, true);
                        self.same.0 += type_len(serial_type) as u32;
                        self.same.1 += *len as u32;
                        return Some(Ready {
                            types: Types::Same(serial_type),
                            body: Body::Fixed {
                                from: read.from,
                                len: *len,
                            },
                        });
                    }
                    let from = self.places.len();
                    for code in streams.values(read)? {
                        self.places
                            .push(*d.places.get(usize::try_from(*code).ok()?)?);
                    }
                    Some(Ready {
                        types: self.bytes_types(from, true)?,
                        body: Body::Listed { from },
                    })
                }
            },
            class @ (Class::Text | Class::Blob) => {
                let from = self.places.len();
                self.free(rows, c, number, model, streams, r, raw)?;
                Some(Ready {
                    types: self.bytes_types(from, class == Class::Text)?,
                    body: Body::Bytes { from },
                })
            }
        }
    }

    /// The types of text (or blobs) whose places begin at `from`.
    fn bytes_types(&mut self, from: usize, text: bool) -> Option<Types> {
        let places = self.places.get(from..)?;
        let first = places.first()?.1;
        if places.iter().all(|p| p.1 == first) {
            let serial_type = bytes_type(first as usize, text);
            self.same.0 += type_len(serial_type) as u32;
            self.same.1 += first;
            return Some(Types::Same(serial_type));
        }
        let each = self.types.len();
        for ((_, len), lens) in places.iter().zip(&mut self.lens) {
            let serial_type = bytes_type(*len as usize, text);
            self.types.push(serial_type);
            lens.0 += type_len(serial_type) as u32;
            lens.1 += len;
        }
        Some(Types::Each(each))
    }

    /// Integers, or decimals of a scale: what was read becomes what is stored, in place.
    fn numbers(
        &mut self,
        head: &Head,
        streams: &mut Streams,
        read: Read,
        scale: u8,
    ) -> Option<Ready> {
        let values = streams.ints.get_mut(read.from..read.to)?;
        let each = self.types.len();
        let small = head.small;
        self.same.0 += 1;
        let types = &mut self.types;
        // A division by a number that is known here is a multiplication.
        match scale {
            0 => types.extend(values.iter().map(|v| int_type(*v, small))),
            1 => unscale::<10>(values, scale, small, types),
            2 => unscale::<100>(values, scale, small, types),
            3 => unscale::<1000>(values, scale, small, types),
            4 => unscale::<10_000>(values, scale, small, types),
            _ => unscale::<0>(values, scale, small, types),
        }
        let types = self.types.get(each..)?;
        let first = *types.first()?;
        if types.iter().fold(0, |all, t| all | (t ^ first)) == 0 {
            self.types.truncate(each);
            let len = usize::from(*BODY_LEN.get(first as usize)?);
            self.same.1 += len as u32;
            let body = if len == 0 {
                Body::Nothing
            } else {
                Body::Fixed {
                    from: read.from,
                    len,
                }
            };
            return Some(Ready {
                types: Types::Same(first),
                body,
            });
        }
        for (t, lens) in types.iter().zip(&mut self.lens) {
            lens.1 += u32::from(BODY_LEN.get(*t as usize).copied().unwrap_or(0));
        }
        Some(Ready {
            types: Types::Each(each),
            body: Body::Number { from: read.from },
        })
    }

    /// Reads `n` values of free text or blobs to [`Columns::text`], and appends their places.
    #[expect(clippy::too_many_arguments, reason = "each is a part of one decoder")]
    fn free(
        &mut self,
        n: usize,
        c: usize,
        number: usize,
        model: &Model,
        streams: &mut Streams,
        r: &mut BitReader<'_>,
        raw: &mut RawBytes<'_>,
    ) -> Option<()> {
        let read = streams.read(r, model, number + ColumnStream::Length as usize, n, false)?;
        let lengths = streams.values(read)?;
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
                let mut run = r.run(all, symbols.width())?;
                for len in lengths {
                    let end = symbols.decode(&mut run, *len as usize, &mut self.text, at)?;
                    self.places.push((at as u32, (end - at) as u32));
                    at = end;
                }
            }
            None => {
                for len in lengths {
                    let len = usize::try_from(*len).ok()?;
                    let bytes = raw.take(len)?;
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

    /// A column of several classes: every value by itself.
    #[expect(clippy::too_many_arguments, reason = "each is a part of one decoder")]
    #[inline(never)]
    fn read_mixed(
        &mut self,
        head: &Head,
        rows: usize,
        c: usize,
        number: usize,
        classes: Read,
        model: &Model,
        streams: &mut Streams,
        r: &mut BitReader<'_>,
        raw: &mut RawBytes<'_>,
    ) -> Option<Ready> {
        let column = model.column(c);
        let mut counts = [0usize; 8];
        for class in streams.values(classes)? {
            *counts.get_mut(Class::of(*class)? as usize)? += 1;
        }
        let count = |class: Class| counts.get(class as usize).copied().unwrap_or(0);
        let stream = |s: ColumnStream| number + s as usize;
        let read = |streams: &mut Streams, r: &mut BitReader<'_>, s: ColumnStream, n: usize| {
            streams.read(r, model, stream(s), n, s == ColumnStream::Real)
        };
        let mut numbers = read(streams, r, ColumnStream::Number, count(Class::Number))?.from;
        let mut integers = read(streams, r, ColumnStream::Integer, count(Class::Integer))?.from;
        let mut reals = read(streams, r, ColumnStream::Real, count(Class::Real))?.from;
        let mut free = self.places.len();
        self.free(
            count(Class::Text) + count(Class::Blob),
            c,
            number,
            model,
            streams,
            r,
            raw,
        )?;
        let formed_count = count(Class::Formed);
        let mut formed = streams.used;
        for i in 0..column.form.streams() {
            let number = stream(ColumnStream::Formed) + i;
            streams.read(r, model, number, formed_count, false)?;
        }
        let power = 10i64.checked_pow(u32::from(column.scale))?;
        let (types, places) = (self.types.len(), self.places.len());
        let ints = streams.room(rows)?;
        let next = |at: &mut usize, ints: &[i64]| {
            let v = ints.get(*at).copied();
            *at += 1;
            v
        };
        for j in 0..rows {
            let class = Class::of(*streams.ints.get(classes.from + j)?)?;
            let mut place = (0, 0);
            let mut value = 0;
            let serial_type = match class {
                Class::Null => NULL,
                Class::Absent => ABSENT,
                Class::Number => {
                    let m = next(&mut numbers, &streams.ints)?;
                    let whole = m / power;
                    if whole * power == m {
                        value = whole;
                        int_type(whole, head.small)
                    } else {
                        value = from_scaled(m, column.scale).to_bits() as i64;
                        REAL
                    }
                }
                Class::Integer => {
                    value = next(&mut integers, &streams.ints)?;
                    int_type(value, head.small)
                }
                Class::Real => {
                    value = next(&mut reals, &streams.ints)?;
                    REAL
                }
                Class::Text | Class::Blob => {
                    place = *self.places.get(free)?;
                    free += 1;
                    bytes_type(place.1 as usize, class == Class::Text)
                }
                Class::Formed => {
                    place.0 = self.text_len as u32;
                    place.1 = self.formed(&column.form, formed, formed_count, streams)? as u32;
                    formed += 1;
                    bytes_type(place.1 as usize, true)
                }
            };
            self.types.push(serial_type);
            self.places.push(place);
            *streams.ints.get_mut(ints + j)? = value;
            if serial_type != ABSENT {
                let lens = self.lens.get_mut(j)?;
                lens.0 += type_len(serial_type) as u32;
                lens.1 += crate::record::body_len(serial_type) as u32;
            }
        }
        Some(Ready {
            types: Types::Each(types),
            body: Body::Mixed { ints, places },
        })
    }

    /// Appends one formed value to the text; returns its length.
    fn formed(
        &mut self,
        form: &Form,
        at: usize,
        stride: usize,
        streams: &Streams,
    ) -> Option<usize> {
        let len = match form {
            Form::Free => return None,
            Form::Template(template) => {
                let mut fields = [0; crate::template::FIELDS_MAX];
                let used = fields.get_mut(..template.fields())?;
                for (i, field) in used.iter_mut().enumerate() {
                    *field = *streams.ints.get(at + i * stride)?;
                }
                let out = self.text.get_mut(self.text_len..)?;
                template.render(used, out).then_some(())?;
                template.text_len()
            }
            Form::Dictionary(d) => {
                let code = usize::try_from(*streams.ints.get(at)?).ok()?;
                let (from, len) = *d.places.get(code)?;
                let bytes = d.bytes.get(from as usize..(from + len) as usize)?;
                self.text
                    .get_mut(self.text_len..self.text_len + bytes.len())?
                    .copy_from_slice(bytes);
                bytes.len()
            }
        };
        self.text_len += len;
        Some(len)
    }
}

/// Turns numbers times ten to the power of `scale` into what is stored, in place, and appends their types. `POWER` is that
/// power, or 0.
#[inline]
fn unscale<const POWER: i64>(values: &mut [i64], scale: u8, small: bool, types: &mut Vec<u32>) {
    let power = match POWER {
        0 => 10i64.checked_pow(u32::from(scale)).unwrap_or(i64::MAX),
        _ => POWER,
    };
    types.extend(values.iter_mut().map(|v| {
        let whole = *v / power;
        if whole.wrapping_mul(power) == *v {
            *v = whole;
            int_type(whole, small)
        } else {
            *v = from_scaled(*v, scale).to_bits() as i64;
            REAL
        }
    }));
}

/// The type of a value that is not there, which no record has.
pub(super) const ABSENT: u32 = u32::MAX;

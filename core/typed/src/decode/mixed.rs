//! Columns of several classes.

use super::columns::{ABSENT, Body, Columns, Place, Ready, Types, different};
use crate::class::Class;
use crate::model::{ColumnStream, Form};
use crate::numbers::Numbers;
use crate::stream::{Read, Source, Streams};
use densite_sqlite_format::record::{NULL, REAL, body_len, bytes_type, type_len};

impl Columns {
    /// Reads a column of several classes, value by value.
    #[inline(never)]
    pub(super) fn read_mixed(
        &mut self,
        c: usize,
        number: usize,
        classes: Read,
        n: Numbers,
        source: &mut Source<'_>,
    ) -> Option<Place> {
        let rows = classes.to - classes.from;
        let column = source.model.column(c);
        let mut counts = [0usize; 8];
        for class in source.streams.values(classes)? {
            *counts.get_mut(Class::of(*class)? as usize)? += 1;
        }
        let count = |class: Class| counts.get(class as usize).copied().unwrap_or(0);
        let stream = |s: ColumnStream| number + s as usize;
        let mut numbers = source
            .read(stream(ColumnStream::Number), count(Class::Number))?
            .from;
        let mut integers = source
            .read(stream(ColumnStream::Integer), count(Class::Integer))?
            .from;
        let mut reals = source
            .read_divided(stream(ColumnStream::Real), count(Class::Real))?
            .from;
        let mut free = self.places.len();
        let mut texts = count(Class::Text) + count(Class::Blob);
        let formed_count = count(Class::Formed);
        let is_repeated = matches!(column.form, Form::Repeated);
        let mut formed = source.streams.used;
        if is_repeated {
            let ranks = source.read(stream(ColumnStream::Formed), formed_count)?;
            texts += different(source.streams.values(ranks)?);
        }
        self.free(c, number, texts, source)?;
        let mut vectors = self.places.len();
        if let Form::Vector(vector) = column.form {
            self.vectors(vector, number, formed_count, source)?;
        } else if !is_repeated {
            formed = source.streams.used;
            for i in 0..column.form.streams() {
                source.read(stream(ColumnStream::Formed) + i, formed_count)?;
            }
        }
        // The rank and place of the last repeated text.
        let mut repeated: Option<(i64, (u32, u32))> = None;
        let streams = &mut *source.streams;
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
                    let scaled = next(&mut numbers, &streams.ints)?;
                    let stored = n.unscaled::<0>(scaled, column.scale);
                    value = stored.value;
                    u32::from(stored.serial_type)
                }
                Class::Integer => {
                    value = next(&mut integers, &streams.ints)?;
                    u32::from(n.stored(value).serial_type)
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
                Class::Formed if matches!(column.form, Form::Vector(_)) => {
                    place = *self.places.get(vectors)?;
                    vectors += 1;
                    bytes_type(place.1 as usize, false)
                }
                Class::Formed if is_repeated => {
                    let rank = next(&mut formed, &streams.ints)?;
                    place = match repeated {
                        Some((last, place)) if last == rank => place,
                        _ => {
                            free += 1;
                            *self.places.get(free - 1)?
                        }
                    };
                    repeated = Some((rank, place));
                    bytes_type(place.1 as usize, true)
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
                lens.1 += body_len(serial_type) as u32;
            }
        }
        Some(Place::Behind(Ready {
            types: Types::Each(types),
            body: Body::Mixed { ints, places },
        }))
    }

    /// Appends one formed value to the text. Returns its length.
    fn formed(
        &mut self,
        form: &Form,
        at: usize,
        stride: usize,
        streams: &Streams,
    ) -> Option<usize> {
        let len = match form {
            Form::Free | Form::Repeated | Form::Vector(_) => return None,
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

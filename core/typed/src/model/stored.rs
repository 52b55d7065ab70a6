//! The stored form of a model. docs/FORMAT.md (Model) has its bytes.

use super::{Column, Dictionary, Form, Model};
use crate::bits::{BitReader, BitWriter, PADDING};
use crate::ints::DefaultParameters;
use crate::symbols::Symbols;
use crate::template::Template;
use crate::vector::Vector;

/// The version of the form.
const VERSION: u8 = 3;
/// Bits of the number of a form.
const FORM_BITS: u32 = 3;
/// Bytes before the bit section.
const HEAD: usize = 4;
/// A record has no more columns than this (SQLite's own limit).
const COLUMNS_MAX: usize = 32767;

impl Model {
    /// The model as it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = BitWriter::default();
        w.put(self.columns.len() as u64, 16);
        for c in &self.columns {
            w.put(u64::from(c.scale), 5);
            let form = match c.form {
                Form::Free => 0,
                Form::Template(_) => 1,
                Form::Dictionary(_) => 2,
                Form::Repeated => 3,
                Form::Vector(_) => 4,
            };
            w.put(form, FORM_BITS);
            w.put(u64::from(c.symbols.is_some()), 1);
        }
        for stream in 0..self.streams() {
            self.defaults(stream).put(&mut w);
        }
        let mut bits = Vec::new();
        w.finish(&mut bits);
        let mut out = vec![VERSION];
        out.extend((bits.len() as u32).to_le_bytes().iter().take(3));
        out.extend_from_slice(&bits);
        for c in &self.columns {
            match &c.form {
                Form::Free | Form::Repeated => {}
                Form::Template(t) => t.put(&mut out),
                Form::Vector(v) => out.push(v.size() as u8),
                Form::Dictionary(d) => {
                    out.extend_from_slice(&(d.places.len() as u32).to_le_bytes());
                    for value in d.values() {
                        out.extend_from_slice(&(value.len() as u16).to_le_bytes());
                        out.extend_from_slice(value);
                    }
                }
            }
            if let Some(symbols) = &c.symbols {
                symbols.put(&mut out);
            }
        }
        out
    }

    /// Reads a stored model. Any bytes are read or refused with `None`.
    pub fn from_bytes(bytes: &[u8]) -> Option<Model> {
        let (&version, rest) = bytes.split_first()?;
        if version != VERSION {
            return None;
        }
        let (len, _) = rest.split_at_checked(HEAD - 1)?;
        let mut wide = [0; 4];
        wide.get_mut(..3)?.copy_from_slice(len);
        let bits_len = u32::from_le_bytes(wide) as usize;
        let bits = bytes.get(HEAD..HEAD + bits_len)?;
        let padded = [bits, &[0; PADDING]].concat();
        let mut r = BitReader::new(&padded);
        let count = r.get(16)? as usize;
        if count > COLUMNS_MAX {
            return None;
        }
        let mut rest = bytes.get(HEAD + bits_len..)?;
        let mut model = Model::default();
        for _ in 0..count {
            let scale = r.get(5)? as u8;
            let form = match r.get(FORM_BITS)? {
                0 => Form::Free,
                1 => {
                    // The streams of a template are counted while the bits are read, so the
                    // column's bytes are read first.
                    Form::Template(take_part(&mut rest, Template::take)?)
                }
                2 => Form::Dictionary(take_part(&mut rest, take_dictionary)?),
                3 => Form::Repeated,
                4 => Form::Vector(take_part(&mut rest, take_vector)?),
                _ => return None,
            };
            let symbols = if r.get(1)? == 1 {
                Some(take_part(&mut rest, Symbols::take)?)
            } else {
                None
            };
            if scale > 18 {
                return None;
            }
            model.columns.push(Column {
                scale,
                form,
                symbols,
            });
        }
        let valued = model.valued();
        for (stream, own) in valued.iter().enumerate() {
            let defaults = DefaultParameters::take(&mut r, stream)?;
            if let Some(other) = defaults.relation
                && !(*own && valued.get(usize::from(other)) == Some(&true))
            {
                return None;
            }
            model.defaults.push(defaults);
        }
        rest.is_empty().then_some(model)
    }
}

fn take_part<T>(rest: &mut &[u8], take: impl Fn(&[u8]) -> Option<(T, usize)>) -> Option<T> {
    let (part, used) = take(rest)?;
    *rest = rest.get(used..)?;
    Some(part)
}

fn take_vector(bytes: &[u8]) -> Option<(Vector, usize)> {
    Some((Vector::of_size(*bytes.first()?)?, 1))
}

fn take_dictionary(bytes: &[u8]) -> Option<(Dictionary, usize)> {
    let count = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let mut at = 4;
    let mut values = Vec::new();
    for _ in 0..count {
        let len = u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize;
        values.push(bytes.get(at + 2..at + 2 + len)?);
        at += 2 + len;
    }
    Some((Dictionary::new(values.into_iter()), at))
}

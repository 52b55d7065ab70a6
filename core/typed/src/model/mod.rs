//! Models: what is learned about the pages of one table or index.
//!
//! A model says for each column how its text is coded and at which scale its decimals are, and has
//! the default parameters of all integer streams. A page needs its model to be decoded. A page that
//! deviates from all default parameters can still be coded, and a model without columns
//! ([`Model::empty`]) fits every page. Streams are numbered: nine of the page ([`PageStream`]), then
//! those of each column ([`ColumnStream`]) and of its form. docs/FORMAT.md (Model) has the bytes.

mod describe;
mod dictionary;

pub use describe::{ColumnDescription, Subject};
pub(crate) use dictionary::{Dictionary, SLACK};

use crate::bits::{BitReader, BitWriter, PADDING};
use crate::ints::DefaultParameters;
use crate::symbols::Symbols;
use crate::template::Template;
use crate::vector::{self, Vector};

/// The version of the form.
const VERSION: u8 = 3;
/// Bits of the number of a form.
const FORM_BITS: u32 = 3;
/// Bytes before the bit section.
const HEAD: usize = 4;
/// A record has no more columns than this (SQLite's own limit).
const COLUMNS_MAX: usize = 32767;

/// Streams of the page itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum PageStream {
    /// Of each cell: how its record is coded; see [`Coded`](crate::record::Coded).
    Opaque = 0,
    /// Child page numbers (interior pages).
    Child = 1,
    /// Row ids (table pages).
    Rowid = 2,
    /// Lengths of the payloads of opaque cells.
    Payload = 3,
    /// First overflow pages, of cells that have one.
    Overflow = 4,
    /// Of cut cells: the first value that does not end in the page.
    Cut = 5,
    /// Of cut cells: the serial type of that value.
    Type = 6,
    /// Of cut cells: the number of values behind it.
    Behind = 7,
    /// Of cut cells: the serial types of the values behind it.
    Types = 8,
}

/// How many streams the page itself has.
pub(crate) const PAGE_STREAMS: usize = 9;

/// Streams of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum ColumnStream {
    /// The class of each value.
    Class = 0,
    /// Numbers, multiplied by the scale.
    Number = 1,
    /// Integers that are too large to be multiplied by the scale.
    Integer = 2,
    /// Bits of REALs.
    Real = 3,
    /// Lengths of text and blobs: codes if the column has symbols, otherwise bytes.
    Length = 4,
    /// The first of the streams of formed text.
    Formed = 5,
}

/// How many streams a column has without those of formed text.
pub(crate) const COLUMN_STREAMS: usize = 5;

/// How the text of a column is formed, or its blobs.
#[derive(Debug, Clone, Default)]
pub(crate) enum Form {
    /// It has no form.
    #[default]
    Free,
    /// By a template: one stream for each of its fields.
    Template(Template),
    /// One of these values: one stream of numbers.
    Dictionary(Dictionary),
    /// The same text as in the rows before, in order: one stream, of the text's rank among those
    /// of the page. Each text is stored once, as text without a form.
    Repeated,
    /// Blobs of numbers; four streams.
    Vector(Vector),
}

impl Form {
    /// Streams of formed values.
    pub(crate) fn streams(&self) -> usize {
        match self {
            Form::Free => 0,
            Form::Template(t) => t.fields(),
            Form::Dictionary(_) | Form::Repeated => 1,
            Form::Vector(_) => vector::STREAMS,
        }
    }
}

/// What is learned about a column.
#[derive(Debug, Default)]
pub(crate) struct Column {
    /// The power of ten by which numbers are multiplied.
    pub(crate) scale: u8,
    pub(crate) form: Form,
    /// Symbols for text that has no form; `None`: such text is stored unchanged.
    pub(crate) symbols: Option<Symbols>,
}

/// What is learned about the pages of one table or index.
#[derive(Debug, Default)]
pub struct Model {
    pub(crate) columns: Vec<Column>,
    /// By number of the stream.
    pub(crate) defaults: Vec<DefaultParameters>,
}

/// A column about which the model has nothing.
pub(crate) static UNKNOWN: Column = Column {
    scale: 0,
    form: Form::Free,
    symbols: None,
};

static NO_DEFAULTS: DefaultParameters = DefaultParameters::constant(0);

impl Model {
    /// A model without columns and default parameters.
    pub fn empty() -> Model {
        Model::default()
    }

    /// Whether all columns are numbers: it has no symbols, templates or dictionaries.
    pub fn is_of_numbers(&self) -> bool {
        let free = |c: &Column| c.symbols.is_none() && matches!(c.form, Form::Free);
        self.columns.iter().all(free)
    }

    pub(crate) fn column(&self, i: usize) -> &Column {
        self.columns.get(i).unwrap_or(&UNKNOWN)
    }

    #[inline]
    pub(crate) fn defaults(&self, stream: usize) -> DefaultParameters {
        *self.defaults_of(stream)
    }

    /// As [`Model::defaults`], by reference.
    #[inline]
    pub(crate) fn defaults_of(&self, stream: usize) -> &DefaultParameters {
        self.defaults.get(stream).unwrap_or(&NO_DEFAULTS)
    }

    /// The value of a stream that is the same everywhere by the default parameters.
    #[inline]
    pub(crate) fn constant(&self, stream: usize) -> Option<i64> {
        match self.defaults.get(stream) {
            Some(defaults) => defaults.constant_value(),
            None => Some(0),
        }
    }

    /// The number of streams of the page and of the model's columns.
    pub(crate) fn streams(&self) -> usize {
        let columns = self.columns.iter();
        PAGE_STREAMS
            + columns
                .map(|c| COLUMN_STREAMS + c.form.streams())
                .sum::<usize>()
    }

    /// For each stream, whether it can be part of a relation: whether its values are integers by
    /// themselves. Classes and lengths are not, because decoding does not always keep them. Nor are
    /// the bits of REALs, which are divided. Nor are decimals and dictionary codes, which decoding
    /// replaces in place by what they stand for, nor the streams of vectors, which have more values
    /// than there are rows.
    pub(crate) fn valued(&self) -> Vec<bool> {
        let mut valued = vec![false; PAGE_STREAMS];
        for number in [PageStream::Child, PageStream::Rowid] {
            if let Some(v) = valued.get_mut(number as usize) {
                *v = true;
            }
        }
        for c in &self.columns {
            for stream in 0..COLUMN_STREAMS + c.form.streams() {
                let other = [
                    ColumnStream::Class,
                    ColumnStream::Real,
                    ColumnStream::Length,
                ];
                let turned = match &c.form {
                    _ if stream == ColumnStream::Number as usize => c.scale > 0,
                    Form::Dictionary(_) | Form::Repeated | Form::Vector(_) => {
                        stream >= ColumnStream::Formed as usize
                    }
                    _ => false,
                };
                valued.push(!turned && other.iter().all(|s| *s as usize != stream));
            }
        }
        valued
    }

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

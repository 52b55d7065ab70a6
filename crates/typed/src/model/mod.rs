//! Models: what was learned about the pages of one table or index.
//!
//! A model says, for each column, how its text is coded, at which scale its decimals are, and the
//! default parameters of its integer streams. Pages are coded with a model and need it to be
//! decoded; a page that keeps to no default parameters can still be coded with it, and a model
//! without columns ([`Model::empty`]) says nothing and fits every page.
//!
//! Streams have numbers: nine of the page itself (see [`PageStream`]), then for each column those
//! of [`ColumnStream`], with as many streams of formed text as its form has.

mod defaults;
mod describe;
mod dictionary;
mod learn;
mod stored;

pub use describe::{ColumnDescription, Subject};
pub(crate) use dictionary::{Dictionary, SLACK};
pub use learn::Outlook;

use crate::ints::DefaultParameters;
use crate::symbols::Symbols;
use crate::template::Template;

/// Streams of the page itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum PageStream {
    /// Of each cell: how its record is coded, see [`Coded`](crate::record::Coded).
    Opaque = 0,
    /// Child page numbers (interior pages).
    Child = 1,
    /// Row ids, or keys (tables).
    Rowid = 2,
    /// Lengths of the payloads of opaque cells.
    Payload = 3,
    /// First overflow pages of cells that have one.
    Overflow = 4,
    /// Of cut cells: which value is the first that does not end in the page.
    Cut = 5,
    /// Their serial types.
    Type = 6,
    /// How many values are behind them.
    Behind = 7,
    /// The serial types of those.
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
    /// Numbers times the scale.
    Number = 1,
    /// Integers that are too large for the scale.
    Integer = 2,
    /// Bits of REALs.
    Real = 3,
    /// Text and blobs by symbols: codes; as they are: bytes.
    Length = 4,
    /// The first of the streams of formed text.
    Formed = 5,
}

/// How many streams a column has without those of formed text.
pub(crate) const COLUMN_STREAMS: usize = 5;

/// How the text of a column is formed.
#[derive(Debug, Clone, Default)]
pub(crate) enum Form {
    /// It is not.
    #[default]
    Free,
    /// By a template: one stream for each of its fields.
    Template(Template),
    /// One of these values: one stream of their numbers.
    Dictionary(Dictionary),
}

impl Form {
    /// Streams of formed text.
    pub(crate) fn streams(&self) -> usize {
        match self {
            Form::Free => 0,
            Form::Template(t) => t.fields(),
            Form::Dictionary(_) => 1,
        }
    }
}

/// What was learned of a column.
#[derive(Debug, Default)]
pub(crate) struct Column {
    /// Numbers are multiplied by ten to this power.
    pub(crate) scale: u8,
    pub(crate) form: Form,
    /// How text is coded that is not formed; `None`: as it is.
    pub(crate) symbols: Option<Symbols>,
}

/// What was learned about the pages of one table or index.
#[derive(Debug, Default)]
pub struct Model {
    pub(crate) columns: Vec<Column>,
    /// By the number of the stream.
    pub(crate) defaults: Vec<DefaultParameters>,
}

/// A column, and default parameters, of which nothing is known.
pub(crate) static UNKNOWN: Column = Column {
    scale: 0,
    form: Form::Free,
    symbols: None,
};

static NO_DEFAULTS: DefaultParameters = DefaultParameters::constant(0);

impl Model {
    /// A model that knows nothing.
    pub fn empty() -> Model {
        Model::default()
    }

    /// Whether it knows nothing but numbers: no symbols, templates or values of text.
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

    /// The same, where it lies.
    #[inline]
    pub(crate) fn defaults_of(&self, stream: usize) -> &DefaultParameters {
        self.defaults.get(stream).unwrap_or(&NO_DEFAULTS)
    }

    /// The value of a stream that is the same everywhere, by the default parameters.
    #[inline]
    pub(crate) fn constant(&self, stream: usize) -> Option<i64> {
        match self.defaults.get(stream) {
            Some(defaults) => defaults.constant_value(),
            None => Some(0),
        }
    }

    /// How many streams the model's columns and the page have.
    pub(crate) fn streams(&self) -> usize {
        let columns = self.columns.iter();
        PAGE_STREAMS
            + columns
                .map(|c| COLUMN_STREAMS + c.form.streams())
                .sum::<usize>()
    }

    /// Of each stream whether it may be related to another one, or another one to it: whether it
    /// holds integers by themselves, not classes or lengths (which may not be kept), nor bits of
    /// REALs (which are divided), nor decimals and codes of a dictionary (which decoding turns into
    /// what is stored, in place).
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
                    Form::Dictionary(_) => stream >= ColumnStream::Formed as usize,
                    _ => false,
                };
                valued.push(!turned && other.iter().all(|s| *s as usize != stream));
            }
        }
        valued
    }
}

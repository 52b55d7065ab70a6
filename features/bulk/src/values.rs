//! The values of a column of a result, in Arrow's layout.

use crate::bits::BitsBuilder;
use crate::kind::Kind;

/// Values of one type; in place of a NULL there is 0 or an empty value.
#[derive(Debug)]
pub enum Values {
    /// Only NULLs, for this number of rows.
    Nulls(usize),
    /// Integers.
    Integers(Vec<i64>),
    /// Double precision.
    Reals(Vec<f64>),
    /// Text (valid UTF-8) or blobs.
    Strings {
        /// The value of row `i` is from `ends[i]` to `ends[i + 1]`.
        ends: Vec<i32>,
        /// The bytes of all values.
        bytes: Vec<u8>,
        /// Whether they are text.
        text: bool,
    },
}

/// A column of a batch.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) values: Values,
    /// The rows that are not NULL; `None` if no row is NULL.
    pub(crate) valid: Option<BitsBuilder>,
}

fn strings(rows: usize, text: bool) -> Values {
    Values::Strings {
        ends: vec![0; rows + 1],
        bytes: Vec::new(),
        text,
    }
}

impl Values {
    /// A column of a type with this number of NULLs.
    pub(crate) fn of(kind: Kind, rows: usize) -> Values {
        match kind {
            Kind::Null => Values::Nulls(rows),
            Kind::Integer => Values::Integers(vec![0; rows]),
            Kind::Real => Values::Reals(vec![0.0; rows]),
            Kind::Text => strings(rows, true),
            Kind::Blob => strings(rows, false),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Values::Nulls(_) => Kind::Null,
            Values::Integers(_) => Kind::Integer,
            Values::Reals(_) => Kind::Real,
            Values::Strings { text: true, .. } => Kind::Text,
            Values::Strings { text: false, .. } => Kind::Blob,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Values::Nulls(rows) => *rows,
            Values::Integers(values) => values.len(),
            Values::Reals(values) => values.len(),
            Values::Strings { ends, .. } => ends.len().saturating_sub(1),
        }
    }

    pub(crate) fn push_null(&mut self) {
        match self {
            Values::Nulls(rows) => *rows += 1,
            Values::Integers(values) => values.push(0),
            Values::Reals(values) => values.push(0.0),
            Values::Strings { ends, .. } => ends.push(ends.last().copied().unwrap_or(0)),
        }
    }
}

impl Filled {
    /// A column without values.
    pub(crate) fn empty(kind: Kind) -> Filled {
        Filled {
            values: Values::of(kind, 0),
            valid: None,
        }
    }

    /// Sets the type of a column of NULLs.
    pub(crate) fn set_kind(&mut self, kind: Kind) {
        if let Values::Nulls(rows) = self.values {
            self.values = Values::of(kind, rows);
        }
    }
}

//! Values of a result's column, gathered into Arrow's layout.
//!
//! A column's type is what its first batch holds: integers, floating point (integers among them become that where it is exact), text (numbers among it
//! become the shortest decimals that read back as the same number), blobs (text among them becomes its bytes). Later batches must fit.

use crate::bits::BitsBuilder;
use crate::query::Kind;
use densite_sqlite::ValueRef;

/// The values of a column, NULLs as zeros or empty.
#[derive(Debug)]
pub(crate) enum Values {
    /// Only NULL so far: so many.
    Unknown(usize),
    Integers(Vec<i64>),
    Reals(Vec<f64>),
    Strings {
        /// One more than values: each from its own to the next.
        ends: Vec<i32>,
        bytes: Vec<u8>,
        text: bool,
    },
}

/// A column of a batch that is being filled.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) values: Values,
    /// Which are not NULL; made at the first NULL.
    pub(crate) valid: Option<BitsBuilder>,
    /// Whether the type is settled.
    settled: bool,
}

fn strings(rows: usize, text: bool) -> Values {
    Values::Strings {
        ends: vec![0; rows + 1],
        bytes: Vec::new(),
        text,
    }
}

impl Values {
    fn of(kind: Kind, rows: usize) -> Values {
        match kind {
            Kind::Null => Values::Unknown(rows),
            Kind::Integer => Values::Integers(vec![0; rows]),
            Kind::Real => Values::Reals(vec![0.0; rows]),
            Kind::Text => strings(rows, true),
            Kind::Blob => strings(rows, false),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Values::Unknown(_) => Kind::Null,
            Values::Integers(_) => Kind::Integer,
            Values::Reals(_) => Kind::Real,
            Values::Strings { text: true, .. } => Kind::Text,
            Values::Strings { text: false, .. } => Kind::Blob,
        }
    }

    fn rows(&self) -> usize {
        match self {
            Values::Unknown(rows) => *rows,
            Values::Integers(values) => values.len(),
            Values::Reals(values) => values.len(),
            Values::Strings { ends, .. } => ends.len().saturating_sub(1),
        }
    }
}

impl Column {
    /// A column whose type its values tell, or one of a type that is settled; with room for so many numbers, or for where so many texts end.
    pub(crate) fn new(kind: Option<Kind>, room: usize) -> Column {
        let mut values = Values::of(kind.unwrap_or(Kind::Null), 0);
        match &mut values {
            Values::Unknown(_) => {}
            Values::Integers(values) => values.reserve_exact(room),
            Values::Reals(values) => values.reserve_exact(room),
            Values::Strings { ends, .. } => ends.reserve_exact(room),
        }
        Column {
            values,
            valid: None,
            settled: kind.is_some(),
        }
    }

    /// Gives a column of NULLs its type.
    pub(crate) fn settle(&mut self, kind: Kind) {
        if let Values::Unknown(rows) = self.values {
            self.values = Values::of(kind, rows);
        }
        self.settled = true;
    }

    /// How many values there are.
    pub(crate) fn rows(&self) -> usize {
        self.values.rows()
    }

    /// The values, where they are integers and none is NULL so far.
    #[inline]
    pub(crate) fn integers(&mut self) -> Option<&mut Vec<i64>> {
        match (&mut self.values, &self.valid) {
            (Values::Integers(values), None) => Some(values),
            _ => None,
        }
    }

    /// The values, where they are floating point and none is NULL so far.
    #[inline]
    pub(crate) fn reals(&mut self) -> Option<&mut Vec<f64>> {
        match (&mut self.values, &self.valid) {
            (Values::Reals(values), None) => Some(values),
            _ => None,
        }
    }

    /// Adds a value; an error says why it does not fit.
    #[inline]
    pub(crate) fn push(&mut self, value: ValueRef<'_>) -> Result<(), String> {
        match (&mut self.values, value) {
            (Values::Integers(values), ValueRef::Integer(n)) => values.push(n),
            (Values::Reals(values), ValueRef::Real(x)) => values.push(x),
            (
                Values::Strings {
                    ends,
                    bytes,
                    text: true,
                },
                ValueRef::Text(piece),
            ) => {
                std::str::from_utf8(piece)
                    .map_err(|_| format!("text that is not UTF-8: b\"{}\"", start(piece)))?;
                append(ends, bytes, piece)?;
            }
            (
                Values::Strings {
                    ends,
                    bytes,
                    text: false,
                },
                ValueRef::Blob(piece) | ValueRef::Text(piece),
            ) => {
                append(ends, bytes, piece)?;
            }
            (_, ValueRef::Null) => return self.push_null(),
            (_, value) => return self.push_other(value),
        }
        if let Some(valid) = &mut self.valid {
            valid.push(true);
        }
        Ok(())
    }

    #[inline(never)]
    fn push_null(&mut self) -> Result<(), String> {
        let rows = self.rows();
        match &mut self.values {
            Values::Unknown(rows) => *rows += 1,
            Values::Integers(values) => values.push(0),
            Values::Reals(values) => values.push(0.0),
            Values::Strings { ends, .. } => ends.push(ends.last().copied().unwrap_or(0)),
        }
        let valid = self.valid.get_or_insert_with(|| BitsBuilder::ones(rows));
        valid.push(false);
        Ok(())
    }

    /// Adds a value of another type than the column's, which may change its type while that is not settled.
    #[inline(never)]
    fn push_other(&mut self, value: ValueRef<'_>) -> Result<(), String> {
        if let (Values::Reals(_), ValueRef::Integer(n)) = (&self.values, value) {
            let x = exact(n).ok_or_else(|| {
                format!("the integer {n} is not exact as floating point; use CAST(… AS TEXT)")
            })?;
            return self.push(ValueRef::Real(x));
        }
        if let (Values::Strings { text: true, .. }, ValueRef::Integer(_) | ValueRef::Real(_)) =
            (&self.values, value)
        {
            return self.push(ValueRef::Text(written(value).as_bytes()));
        }
        let wanted = match value {
            ValueRef::Null => Kind::Null,
            ValueRef::Integer(_) => Kind::Integer,
            ValueRef::Real(_) => Kind::Real,
            ValueRef::Text(_) => Kind::Text,
            ValueRef::Blob(_) => Kind::Blob,
        };
        if self.settled {
            return Err(format!(
                "{} in a column that began with {}; use CAST to make it one type",
                wanted.words(),
                self.values.kind().words()
            ));
        }
        self.become_kind(wanted)?;
        self.push(value)
    }

    /// Turns what there is into another type.
    fn become_kind(&mut self, kind: Kind) -> Result<(), String> {
        let values = std::mem::replace(&mut self.values, Values::Unknown(0));
        self.values = match (values, kind) {
            (Values::Unknown(rows), kind) => Values::of(kind, rows),
            (Values::Integers(values), Kind::Real) => {
                let inexact = values.iter().find(|n| exact(**n).is_none());
                if let Some(n) = inexact {
                    return Err(format!(
                        "floating point in a column with the integer {n}, which is not exact as that; use CAST to make it one type"
                    ));
                }
                Values::Reals(values.into_iter().map(|n| n as f64).collect())
            }
            (Values::Integers(values), Kind::Text) => {
                self.as_text(values.into_iter().map(ValueRef::Integer))?
            }
            (Values::Reals(values), Kind::Text) => {
                self.as_text(values.into_iter().map(ValueRef::Real))?
            }
            (Values::Strings { ends, bytes, .. }, Kind::Blob) => Values::Strings {
                ends,
                bytes,
                text: false,
            },
            (values, _) => {
                return Err(format!(
                    "{} in a column with {}; use CAST to make it one type",
                    kind.words(),
                    values.kind().words()
                ));
            }
        };
        Ok(())
    }

    fn as_text<'a>(&self, values: impl Iterator<Item = ValueRef<'a>>) -> Result<Values, String> {
        let (mut ends, mut bytes) = (vec![0], Vec::new());
        for (row, value) in values.enumerate() {
            let there = self.valid.as_ref().is_none_or(|valid| valid.get(row));
            let text = if there { written(value) } else { String::new() };
            append(&mut ends, &mut bytes, text.as_bytes())?;
        }
        Ok(Values::Strings {
            ends,
            bytes,
            text: true,
        })
    }
}

fn append(ends: &mut Vec<i32>, bytes: &mut Vec<u8>, piece: &[u8]) -> Result<(), String> {
    let end = i32::try_from(bytes.len() + piece.len());
    let end = end.map_err(|_| "more than 2 GiB in one column of a batch".to_owned())?;
    bytes.extend_from_slice(piece);
    ends.push(end);
    Ok(())
}

/// The number, where floating point holds it exactly.
fn exact(n: i64) -> Option<f64> {
    let x = n as f64;
    // Conversion back saturates, so that the greatest integer must be looked at by itself.
    (x as i64 == n && n != i64::MAX).then_some(x)
}

/// A number as text.
fn written(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(n) => n.to_string(),
        ValueRef::Real(x) => format!("{x:?}"),
        _ => String::new(),
    }
}

fn start(bytes: &[u8]) -> String {
    bytes
        .iter()
        .take(40)
        .copied()
        .collect::<Vec<u8>>()
        .escape_ascii()
        .to_string()
}

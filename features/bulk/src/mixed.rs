//! Values of several types in one column, kept unchanged until their batch ends.

use crate::kind::Kind;
use crate::piece::{append, exact, inexact, utf8};
use crate::values::Values;
use densite_sqlite::ValueRef;

/// Values with their original types.
#[derive(Debug, Default)]
pub(crate) struct Mixed {
    kinds: Vec<Kind>,
    /// Integers, or the bits of floating-point numbers.
    numbers: Vec<i64>,
    /// As in [`Values::Strings`]; a number has an empty range.
    ends: Vec<i32>,
    bytes: Vec<u8>,
}

/// Returns SQLite's text of a floating-point number.
pub(crate) type TextOf<'a> = &'a mut dyn FnMut(f64) -> Result<String, String>;

impl Mixed {
    /// Makes it from values of one type; `is_there` says which rows are not NULL.
    pub(crate) fn from(values: Values, is_there: impl Fn(usize) -> bool) -> Mixed {
        let (rows, kind) = (values.rows(), values.kind());
        let of = |row| if is_there(row) { kind } else { Kind::Null };
        let kinds = (0..rows).map(of).collect();
        match values {
            Values::Strings { ends, bytes, .. } => Mixed {
                kinds,
                numbers: vec![0; rows],
                ends,
                bytes,
            },
            numbers => Mixed {
                kinds,
                numbers: match numbers {
                    Values::Integers(values) => values,
                    Values::Reals(values) => values
                        .into_iter()
                        .map(|x| x.to_bits().cast_signed())
                        .collect(),
                    _ => vec![0; rows],
                },
                ends: vec![0; rows + 1],
                bytes: Vec::new(),
            },
        }
    }

    pub(crate) fn push(&mut self, value: ValueRef<'_>) -> Result<(), String> {
        let (number, piece): (i64, &[u8]) = match value {
            ValueRef::Integer(n) => (n, &[]),
            ValueRef::Real(x) => (x.to_bits().cast_signed(), &[]),
            ValueRef::Text(piece) | ValueRef::Blob(piece) => (0, piece),
            ValueRef::Null => (0, &[]),
        };
        append(&mut self.ends, &mut self.bytes, piece)?;
        self.kinds.push(Kind::of(value));
        self.numbers.push(number);
        Ok(())
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    fn has(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// The type of a column with these values.
    pub(crate) fn kind(&self) -> Kind {
        let most = [Kind::Blob, Kind::Text, Kind::Real, Kind::Integer];
        let found = most.into_iter().find(|kind| self.has(*kind));
        found.unwrap_or(Kind::Null)
    }

    fn rows(&self) -> impl Iterator<Item = (Kind, i64, &[u8])> {
        let pieces = self.ends.windows(2).map(|ends| {
            let [from, to] = ends else { return &[][..] };
            let range = usize::try_from(*from).ok().zip(usize::try_from(*to).ok());
            let piece = range.and_then(|(from, to)| self.bytes.get(from..to));
            piece.unwrap_or_default()
        });
        let numbers = self.kinds.iter().zip(&self.numbers);
        numbers
            .zip(pieces)
            .map(|((kind, n), piece)| (*kind, *n, piece))
    }

    /// Converts the values to one type. An error has the row that does not fit, and the reason.
    pub(crate) fn into_one(
        self,
        kind: Kind,
        text_of: TextOf<'_>,
    ) -> Result<Values, (usize, String)> {
        let at = |row: usize| move |what: String| (row, what);
        match kind {
            Kind::Null | Kind::Integer => Ok(Values::Integers(self.numbers)),
            Kind::Real => {
                let values = self.rows().enumerate().map(|(row, (kind, n, _))| {
                    if kind == Kind::Integer {
                        return exact(n).ok_or_else(|| at(row)(inexact(n)));
                    }
                    Ok(f64::from_bits(n.cast_unsigned()))
                });
                Ok(Values::Reals(values.collect::<Result<_, _>>()?))
            }
            Kind::Text => {
                let (mut ends, mut bytes) = (vec![0], Vec::new());
                for (row, (kind, n, piece)) in self.rows().enumerate() {
                    let number = match kind {
                        Kind::Integer => Some(n.to_string()),
                        Kind::Real => {
                            let x = f64::from_bits(n.cast_unsigned());
                            Some(text_of(x).map_err(at(row))?)
                        }
                        _ => None,
                    };
                    let piece = number.as_ref().map_or(piece, |number| number.as_bytes());
                    utf8(piece).map_err(at(row))?;
                    append(&mut ends, &mut bytes, piece).map_err(at(row))?;
                }
                Ok(Values::Strings {
                    ends,
                    bytes,
                    text: true,
                })
            }
            Kind::Blob => {
                let number = |kind: &Kind| matches!(kind, Kind::Integer | Kind::Real);
                match self.kinds.iter().position(number) {
                    Some(row) => {
                        let kind = self.kinds.get(row).copied().unwrap_or(Kind::Integer);
                        Err(at(row)(format!(
                            "{} in a column with blobs; use CAST to make it one type",
                            kind.words()
                        )))
                    }
                    None => Ok(Values::Strings {
                        ends: self.ends,
                        bytes: self.bytes,
                        text: false,
                    }),
                }
            }
        }
    }
}

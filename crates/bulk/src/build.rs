//! Values of a result's column, gathered into Arrow's layout.
//!
//! A column's type is what its first batch holds: integers, floating point (integers among it become that where it is exact), text (numbers among it
//! become SQLite's text of them, as by CAST), blobs (text among them becomes its bytes). Numbers and blobs do not fit into one column. The order of the
//! rows does not matter: values of several types are kept as they are until the batch ends. Later batches must fit.

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

/// The values of a batch that is being filled.
#[derive(Debug)]
enum Cells {
    Of(Values),
    /// Of several types, until the batch ends.
    Mixed(Mixed),
}

/// Values as they came.
#[derive(Debug, Default)]
pub(crate) struct Mixed {
    kinds: Vec<Kind>,
    /// Integers, and the bits of floating point.
    numbers: Vec<i64>,
    /// As in [`Values::Strings`]; a number has none.
    ends: Vec<i32>,
    bytes: Vec<u8>,
}

/// A column of a batch that is being filled.
#[derive(Debug)]
pub(crate) struct Column {
    cells: Cells,
    /// Which are not NULL; made at the first NULL.
    valid: Option<BitsBuilder>,
    /// The type, once it is settled.
    settled: Option<Kind>,
}

/// A column of a batch.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) values: Values,
    /// Which are not NULL; all without.
    pub(crate) valid: Option<BitsBuilder>,
}

/// Gives the text that SQLite has for a floating-point number.
pub(crate) type TextOf<'a> = &'a mut dyn FnMut(f64) -> Result<String, String>;

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

    pub(crate) fn rows(&self) -> usize {
        match self {
            Values::Unknown(rows) => *rows,
            Values::Integers(values) => values.len(),
            Values::Reals(values) => values.len(),
            Values::Strings { ends, .. } => ends.len().saturating_sub(1),
        }
    }

    fn push_null(&mut self) {
        match self {
            Values::Unknown(rows) => *rows += 1,
            Values::Integers(values) => values.push(0),
            Values::Reals(values) => values.push(0.0),
            Values::Strings { ends, .. } => ends.push(ends.last().copied().unwrap_or(0)),
        }
    }
}

impl Mixed {
    /// Values of one type, of which `is_there` tells whether they are not NULL.
    fn from(values: Values, is_there: impl Fn(usize) -> bool) -> Mixed {
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

    fn push(&mut self, value: ValueRef<'_>) -> Result<(), String> {
        let (number, piece): (i64, &[u8]) = match value {
            ValueRef::Integer(n) => (n, &[]),
            ValueRef::Real(x) => (x.to_bits().cast_signed(), &[]),
            ValueRef::Text(piece) | ValueRef::Blob(piece) => (0, piece),
            ValueRef::Null => (0, &[]),
        };
        append(&mut self.ends, &mut self.bytes, piece)?;
        self.kinds.push(kind_of(value));
        self.numbers.push(number);
        Ok(())
    }

    fn has(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// The type of a column that has them.
    fn kind(&self) -> Kind {
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

    /// The values as those of one type; an error tells the row and why it does not fit.
    fn into_one(self, kind: Kind, text_of: TextOf<'_>) -> Result<Values, (usize, String)> {
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

impl Filled {
    /// A column without values.
    pub(crate) fn empty(kind: Kind) -> Filled {
        Filled {
            values: Values::of(kind, 0),
            valid: None,
        }
    }

    /// Gives a column of NULLs its type.
    pub(crate) fn set_kind(&mut self, kind: Kind) {
        if let Values::Unknown(rows) = self.values {
            self.values = Values::of(kind, rows);
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
            cells: Cells::Of(values),
            valid: None,
            settled: kind,
        }
    }

    /// The values as those of one type, at the end of a batch; an error tells the row and why it does not fit.
    pub(crate) fn finish(self, text_of: TextOf<'_>) -> Result<Filled, (usize, String)> {
        let values = match self.cells {
            Cells::Of(values) => values,
            Cells::Mixed(mixed) => {
                let kind = self.settled.unwrap_or(mixed.kind());
                mixed.into_one(kind, text_of)?
            }
        };
        Ok(Filled {
            values,
            valid: self.valid,
        })
    }

    /// The values, where they are integers and none is NULL so far.
    #[inline]
    pub(crate) fn integers(&mut self) -> Option<&mut Vec<i64>> {
        match (&mut self.cells, &self.valid) {
            (Cells::Of(Values::Integers(values)), None) => Some(values),
            _ => None,
        }
    }

    /// The values, where they are floating point and none is NULL so far.
    #[inline]
    pub(crate) fn reals(&mut self) -> Option<&mut Vec<f64>> {
        match (&mut self.cells, &self.valid) {
            (Cells::Of(Values::Reals(values)), None) => Some(values),
            _ => None,
        }
    }

    /// Adds a value; an error says why it does not fit.
    #[inline]
    pub(crate) fn push(&mut self, value: ValueRef<'_>) -> Result<(), String> {
        let values = match &mut self.cells {
            Cells::Of(values) => values,
            Cells::Mixed(_) => return self.push_mixed(value),
        };
        match (values, value) {
            (Values::Integers(values), ValueRef::Integer(n)) => values.push(n),
            (Values::Reals(values), ValueRef::Real(x)) => values.push(x),
            (
                Values::Strings {
                    ends,
                    bytes,
                    text: true,
                },
                ValueRef::Text(piece),
            ) if std::str::from_utf8(piece).is_ok() => append(ends, bytes, piece)?,
            (
                Values::Strings {
                    ends,
                    bytes,
                    text: false,
                },
                ValueRef::Blob(piece) | ValueRef::Text(piece),
            ) => append(ends, bytes, piece)?,
            (values, ValueRef::Null) => {
                let rows = values.rows();
                values.push_null();
                let valid = self.valid.get_or_insert_with(|| BitsBuilder::ones(rows));
                valid.push(false);
                return Ok(());
            }
            (_, value) => return self.push_other(value),
        }
        if let Some(valid) = &mut self.valid {
            valid.push(true);
        }
        Ok(())
    }

    /// Adds a value of another type than the column's.
    #[inline(never)]
    fn push_other(&mut self, value: ValueRef<'_>) -> Result<(), String> {
        if let (Some(Kind::Real), ValueRef::Integer(n)) = (self.settled, value) {
            let x = exact(n).ok_or_else(|| inexact(n))?;
            return self.push(ValueRef::Real(x));
        }
        let values = match std::mem::replace(&mut self.cells, Cells::Mixed(Mixed::default())) {
            Cells::Of(Values::Unknown(rows)) if self.settled.is_none() => {
                self.cells = Cells::Of(Values::of(kind_of(value), rows));
                return self.push(value);
            }
            Cells::Of(values) => values,
            mixed @ Cells::Mixed(_) => {
                self.cells = mixed;
                return self.push_mixed(value);
            }
        };
        let valid = self.valid.as_ref();
        let is_there = |row| valid.is_none_or(|valid| valid.get(row));
        self.cells = Cells::Mixed(Mixed::from(values, is_there));
        self.push_mixed(value)
    }

    /// Adds a value to those of several types.
    #[inline(never)]
    fn push_mixed(&mut self, value: ValueRef<'_>) -> Result<(), String> {
        let Cells::Mixed(mixed) = &mut self.cells else {
            return self.push(value);
        };
        match (self.settled, value) {
            (None, _) | (Some(_), ValueRef::Null) => {}
            (Some(Kind::Text), ValueRef::Text(piece)) => utf8(piece)?,
            (Some(Kind::Text), ValueRef::Integer(_) | ValueRef::Real(_)) => {}
            (Some(kind), value) => {
                return Err(format!(
                    "{} in a column that began with {}; use CAST to make it one type",
                    kind_of(value).words(),
                    kind.words()
                ));
            }
        }
        let rows = mixed.kinds.len();
        mixed.push(value)?;
        let is_null = matches!(value, ValueRef::Null);
        if is_null && self.valid.is_none() {
            self.valid = Some(BitsBuilder::ones(rows));
        }
        if let Some(valid) = &mut self.valid {
            valid.push(!is_null);
        }
        Ok(())
    }
}

fn kind_of(value: ValueRef<'_>) -> Kind {
    match value {
        ValueRef::Null => Kind::Null,
        ValueRef::Integer(_) => Kind::Integer,
        ValueRef::Real(_) => Kind::Real,
        ValueRef::Text(_) => Kind::Text,
        ValueRef::Blob(_) => Kind::Blob,
    }
}

fn inexact(n: i64) -> String {
    format!(
        "the integer {n} is not exact as floating point, which its column has; use CAST(… AS TEXT)"
    )
}

fn utf8(piece: &[u8]) -> Result<(), String> {
    match std::str::from_utf8(piece) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("text that is not UTF-8: b\"{}\"", start(piece))),
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

fn start(bytes: &[u8]) -> String {
    bytes
        .iter()
        .take(40)
        .copied()
        .collect::<Vec<u8>>()
        .escape_ascii()
        .to_string()
}

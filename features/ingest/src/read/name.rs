//! The identity of a row of an ingest table.
//!
//! SQLite combines the searches of an OR, pairs rows of outer joins and changes rows by the table's
//! primary key. So each row needs an identity that is unique and stable within a transaction. It is
//! computed from the row alone, so nothing is stored: the target's key, or the row's origin if it
//! has no key. With an `INTEGER PRIMARY KEY` it is the row id. Every other table is WITHOUT ROWID,
//! and a hidden column has the identity.

use densite_log::Seq;
use densite_sqlite::{Value, ValueRef};

/// Name of the hidden column, unless the target has a column with that name.
const COLUMN: &str = "densite_row";

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Name {
    /// A row with this key, which contains no NULL.
    Key(Vec<Value>),
    /// A row of the base table without a key, by its row id.
    Base(i64),
    /// A row of the log without a key.
    Log(Seq),
}

/// The name of the hidden column of a table with these columns.
pub(crate) fn column<'a>(columns: impl Iterator<Item = &'a str> + Clone) -> String {
    let mut name = COLUMN.to_owned();
    while columns.clone().any(|c| c.eq_ignore_ascii_case(&name)) {
        name.push('_');
    }
    name
}

/// The row id of a row that gets its `INTEGER PRIMARY KEY` when it is applied.
pub(crate) fn row_id(seq: Seq) -> i64 {
    i64::MIN.wrapping_add_unsigned(seq)
}

/// The number of the row with this row id.
pub(crate) fn seq(row_id: i64) -> Seq {
    row_id.wrapping_sub(i64::MIN).cast_unsigned()
}

impl Name {
    /// Writes the value of the hidden column, in place of what `out` has.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Name::Key(values) => {
                out.push(0);
                values.iter().for_each(|v| write_value(v.as_ref(), out));
            }
            Name::Base(id) => {
                out.push(1);
                out.extend(id.to_be_bytes());
            }
            Name::Log(seq) => {
                out.push(2);
                out.extend(seq.to_be_bytes());
            }
        }
    }

    /// Reads the value of the hidden column; `None` if it is not valid.
    pub(crate) fn read(value: ValueRef<'_>) -> Option<Name> {
        let ValueRef::Blob([kind, rest @ ..]) = value else {
            return None;
        };
        match kind {
            0 => {
                let (mut rest, mut values) = (rest, Vec::new());
                while !rest.is_empty() {
                    let value;
                    (value, rest) = read_value(rest)?;
                    values.push(value);
                }
                Some(Name::Key(values))
            }
            1 => Some(Name::Base(i64::from_be_bytes(rest.try_into().ok()?))),
            2 => Some(Name::Log(Seq::from_be_bytes(rest.try_into().ok()?))),
            _ => None,
        }
    }
}

fn write_value(value: ValueRef<'_>, out: &mut Vec<u8>) {
    let mut bytes = |kind: u8, bytes: &[u8]| {
        out.push(kind);
        out.extend((bytes.len() as u64).to_be_bytes());
        out.extend(bytes);
    };
    match value {
        ValueRef::Null => bytes(0, &[]),
        ValueRef::Integer(n) => bytes(1, &n.to_be_bytes()),
        ValueRef::Real(x) => bytes(2, &x.to_be_bytes()),
        ValueRef::Text(text) => bytes(3, text),
        ValueRef::Blob(blob) => bytes(4, blob),
    }
}

fn read_value(from: &[u8]) -> Option<(Value, &[u8])> {
    let (kind, rest) = from.split_first()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (bytes, rest) = rest.split_at_checked(usize::try_from(u64::from_be_bytes(*len)).ok()?)?;
    let value = match kind {
        0 => ValueRef::Null,
        1 => ValueRef::Integer(i64::from_be_bytes(bytes.try_into().ok()?)),
        2 => ValueRef::Real(f64::from_be_bytes(bytes.try_into().ok()?)),
        3 => ValueRef::Text(bytes),
        4 => ValueRef::Blob(bytes),
        _ => return None,
    };
    Some((value.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_were_written() {
        let values = vec![
            Value::Integer(i64::MIN),
            Value::Real(-0.5),
            Value::Blob(vec![0, 255]),
            Value::from("é"),
            Value::from(""),
        ];
        let mut out = Vec::new();
        for name in [
            Name::Key(values),
            Name::Key(Vec::new()),
            Name::Base(-7),
            Name::Log(9),
        ] {
            name.write(&mut out);
            assert_eq!(Name::read(ValueRef::Blob(&out)), Some(name));
            if out.len() > 1 {
                assert_eq!(Name::read(ValueRef::Blob(&out[..out.len() - 1])), None);
            }
        }
        assert_eq!(Name::read(ValueRef::Blob(&[])), None);
        assert_eq!(Name::read(ValueRef::Blob(&[9])), None);
        assert_eq!(Name::read(ValueRef::Null), None);
    }

    #[test]
    fn a_row_id_encodes_its_number() {
        for number in [0, 1, 1 << 40, crate::read::OWN + 9] {
            assert_eq!(seq(row_id(number)), number);
            assert!(row_id(number) < 0);
        }
    }

    #[test]
    fn the_hidden_column_has_a_name_that_no_column_has() {
        assert_eq!(column(["a", "b"].into_iter()), "densite_row");
        assert_eq!(
            column(["Densite_Row", "densite_row_"].into_iter()),
            "densite_row__"
        );
    }
}

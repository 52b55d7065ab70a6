//! What the serial types of a record say, if all its values are integers and NULL: where each value
//! ends and how it is read.

use super::COLUMNS_MAX;
use crate::model::Model;
use crate::stream::most_values;
use densite_sqlite_format::record::BODY_LEN;

/// How a value that is not NULL is read: from the eight bytes that end where it ends, of which the
/// first `unused` bits belong to what lies before it.
#[derive(Clone, Copy, Default)]
pub(super) struct Value {
    /// Its column.
    pub(super) column: usize,
    /// Where it ends, counted from the record's beginning.
    pub(super) end: usize,
    /// Bits of the eight bytes that are not part of it.
    pub(super) unused: u32,
    /// The bits of what is read that count: all of them, or no bit if the type says 0 or 1.
    pub(super) keep: i64,
    /// The value if the type says 0 or 1, else 0.
    pub(super) constant: i64,
    /// A magnitude of at most so many bits would fit in fewer bytes.
    pub(super) fewer: u32,
    /// 1 if there are no fewer bytes, else 0.
    pub(super) least: u64,
}

/// What the types of a record's header say.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// The types, the first the lowest byte.
    pub(super) types: u64,
    pub(super) columns: usize,
    /// The columns that are NULL.
    pub(super) nulls: u32,
    /// The other columns, `count` of them.
    pub(super) values: [Value; COLUMNS_MAX],
    pub(super) count: usize,
    /// Bytes of the record.
    pub(super) end: usize,
    /// The type of some value says that it is 0 or 1.
    pub(super) short: bool,
}

impl Shape {
    /// What the types of the record at `first` say, the first one of a leaf of `cells` cells.
    /// `None` if the short paths do not apply to that leaf.
    pub(super) fn of_first(
        bytes: &[u8],
        first: usize,
        cells: usize,
        model: &Model,
    ) -> Option<Shape> {
        let columns = usize::from(*bytes.get(first)?).checked_sub(1)?;
        let fits =
            (1..=COLUMNS_MAX).contains(&columns) && cells * columns <= most_values(bytes.len());
        if !fits || (0..columns).any(|c| model.column(c).scale != 0) {
            return None;
        }
        Shape::of(types_at(bytes, first, columns)?, columns)
    }

    /// `None` if there is anything except integers and NULL.
    pub(super) fn of(types: u64, columns: usize) -> Option<Shape> {
        let mut shape = Shape {
            types,
            columns,
            nulls: 0,
            values: [Value::default(); COLUMNS_MAX],
            count: 0,
            end: columns + 1,
            short: false,
        };
        for (column, t) in types.to_le_bytes().into_iter().enumerate().take(columns) {
            let len = u32::from(*BODY_LEN.get(usize::from(t))?);
            shape.end += len as usize;
            let value = match t {
                0 => {
                    shape.nulls |= 1 << column;
                    continue;
                }
                1..=6 => Value {
                    unused: 64 - 8 * len,
                    keep: -1,
                    constant: 0,
                    // By the next shorter type: types 1 to 6 have 1, 2, 3, 4, 6 and 8 bytes.
                    fewer: match t {
                        1 => 0,
                        5 => 31,
                        6 => 47,
                        _ => 8 * (len - 1) - 1,
                    },
                    least: u64::from(t == 1),
                    ..Value::default()
                },
                8 | 9 => {
                    shape.short = true;
                    Value {
                        constant: i64::from(t - 8),
                        least: 1,
                        ..Value::default()
                    }
                }
                _ => return None,
            };
            *shape.values.get_mut(shape.count)? = Value {
                column,
                end: shape.end,
                ..value
            };
            shape.count += 1;
        }
        Some(shape)
    }

    pub(super) fn is_null(&self, column: usize) -> bool {
        self.nulls >> column & 1 == 1
    }
}

/// The types of a record of so many columns that begins at `at`. `None` if its header has another
/// length.
#[inline]
pub(super) fn types_at(page: &[u8], at: usize, columns: usize) -> Option<u64> {
    let rest = page.get(at..)?;
    let word = match rest.first_chunk::<9>() {
        Some([header, types @ ..]) if usize::from(*header) == columns + 1 => {
            u64::from_le_bytes(*types)
        }
        Some(_) => return None,
        None => {
            let (header, types) = rest.split_first()?;
            if usize::from(*header) != columns + 1 {
                return None;
            }
            let types = types.iter().rev();
            types.fold(0, |word, t| word << 8 | u64::from(*t))
        }
    };
    Some(word & u64::MAX >> (64 - 8 * columns))
}

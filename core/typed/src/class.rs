//! Classes: what kind of value a column holds in a row, and how it is coded there.

/// The class of one value. The number is what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// NULL.
    Null = 0,
    /// An integer, or a decimal, times the column's power of ten: see [`crate::decimal`].
    Number = 1,
    /// An integer that overflows when multiplied so.
    Integer = 2,
    /// A REAL that is not such a decimal: its bits.
    Real = 3,
    /// Text by the column's template or dictionary.
    Formed = 4,
    /// Any other text: by the column's symbols, or as raw bytes.
    Text = 5,
    /// A blob, coded in the same way.
    Blob = 6,
    /// The row ends before this column.
    Absent = 7,
}

impl Class {
    pub(crate) fn of(number: i64) -> Option<Class> {
        Some(match number {
            0 => Class::Null,
            1 => Class::Number,
            2 => Class::Integer,
            3 => Class::Real,
            4 => Class::Formed,
            5 => Class::Text,
            6 => Class::Blob,
            7 => Class::Absent,
            _ => return None,
        })
    }
}

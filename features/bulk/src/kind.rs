//! The types of a result's columns.

use densite_sqlite::ValueRef;

/// The type of a result's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only NULLs.
    Null,
    /// 64-bit integers.
    Integer,
    /// Double precision.
    Real,
    /// UTF-8 text.
    Text,
    /// Bytes.
    Blob,
}

impl Kind {
    /// The type of a value.
    pub(crate) fn of(value: ValueRef<'_>) -> Kind {
        match value {
            ValueRef::Null => Kind::Null,
            ValueRef::Integer(_) => Kind::Integer,
            ValueRef::Real(_) => Kind::Real,
            ValueRef::Text(_) => Kind::Text,
            ValueRef::Blob(_) => Kind::Blob,
        }
    }

    /// Its name in messages.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Kind::Null => "NULL",
            Kind::Integer => "integers",
            Kind::Real => "floating point",
            Kind::Text => "text",
            Kind::Blob => "blobs",
        }
    }

    /// The type for a declared type, by SQLite's rules of affinity.
    pub(crate) fn of_declared(declared: &str) -> Kind {
        let declared = declared.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if has("INT") {
            Kind::Integer
        } else if ["CHAR", "CLOB", "TEXT", "DATE", "TIME"]
            .into_iter()
            .any(has)
        {
            // Dates and times are NUMERIC by affinity, but text in SQLite's own formats.
            Kind::Text
        } else if has("BLOB") {
            Kind::Blob
        } else {
            Kind::Real
        }
    }
}

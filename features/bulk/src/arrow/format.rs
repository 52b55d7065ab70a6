//! The format strings of types.

use crate::text::{Decimal, Unit};

/// A supported type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Bool,
    /// Its sign and its size in bytes.
    Integer {
        signed: bool,
        bytes: usize,
    },
    /// Its size in bytes.
    Float(usize),
    /// Text or blobs, with offsets of 32 or 64 bits.
    Strings {
        text: bool,
        large: bool,
    },
    Views {
        text: bool,
    },
    /// Blobs of this size in bytes.
    Fixed(usize),
    /// Days since 1970-01-01, in 32 bits.
    Days,
    /// Days since 1970-01-01 as milliseconds, in 64 bits.
    DaysInMilli,
    /// Time since 1970-01-01, in 64 bits. `utc`: the type has a time zone, so its values are in
    /// UTC.
    Timestamp {
        unit: Unit,
        utc: bool,
    },
    /// Time since midnight.
    Time {
        unit: Unit,
        bytes: usize,
    },
    /// A duration as an integer number of its unit.
    Duration,
    Decimal(Decimal),
}

impl Type {
    /// Parses a format; `None` if it has no counterpart in SQLite.
    pub(super) fn of(format: &str) -> Option<Type> {
        let integer = |signed, bytes| Type::Integer { signed, bytes };
        let unit = |letter: &str| match letter {
            "s" => Some(Unit::Seconds),
            "m" => Some(Unit::Milli),
            "u" => Some(Unit::Micro),
            "n" => Some(Unit::Nano),
            _ => None,
        };
        Some(match format {
            "n" => Type::Null,
            "b" => Type::Bool,
            "c" => integer(true, 1),
            "C" => integer(false, 1),
            "s" => integer(true, 2),
            "S" => integer(false, 2),
            "i" => integer(true, 4),
            "I" => integer(false, 4),
            "l" => integer(true, 8),
            "L" => integer(false, 8),
            "e" => Type::Float(2),
            "f" => Type::Float(4),
            "g" => Type::Float(8),
            "u" => Type::Strings {
                text: true,
                large: false,
            },
            "U" => Type::Strings {
                text: true,
                large: true,
            },
            "z" => Type::Strings {
                text: false,
                large: false,
            },
            "Z" => Type::Strings {
                text: false,
                large: true,
            },
            "vu" => Type::Views { text: true },
            "vz" => Type::Views { text: false },
            "tdD" => Type::Days,
            "tdm" => Type::DaysInMilli,
            "tts" => Type::Time {
                unit: Unit::Seconds,
                bytes: 4,
            },
            "ttm" => Type::Time {
                unit: Unit::Milli,
                bytes: 4,
            },
            "ttu" => Type::Time {
                unit: Unit::Micro,
                bytes: 8,
            },
            "ttn" => Type::Time {
                unit: Unit::Nano,
                bytes: 8,
            },
            "tDs" | "tDm" | "tDu" | "tDn" => Type::Duration,
            _ => {
                if let Some(width) = format.strip_prefix("w:") {
                    return width.parse().ok().map(Type::Fixed);
                }
                if let Some(rest) = format.strip_prefix("ts") {
                    let (letter, zone) = rest.split_once(':')?;
                    let unit = unit(letter)?;
                    return Some(Type::Timestamp {
                        unit,
                        utc: !zone.is_empty(),
                    });
                }
                let mut parts = format.strip_prefix("d:")?.split(',');
                let _precision: u32 = parts.next()?.parse().ok()?;
                let scale = parts.next()?.parse().ok()?;
                let bits: usize = parts.next().map_or(Some(128), |bits| bits.parse().ok())?;
                if !matches!(bits, 32 | 64 | 128 | 256) {
                    return None;
                }
                Type::Decimal(Decimal {
                    bytes: bits / 8,
                    scale,
                })
            }
        })
    }
}

impl Type {
    /// Whether an array of the type can have this number of buffers.
    pub(super) fn has_buffers(&self, n: i64) -> bool {
        match self {
            // Older producers add a buffer without meaning.
            Type::Null => (0..=1).contains(&n),
            Type::Strings { .. } => n == 3,
            Type::Views { .. } => n >= 3,
            _ => n == 2,
        }
    }
}

/// A readable name of a type's format.
pub(super) fn name(format: &str) -> String {
    let known = match format.get(..2).unwrap_or(format) {
        "+l" | "+L" | "+w" => "a list",
        "+v" => "a list",
        "+s" => "a struct",
        "+m" => "a map",
        "+u" => "a union",
        "+r" => "run-end encoded",
        "ti" => "an interval",
        _ => return format!("of Arrow's type {format:?}"),
    };
    known.to_owned()
}

//! A hash of keys: keys that SQLite treats as equal have the same hash.
//!
//! It is compared within one run of the program and never stored. If two keys share a hash, their
//! rows stay in the order of the log, which is always correct.

use crate::schema::affinity::from_log;
use crate::schema::collation::{Collation, without_case};
use densite_log::Rows;
use densite_sqlite::ValueRef;
use std::hash::{DefaultHasher, Hasher};

/// The hash of the key of a row. `key` says how its columns compare.
pub(super) fn hash(rows: &Rows, row: usize, key: &[Collation]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (column, how) in key.iter().enumerate() {
        let value = rows.get(row, column).map_or(ValueRef::Null, from_log);
        match value {
            ValueRef::Null => hasher.write_u8(0),
            ValueRef::Integer(n) => integer(&mut hasher, n),
            ValueRef::Real(x) => real(&mut hasher, x),
            ValueRef::Text(text) => {
                hasher.write_u8(3);
                folded(&mut hasher, text, *how);
            }
            ValueRef::Blob(bytes) => {
                hasher.write_u8(4);
                hasher.write(bytes);
                hasher.write_usize(bytes.len());
            }
        }
    }
    hasher.finish()
}

fn integer(hasher: &mut DefaultHasher, n: i64) {
    hasher.write_u8(1);
    hasher.write_i64(n);
}

/// 1.0 and 1 are equal keys.
fn real(hasher: &mut DefaultHasher, x: f64) {
    let range = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    if x.fract() == 0.0 && range.contains(&x) {
        return integer(hasher, x as i64);
    }
    hasher.write_u8(2);
    hasher.write_u64(x.to_bits());
}

fn folded(hasher: &mut DefaultHasher, text: &[u8], how: Collation) {
    match how {
        Collation::NoCase => {
            for byte in without_case(text) {
                hasher.write_u8(byte);
            }
            hasher.write_usize(text.len());
        }
        Collation::RTrim => {
            let end = text.iter().rposition(|b| *b != b' ').map_or(0, |i| i + 1);
            hasher.write(text.get(..end).unwrap_or_default());
            hasher.write_usize(end);
        }
        // SQLite compares UTF-16 bytes, which correspond one-to-one to these bytes. Invalid UTF-8
        // is made valid first.
        Collation::BinaryUtf16Le | Collation::BinaryUtf16Be => {
            let text = String::from_utf8_lossy(text);
            hasher.write(text.as_bytes());
            hasher.write_usize(text.len());
        }
        Collation::Binary => {
            hasher.write(text);
            hasher.write_usize(text.len());
        }
    }
}

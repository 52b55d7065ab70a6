//! Rows of JSON: a file with an object in each line, or a file with an array of objects.
//!
//! Keys are columns, in the order of the file. For a missing key the column gets its default.
//! Arrays and objects within become their own text, without its blanks, so keys keep their order
//! and numbers their digits.

mod array;
mod lines;
mod object;

pub(super) use array::Array;
pub(super) use lines::Lines;

use super::{Bad, Column, Row};
use rusqlite::types::Value;
use std::collections::HashMap;

/// Whether a value ends with the file: serde_json names a number that ends in a sign, a point or an
/// exponent an invalid one.
fn is_cut(e: &serde_json::Error, is_end: bool) -> bool {
    e.is_eof() || (is_end && e.to_string().starts_with("invalid number"))
}

/// The columns that are known so far.
#[derive(Default)]
struct Columns {
    columns: Vec<Column>,
    by_name: HashMap<String, usize>,
}

impl Columns {
    /// A row of an object's text.
    fn row(&mut self, at: u64, text: &[u8]) -> Result<Row, Bad> {
        let mut values: Vec<Option<Value>> = vec![None; self.columns.len()];
        for (key, value) in object::parse(at, text)? {
            let place = match self.by_name.get(key.as_ref()) {
                Some(place) => *place,
                None => {
                    self.by_name
                        .insert(key.clone().into_owned(), self.columns.len());
                    self.columns.push(Column {
                        name: key.into_owned(),
                        declared: "",
                    });
                    values.push(None);
                    self.columns.len() - 1
                }
            };
            if let Some(slot) = values.get_mut(place) {
                *slot = Some(value);
            }
        }
        Ok(Row { at, values })
    }
}

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
use serde::de::{Deserialize, IgnoredAny};
use std::collections::HashMap;
use std::io::{self, Read};

/// A text for the parser, which notes whether the parser asked for more than the text has. A value
/// that does not parse is cut off exactly then: serde_json's own category calls a number that ends in
/// a sign, a point or an exponent a wrong one.
struct Noted<R> {
    text: R,
    has_ended: bool,
}

impl<R: Read> Noted<R> {
    fn new(text: R) -> Noted<R> {
        Noted {
            text,
            has_ended: false,
        }
    }
}

impl<R: Read> Read for Noted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.text.read(buf)?;
        self.has_ended |= read == 0;
        Ok(read)
    }
}

/// Whether the text ends within a JSON value.
fn is_cut(text: &[u8]) -> bool {
    let mut noted = Noted::new(text);
    let mut parser = serde_json::Deserializer::from_reader(&mut noted);
    IgnoredAny::deserialize(&mut parser).is_err() && noted.has_ended
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

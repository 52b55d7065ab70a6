//! Rows of JSON lines: each line is an object with column names as keys. For a missing key the
//! column gets its default.

use super::{Bad, Column, Row, Source};
use rusqlite::types::Value;
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

pub(super) struct Jsonl {
    reader: BufReader<File>,
    columns: Vec<Column>,
    by_name: HashMap<String, usize>,
    line: Vec<u8>,
    at: u64,
    bytes: u64,
}

impl Jsonl {
    pub(super) fn new(file: File) -> Jsonl {
        Jsonl {
            reader: BufReader::with_capacity(1 << 16, file),
            columns: Vec::new(),
            by_name: HashMap::new(),
            line: Vec::new(),
            at: 0,
            bytes: 0,
        }
    }

    fn row(&mut self, object: Map<String, Json>) -> Row {
        let mut values = vec![None; self.columns.len()];
        for (key, json) in object {
            let value = value_of(json);
            let place = match self.by_name.get(&key) {
                Some(place) => *place,
                None => {
                    self.by_name.insert(key.clone(), self.columns.len());
                    self.columns.push(Column {
                        name: key,
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
        Row {
            at: self.at,
            values,
        }
    }
}

/// Finds an integer beyond 64 bits, which would lose digits as a float.
fn too_large(line: &[u8]) -> Option<&str> {
    const DIGITS: usize = 19;
    let is_long = |run: &[u8]| run.len() >= DIGITS && run.iter().all(u8::is_ascii_digit);
    // Nearly all lines have no long run of digits.
    if !line.split(|b| !b.is_ascii_digit()).any(is_long) {
        return None;
    }
    let mut rest = line;
    while let Some((first, behind)) = rest.split_first() {
        rest = match first {
            b'"' => behind_text(behind),
            b'-' | b'0'..=b'9' => {
                let is_of_it = |b: &u8| b.is_ascii_digit() || b"+-.eE".contains(b);
                let end = rest.iter().position(|b| !is_of_it(b));
                let (number, behind) = rest.split_at(end.unwrap_or(rest.len()));
                let number = std::str::from_utf8(number).ok()?;
                let is_integer = !number.contains(['.', 'e', 'E']);
                if is_integer && number.len() >= DIGITS && number.parse::<i64>().is_err() {
                    return Some(number);
                }
                behind
            }
            _ => behind,
        };
    }
    None
}

/// The rest after a string whose opening quote has been read.
fn behind_text(mut rest: &[u8]) -> &[u8] {
    while let Some((first, behind)) = rest.split_first() {
        rest = match first {
            b'"' => return behind,
            b'\\' => behind.get(1..).unwrap_or_default(),
            _ => behind,
        };
    }
    rest
}

fn value_of(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Integer(i64::from(b)),
        Json::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(n), _) => Value::Integer(n),
            (None, Some(x)) => Value::Real(x),
            (None, None) => Value::Text(n.to_string()),
        },
        Json::String(text) => Value::Text(text),
        other => Value::Text(other.to_string()),
    }
}

impl Source for Jsonl {
    fn unit(&self) -> &'static str {
        "line"
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn next(&mut self) -> Result<Option<Row>, Bad> {
        loop {
            self.line.clear();
            let read = self.reader.read_until(b'\n', &mut self.line);
            let read = read.map_err(|e| Bad::file(format!("cannot be read: {e}")))?;
            if read == 0 {
                return Ok(None);
            }
            self.at += 1;
            self.bytes += read as u64;
            if self.line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let line = match self.at {
                1 => self
                    .line
                    .strip_prefix(b"\xef\xbb\xbf")
                    .unwrap_or(&self.line),
                _ => &self.line,
            };
            if let Some(number) = too_large(line) {
                return Err(Bad {
                    value: Some(number.to_owned()),
                    ..Bad::row(self.at, "is an integer beyond 64 bits; write it as text")
                });
            }
            return match serde_json::from_slice(line) {
                Ok(Json::Object(object)) => Ok(Some(self.row(object))),
                Ok(other) => {
                    let shown = super::shown(&Value::Text(other.to_string()));
                    let bad = Bad::row(self.at, "is not a JSON object with columns and values");
                    Err(Bad {
                        value: Some(shown),
                        ..bad
                    })
                }
                Err(e) => Err(Bad::row(
                    self.at,
                    format!("is not JSON: {e}").replace(" at line 1 column", ", byte"),
                )),
            };
        }
    }

    fn bytes_read(&self) -> u64 {
        self.bytes
    }
}

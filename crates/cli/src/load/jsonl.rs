//! Rows of JSON lines: an object in each line, its keys are columns. A key that a line does not have gets the column's default.

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
            return match serde_json::from_slice(line) {
                Ok(Json::Object(object)) => Ok(Some(self.row(object))),
                Ok(other) => {
                    let shown = super::shown(&Value::Text(other.to_string()));
                    let bad = Bad::row(self.at, "is not a JSON object of columns and values");
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

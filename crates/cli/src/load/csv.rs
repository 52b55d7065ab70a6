//! Rows of a CSV file. Every field is text, as it is for `.import` of the sqlite3 shell; the table's columns make numbers of it.

use super::{Bad, Column, Row, Source};
use crate::args::LoadArgs;
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use rusqlite::types::Value;
use std::fs::File;

pub(super) struct Csv {
    reader: Reader<File>,
    columns: Vec<Column>,
    record: ByteRecord,
    null: Option<String>,
}

impl Csv {
    pub(super) fn new(file: File, args: &LoadArgs, is_tsv: bool) -> Result<Csv, Bad> {
        let delimiter = args.delimiter.unwrap_or(if is_tsv { b'\t' } else { b',' });
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(!args.no_header)
            .buffer_capacity(1 << 16)
            .from_reader(file);
        let names: Vec<String> = match args.no_header {
            true => {
                // Looked at and given back: has_headers(false) returns it as the first record too.
                let first = reader.byte_headers().map_err(|e| bad(&e))?;
                (1..=first.len()).map(|i| format!("c{i}")).collect()
            }
            false => {
                let first = reader.headers().map_err(|e| bad(&e))?;
                let bom = |(i, name): (usize, &str)| match i {
                    0 => name.trim_start_matches('\u{feff}').to_owned(),
                    _ => name.to_owned(),
                };
                first.iter().enumerate().map(bom).collect()
            }
        };
        if names.is_empty() {
            return Err(Bad::file("has no header line; it is empty"));
        }
        let column = |name| Column {
            name,
            declared: "TEXT",
        };
        Ok(Csv {
            reader,
            columns: names.into_iter().map(column).collect(),
            record: ByteRecord::new(),
            null: args.null.clone(),
        })
    }
}

fn bad(e: &csv::Error) -> Bad {
    let line = e.position().map(csv::Position::line);
    let problem = match e.kind() {
        ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("has {len} fields, the file's first line has {expected_len}"),
        ErrorKind::Utf8 { .. } => "is not UTF-8; convert the file first".to_owned(),
        ErrorKind::Io(e) => format!("cannot be read: {e}"),
        _ => e.to_string(),
    };
    Bad {
        at: line,
        is_last: matches!(e.kind(), ErrorKind::Io(_)),
        ..Bad::file(problem)
    }
}

impl Source for Csv {
    fn unit(&self) -> &'static str {
        "line"
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn next(&mut self) -> Result<Option<Row>, Bad> {
        if !self
            .reader
            .read_byte_record(&mut self.record)
            .map_err(|e| bad(&e))?
        {
            return Ok(None);
        }
        let at = self.record.position().map_or(0, csv::Position::line);
        let mut values = Vec::with_capacity(self.columns.len());
        for (field, column) in self.record.iter().zip(&self.columns) {
            let text = std::str::from_utf8(field).map_err(|_| {
                let shown = String::from_utf8_lossy(field).into_owned();
                Bad::row(at, "is not UTF-8; convert the file first")
                    .with(&column.name, Some(format!("{shown:?}")))
            })?;
            values.push(Some(match self.null.as_deref() == Some(text) {
                true => Value::Null,
                false => Value::Text(text.to_owned()),
            }));
        }
        Ok(Some(Row { at, values }))
    }

    fn bytes_read(&self) -> u64 {
        self.reader.position().byte()
    }
}

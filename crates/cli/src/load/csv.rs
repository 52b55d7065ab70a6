//! Rows of a CSV file. Every field is text, as it is for `.import` of the sqlite3 shell; the table's columns make numbers of it.

use super::{Bad, Column, Row, Source};
use crate::args::LoadArgs;
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use rusqlite::types::Value;
use std::fs::File;
use std::io::{self, Read};

/// Stands behind the file, in a line of its own: it is a record unless the file ends within quotes. No text has these bytes.
const END: &[u8] = b"\xff\xfe\xfd\xfc";
const BEHIND: &[u8] = b"\n\xff\xfe\xfd\xfc\n";

pub(super) struct Csv {
    reader: Reader<io::Chain<File, &'static [u8]>>,
    /// Bytes of the file, where that is one.
    bytes: u64,
    columns: Vec<Column>,
    record: ByteRecord,
    null: Option<String>,
}

impl Csv {
    pub(super) fn new(file: File, args: &LoadArgs, is_tsv: bool) -> Result<Csv, Bad> {
        let delimiter = args.delimiter.unwrap_or(if is_tsv { b'\t' } else { b',' });
        let bytes = file.metadata().map_or(u64::MAX, |m| match m.is_file() {
            true => m.len(),
            false => u64::MAX,
        });
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(!args.no_header)
            .flexible(true)
            .buffer_capacity(1 << 16)
            .from_reader(file.chain(BEHIND));
        // Looked at and given back: has_headers(false) returns it as the first record too.
        let first = reader.byte_headers().map_err(|e| bad(&e))?;
        // A byte order mark alone has no record at all.
        if first.is_empty() || is_end(first) {
            return Err(Bad::file("has no header line; it is empty"));
        }
        whole(first)?;
        let names: Vec<String> = match args.no_header {
            true => (1..=first.len()).map(|i| format!("c{i}")).collect(),
            false => {
                let first = reader.headers().map_err(|e| bad(&e))?;
                let bom = |(i, name): (usize, &str)| match i {
                    0 => name.trim_start_matches('\u{feff}').to_owned(),
                    _ => name.to_owned(),
                };
                first.iter().enumerate().map(bom).collect()
            }
        };
        let column = |name| Column {
            name,
            declared: "TEXT",
        };
        Ok(Csv {
            reader,
            bytes,
            columns: names.into_iter().map(column).collect(),
            record: ByteRecord::new(),
            null: args.null.clone(),
        })
    }
}

fn bad(e: &csv::Error) -> Bad {
    let line = e.position().map(csv::Position::line);
    let problem = match e.kind() {
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

/// Whether it is the record behind the file.
fn is_end(record: &ByteRecord) -> bool {
    record.len() == 1 && record.get(0).is_some_and(|field| field == END)
}

/// That the file does not end within this record's last field.
fn whole(record: &ByteRecord) -> Result<(), Bad> {
    let last = record.len().checked_sub(1).and_then(|i| record.get(i));
    match last.is_some_and(|field| field.windows(END.len()).any(|w| w == END)) {
        false => Ok(()),
        true => Err(Bad {
            at: record.position().map(csv::Position::line),
            ..Bad::file(
                "begins a field in quotes that the file does not end; a part of the file is missing, or a quote is one too many",
            )
        }),
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
        if is_end(&self.record) {
            return Ok(None);
        }
        whole(&self.record)?;
        let at = self.record.position().map_or(0, csv::Position::line);
        let (fields, columns) = (self.record.len(), self.columns.len());
        if fields != columns {
            return Err(Bad::row(
                at,
                format!("has {fields} fields, the file's first line has {columns}"),
            ));
        }
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
        self.reader.position().byte().min(self.bytes)
    }
}

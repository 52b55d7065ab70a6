//! Rows of a CSV file. Every field is text. The columns of the table convert text to numbers, and
//! [`types`](super::types) finds the types of a new one.

use super::input::{Input, Text, unread};
use super::records::{Fault, Record, Records, Wrong};
use super::spelled::Spelling;
use super::{Bad, Column, Row, Source, wrong_names};
use crate::args::LoadArgs;
use crate::out::counted;
use rusqlite::types::Value;

pub(super) struct Csv {
    records: Records<Text>,
    input: Input,
    columns: Vec<Column>,
    record: Record,
    /// The record is the first one of a file without a header line and has not been returned yet.
    is_ready: bool,
    /// Empty lines before the first record, which are rows of a file with one column.
    leading: std::ops::Range<u64>,
    /// The line of the column names, if it has one.
    header: Option<u64>,
    /// Whether the user named the delimiter.
    is_given: bool,
    null: Option<String>,
}

impl Csv {
    pub(super) fn new(input: Input, text: Text, args: &LoadArgs, is_tsv: bool) -> Result<Csv, Bad> {
        let delimiter = args.delimiter.unwrap_or(if is_tsv { b'\t' } else { b',' });
        let quote = args.quote.byte();
        if matches!(delimiter, b'\n' | b'\r') {
            return Err(Bad::file(
                "cannot be read with line ends as delimiters; choose another character for --delimiter",
            ));
        }
        if quote == Some(delimiter) {
            return Err(Bad::file(
                "cannot be read with quotes as delimiters; give --quote none as well",
            ));
        }
        let mut csv = Csv {
            records: Records::new(text, delimiter, quote),
            input,
            columns: Vec::new(),
            record: Record::default(),
            is_ready: args.no_header,
            leading: 0..0,
            header: None,
            is_given: args.delimiter.is_some(),
            null: args.null.clone(),
        };
        for _ in 0..args.skip {
            csv.records.skip(&mut csv.record);
        }
        let mut first = csv.records.line();
        let mut has_first = csv.records.read(&mut csv.record);
        if let Ok(true) = has_first
            && let Some(named) = named_delimiter(&csv.record, delimiter)
        {
            if !csv.is_given {
                csv.records.set_delimiter(named);
            }
            csv.is_given = true;
            first = csv.records.line();
            has_first = csv.records.read(&mut csv.record);
        }
        if !has_first.map_err(|e| csv.bad(e))? {
            return Err(Bad::file("has no header line; it is empty"));
        }
        csv.header = (!args.no_header).then_some(csv.record.line);
        if let Some(bad) = csv.other_delimiter(delimiter) {
            return Err(bad);
        }
        let names = (1..).zip(csv.record.fields());
        let names: Result<Vec<String>, _> = names
            .map(|(i, (name, _))| match args.no_header {
                true => Ok(format!("c{i}")),
                false => std::str::from_utf8(name).map(str::to_owned),
            })
            .collect();
        let names = names.map_err(|_| Bad {
            at: Some(csv.record.line),
            ..Bad::file("is not UTF-8; name its encoding with --encoding")
        })?;
        let column = |name| Column {
            name,
            declared: "TEXT",
        };
        csv.columns = names.into_iter().map(column).collect();
        if let Some(problem) = wrong_names(&csv.columns) {
            return Err(Bad {
                at: csv.header,
                ..Bad::file(problem)
            });
        }
        if csv.columns.len() == 1 {
            csv.records.expect_one_field();
            if args.no_header {
                csv.leading = first..csv.record.line;
            }
        }
        Ok(csv)
    }

    /// The problem of a header line that has one name, with characters that separate the fields of
    /// other files. Loaded with one column, its rows would be of no use.
    fn other_delimiter(&self, present: u8) -> Option<Bad> {
        let mut fields = self.record.fields();
        let (Some((name, false)), None) = (fields.next(), fields.next()) else {
            return None;
        };
        if self.is_given || self.header.is_none() {
            return None;
        }
        let others = [
            (b';', "';'"),
            (b'\t', "'\\t'"),
            (b'|', "'|'"),
            (b',', "','"),
        ];
        let (_, found) = others.iter().find(|(other, _)| name.contains(other))?;
        let (_, present) = others.iter().find(|(other, _)| *other == present)?;
        let problem = format!(
            "has one column, and {found} in its name; give --delimiter {found} if that separates columns, or --delimiter {present} to load one column (for .import: .separator {found} or {present})"
        );
        Some(Bad {
            at: self.header,
            ..Bad::file(problem)
        })
    }

    fn bad(&self, wrong: Wrong) -> Bad {
        let (fault, line, field, is_one_line) = match wrong {
            Wrong::Read(e) => return unread(&e),
            Wrong::Field {
                fault,
                line,
                field,
                is_one_line,
            } => (fault, line, field, is_one_line),
        };
        let problem = match fault {
            Fault::QuoteWithin => {
                "has a quote in a field that does not begin with one; put the field in quotes and write the quote twice, or give --quote none if quotes are ordinary text"
            }
            Fault::TextBehind => {
                "has text after the closing quote of a field; write a quote within a field twice, or give --quote none if quotes are ordinary text"
            }
            Fault::Unclosed => {
                "begins a quoted field that has no closing quote; a part of the file is missing, or there is a quote too many; give --quote none if quotes are ordinary text"
            }
        };
        let advice = match self.header {
            None if !self.is_given => "; or name another delimiter with --delimiter",
            _ => "",
        };
        let problem = format!("{problem}{advice}");
        Bad {
            column: self.columns.get(field).map(|column| column.name.clone()),
            // If a field spans several lines, the start of the next record is unknown.
            is_last: !is_one_line,
            ..Bad::row(line, problem)
        }
    }
}

/// The delimiter that a first line `sep=;` names, as spreadsheets read it.
fn named_delimiter(first: &Record, delimiter: u8) -> Option<u8> {
    let mut fields = first.fields();
    match (fields.next(), fields.next(), fields.next()) {
        (Some((b"sep=", false)), Some((b"", false)), None) => Some(delimiter),
        (Some(([b's', b'e', b'p', b'=', named], false)), None, _) => Some(*named),
        _ => None,
    }
}

impl Source for Csv {
    fn unit(&self) -> &'static str {
        "line"
    }

    fn header(&self) -> Option<u64> {
        self.header
    }

    fn spelling(&self) -> Spelling {
        Spelling::Literal
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn next(&mut self) -> Result<Option<Row>, Bad> {
        if let Some(at) = self.leading.next() {
            let value = match self.null.as_deref() {
                Some("") => Value::Null,
                _ => Value::Text(String::new()),
            };
            let values = vec![Some(value)];
            return Ok(Some(Row { at, values }));
        }
        if !std::mem::take(&mut self.is_ready) {
            let read = self.records.read(&mut self.record);
            if !read.map_err(|e| self.bad(e))? {
                return Ok(None);
            }
        }
        let at = self.record.line;
        let (fields, columns) = (self.record.len(), self.columns.len());
        if fields != columns {
            return Err(Bad::row(
                at,
                format!(
                    "has {}, but the first line of the file has {columns}",
                    counted(fields as u64, "field", "fields")
                ),
            ));
        }
        let mut values = Vec::with_capacity(self.columns.len());
        for ((field, is_quoted), column) in self.record.fields().zip(&self.columns) {
            let text = std::str::from_utf8(field).map_err(|_| {
                let shown = String::from_utf8_lossy(field).into_owned();
                Bad::row(at, "is not UTF-8; name its encoding with --encoding")
                    .with(&column.name, Some(format!("{shown:?}")))
            })?;
            let is_null = !is_quoted && self.null.as_deref() == Some(text);
            values.push(Some(match is_null {
                true => Value::Null,
                false => Value::Text(text.to_owned()),
            }));
        }
        Ok(Some(Row { at, values }))
    }

    fn bytes_read(&self) -> u64 {
        self.input.bytes_read()
    }
}

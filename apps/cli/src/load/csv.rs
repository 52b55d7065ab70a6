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
    /// Another delimiter, as a user gives it, if the delimiter possibly does not fit the file.
    fitting: Option<&'static str>,
    null: Option<String>,
}

impl Csv {
    pub(super) fn new(input: Input, text: Text, args: &LoadArgs, is_tsv: bool) -> Result<Csv, Bad> {
        let usual = if is_tsv { b'\t' } else { b',' };
        let delimiter = args.delimiter.unwrap_or(usual);
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
            fitting: None,
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
        csv.fitting = csv.other_delimiter(usual, delimiter)?;
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

    /// Another delimiter that is in a header line of one name. Loaded with one column, the rows of
    /// such a file would be of no use. It is an error if the user named no delimiter, or if each line
    /// that is in memory says that the named one is wrong: the other one separates as many fields as
    /// in the header line. The usual one then still loads one column, and so does a control
    /// character.
    fn other_delimiter(&mut self, usual: u8, given: u8) -> Result<Option<&'static str>, Bad> {
        let others = [
            (b';', "';'"),
            (b'\t', "'\\t'"),
            (b'|', "'|'"),
            (b',', "','"),
        ];
        let mut fields = self.record.fields();
        let (Some((name, false)), None) = (fields.next(), fields.next()) else {
            return Ok(None);
        };
        let found = others.iter().find(|(other, _)| name.contains(other));
        let is_meant = self.is_given && given.is_ascii_control() && given != b'\t';
        let Some((found, shown)) = found.filter(|_| !is_meant && self.header.is_some()) else {
            return Ok(None);
        };
        let count = |line: &[u8], of: u8| line.iter().filter(|b| **b == of).count();
        let in_name = count(name, *found);
        let ahead = self.records.ahead();
        let is_end = |b: &u8| matches!(b, b'\n' | b'\r');
        let lines = ahead.split(is_end).filter(|line| !line.is_empty());
        let mut lines: Vec<&[u8]> = lines.collect();
        // The last one can be a part of a line.
        if lines.len() > 1 && !ahead.last().is_some_and(is_end) {
            lines.pop();
        }
        let is_alike = |line: &&[u8]| {
            count(line, *found) == in_name && count(line, given) + count(line, b'"') == 0
        };
        let are_alike = !lines.is_empty() && lines.iter().all(is_alike);
        let problem = match (self.is_given, are_alike && given != usual) {
            (true, false) => return Ok(Some(shown)),
            (true, true) => format!(
                "has one column, and {shown} in its name as in each line after it; give --delimiter {shown} (for .import: .separator {shown})"
            ),
            (false, _) => {
                let present = others.iter().find(|(other, _)| *other == given);
                let present = present.map_or("','", |(_, present)| present);
                format!(
                    "has one column, and {shown} in its name; give --delimiter {shown} if that separates columns, or --delimiter {present} to load one column (for .import: .separator {shown} or {present})"
                )
            }
        };
        Err(Bad {
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
        let is_first = self.columns.is_empty();
        let advice = match (self.header, self.fitting) {
            (_, Some(fitting)) => format!("; or give --delimiter {fitting}"),
            (None, None) if is_first || !self.is_given => {
                "; or name another delimiter with --delimiter".to_owned()
            }
            _ => String::new(),
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

    fn doubt(&self) -> Option<String> {
        self.fitting.map(|fitting| {
            format!(
                "has one column, and {fitting} in its name; give --delimiter {fitting} if that separates columns (for .import: .separator {fitting})"
            )
        })
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

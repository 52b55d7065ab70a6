//! Reads records of a CSV file strictly.
//!
//! A field is quoted if it begins with a quote. It then ends after its closing quote, and two
//! quotes within it stand for one. Other files follow other rules or are damaged: with lenient
//! reading, a stray quote would swallow the lines up to the next one. Records end with LF, CR or CR
//! LF. Empty lines are skipped unless records have one field, because other programs write NULL or
//! an empty text in this way. Lines within quotes are counted too.

use std::io::{self, BufRead};

/// The fields of a record, one after another.
#[derive(Debug, Default)]
pub(super) struct Record {
    bytes: Vec<u8>,
    /// The end offset of each field, and whether it was quoted.
    ends: Vec<(usize, bool)>,
    /// The line in which it begins, from 1.
    pub(super) line: u64,
}

impl Record {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The fields, and whether they were quoted.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let mut from = 0;
        self.ends.iter().map(move |&(to, is_quoted)| {
            let field = self.bytes.get(from..to).unwrap_or_default();
            from = to;
            (field, is_quoted)
        })
    }

    fn end_field(&mut self, is_quoted: bool) {
        self.ends.push((self.bytes.len(), is_quoted));
    }

    fn begin(&mut self, line: u64) {
        self.bytes.clear();
        self.ends.clear();
        self.line = line;
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A quote in a field that does not begin with one.
    QuoteWithin,
    /// A quoted field continues after its closing quote.
    TextBehind,
    /// The file ends before the closing quote.
    Unclosed,
}

/// Why a record cannot be read.
#[derive(Debug)]
pub(super) enum Wrong {
    Read(io::Error),
    Field {
        fault: Fault,
        /// The line of the quote.
        line: u64,
        /// The index of the field in its record, from 0.
        field: usize,
        /// Whether the record has only one line, so reading can continue with the next line.
        is_one_line: bool,
    },
}

/// The state of the reader within a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the first byte of a record.
    Record,
    /// Before the first byte of a field that is not the record's first.
    Field,
    Plain,
    Quoted,
    /// After a quote within a quoted field: the quote closes the field or is the first of two.
    Closing,
    /// In the rest of a bad record, up to the end of the line.
    Rest,
}

/// Reads records.
pub(super) struct Records<R> {
    input: R,
    delimiter: u8,
    quote: Option<u8>,
    /// The current line, from 1.
    line: u64,
    /// The last byte was a CR. An LF after it belongs to the same line end.
    is_behind_cr: bool,
    /// Records have one field, so an empty line is a record with an empty field.
    has_one_field: bool,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R, delimiter: u8, quote: Option<u8>) -> Records<R> {
        Records {
            input,
            delimiter,
            quote,
            line: 1,
            is_behind_cr: false,
            has_one_field: false,
        }
    }

    /// Sets what separates the fields of further records.
    pub(super) fn set_delimiter(&mut self, delimiter: u8) {
        self.delimiter = delimiter;
    }

    /// The line that the next record begins at, or an empty line before it.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// What is in memory behind the last record. An error of reading comes with the next one.
    pub(super) fn ahead(&mut self) -> &[u8] {
        self.input.fill_buf().unwrap_or_default()
    }

    /// Sets that all further records have one field.
    pub(super) fn expect_one_field(&mut self) {
        self.has_one_field = true;
    }

    /// Passes over a record, an empty line, or one that is no record. An error of reading comes
    /// again with the next record.
    pub(super) fn skip(&mut self, record: &mut Record) {
        let before = std::mem::replace(&mut self.has_one_field, true);
        let _ = self.read(record);
        self.has_one_field = before;
    }

    /// Reads the next record. Returns false at the end of the file. After a fault in one line the
    /// next call continues after that line.
    pub(super) fn read(&mut self, record: &mut Record) -> Result<bool, Wrong> {
        record.begin(self.line);
        let mut at = At::Record;
        // The line of the field's opening quote, and the fault of the record.
        let mut opened = self.line;
        let mut wrong: Option<(Fault, u64, usize)> = None;
        loop {
            let buffer = self.input.fill_buf().map_err(Wrong::Read)?;
            if buffer.is_empty() {
                break;
            }
            let mut used = 0;
            let mut is_whole = false;
            while let Some(&byte) = buffer.get(used) {
                let is_end = byte == b'\n' || byte == b'\r';
                if std::mem::take(&mut self.is_behind_cr) && byte == b'\n' {
                    // The CR already counted the line.
                    if at == At::Quoted {
                        record.bytes.push(byte);
                    }
                    used += 1;
                    continue;
                }
                match at {
                    At::Record if is_end && !self.has_one_field => {
                        (self.line, self.is_behind_cr) = (self.line + 1, byte == b'\r');
                        record.line = self.line;
                        used += 1;
                    }
                    At::Record | At::Field if Some(byte) == self.quote => {
                        (at, opened) = (At::Quoted, self.line);
                        used += 1;
                    }
                    At::Record | At::Field => at = At::Plain,
                    At::Plain => {
                        let rest = buffer.get(used..).unwrap_or_default();
                        let stops = |b: &u8| {
                            *b == self.delimiter
                                || *b == b'\n'
                                || *b == b'\r'
                                || Some(*b) == self.quote
                        };
                        let len = rest.iter().position(stops).unwrap_or(rest.len());
                        let (plain, behind) = rest.split_at(len);
                        record.bytes.extend_from_slice(plain);
                        used += len;
                        match behind.first() {
                            None => {}
                            Some(b) if *b == self.delimiter => {
                                record.end_field(false);
                                at = At::Field;
                                used += 1;
                            }
                            Some(b'\n' | b'\r') => is_whole = true,
                            Some(_) => {
                                wrong = Some((Fault::QuoteWithin, self.line, record.len()));
                                at = At::Rest;
                            }
                        }
                    }
                    At::Quoted => {
                        let rest = buffer.get(used..).unwrap_or_default();
                        let stops = |b: &u8| *b == b'\n' || *b == b'\r' || Some(*b) == self.quote;
                        let len = rest.iter().position(stops).unwrap_or(rest.len());
                        let (text, behind) = rest.split_at(len);
                        record.bytes.extend_from_slice(text);
                        used += len;
                        match behind.first() {
                            None => {}
                            Some(b) if Some(*b) == self.quote => {
                                at = At::Closing;
                                used += 1;
                            }
                            Some(b) => {
                                (self.line, self.is_behind_cr) = (self.line + 1, *b == b'\r');
                                record.bytes.push(*b);
                                used += 1;
                            }
                        }
                    }
                    At::Closing if Some(byte) == self.quote => {
                        record.bytes.push(byte);
                        at = At::Quoted;
                        used += 1;
                    }
                    At::Closing if byte == self.delimiter => {
                        record.end_field(true);
                        at = At::Field;
                        used += 1;
                    }
                    At::Closing if !is_end => {
                        wrong = Some((Fault::TextBehind, opened, record.len()));
                        at = At::Rest;
                    }
                    At::Closing => is_whole = true,
                    At::Rest if is_end => is_whole = true,
                    At::Rest => used += 1,
                }
                if is_whole {
                    break;
                }
            }
            if is_whole {
                let byte = buffer.get(used).copied();
                (self.line, self.is_behind_cr) = (self.line + 1, byte == Some(b'\r'));
                used += 1;
            }
            self.input.consume(used);
            if is_whole {
                break;
            }
        }
        if at == At::Quoted {
            wrong = Some((Fault::Unclosed, opened, record.len()));
        }
        if let Some((fault, line, field)) = wrong {
            return Err(Wrong::Field {
                fault,
                line,
                field,
                is_one_line: fault != Fault::Unclosed && self.line <= record.line + 1,
            });
        }
        if at == At::Record {
            return Ok(false);
        }
        record.end_field(at == At::Closing);
        Ok(true)
    }
}

//! JSON lines: an object in each line.

use super::Columns;
use crate::load::input::{Input, Text, unread};
use crate::load::{Bad, Column, Row, Source};
use std::io::BufRead;

pub(in crate::load) struct Lines {
    text: Text,
    input: Input,
    columns: Columns,
    line: Vec<u8>,
    at: u64,
}

impl Lines {
    pub(in crate::load) fn new(input: Input, text: Text) -> Lines {
        Lines {
            text,
            input,
            columns: Columns::default(),
            line: Vec::new(),
            at: 0,
        }
    }
}

impl Source for Lines {
    fn unit(&self) -> &'static str {
        "line"
    }

    fn columns(&self) -> &[Column] {
        &self.columns.columns
    }

    fn next(&mut self) -> Result<Option<Row>, Bad> {
        loop {
            self.line.clear();
            let read = self.text.read_until(b'\n', &mut self.line);
            if read.map_err(|e| unread(&e))? == 0 {
                return Ok(None);
            }
            self.at += 1;
            if !self.line.iter().all(u8::is_ascii_whitespace) {
                return self.columns.row(self.at, &self.line).map(Some);
            }
        }
    }

    fn bytes_read(&self) -> u64 {
        self.input.bytes_read()
    }
}

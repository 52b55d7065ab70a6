//! JSON lines: an object in each line.

use super::{Columns, is_cut};
use crate::load::input::{Input, Text, unread};
use crate::load::spelled::Spelling;
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

    /// The first line of an array, or of an object over several lines, is no line of its own. A
    /// line that ends with the file is cut off if an object does not end in it.
    fn explained(&self, bad: Bad) -> Bad {
        let text = self.line.trim_ascii_start();
        let is_array = text.first() == Some(&b'[');
        let is_end = !self.line.ends_with(b"\n");
        if is_end && is_cut(text) {
            return Bad {
                is_damaged: true,
                ..Bad::row(
                    self.at,
                    "is cut off: the file ends within this line; get a whole copy",
                )
            };
        }
        match self.columns.columns.is_empty() && (is_array || is_cut(text)) {
            true => Bad {
                problem: format!(
                    "{}; give --format json for values that have several lines, or are in an array",
                    bad.problem
                ),
                ..bad
            },
            false => bad,
        }
    }
}

impl Source for Lines {
    fn unit(&self) -> &'static str {
        "line"
    }

    fn spelling(&self) -> Spelling {
        Spelling::Json
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
                let row = self.columns.row(self.at, &self.line);
                return row.map(Some).map_err(|bad| self.explained(bad));
            }
        }
    }

    fn bytes_read(&self) -> u64 {
        self.input.bytes_read()
    }
}

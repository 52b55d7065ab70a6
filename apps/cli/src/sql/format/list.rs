//! A line for each row, with a separator between values: the default of the sqlite3 shell.

use super::value_text::text;
use super::{Column, Sink, Style};
use crate::shown;
use rusqlite::types::ValueRef;
use std::io::{self, Write};

pub(super) struct List {
    has_header: bool,
    null: String,
    between: String,
    after: String,
}

impl List {
    pub(super) fn new(style: &Style) -> List {
        let (between, after) = style.separators.clone();
        List {
            has_header: style.header.unwrap_or(false),
            null: style.null.clone(),
            between: between.unwrap_or_else(|| "|".to_owned()),
            after: after.unwrap_or_else(|| "\n".to_owned()),
        }
    }

    fn line(&self, out: &mut dyn Write, values: impl Iterator<Item = String>) -> io::Result<()> {
        for (value, n) in values.zip(0..) {
            if n > 0 {
                write!(out, "{}", self.between)?;
            }
            write!(out, "{}", shown::lines(&value))?;
        }
        write!(out, "{}", self.after)
    }
}

impl Sink for List {
    fn begin(&mut self, out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
        match self.has_header {
            true => self.line(out, columns.iter().map(|c| c.name.clone())),
            false => Ok(()),
        }
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        self.line(out, values.iter().map(|v| text(*v, &self.null)))
    }

    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

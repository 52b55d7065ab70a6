//! A line for each value, as `name = value`, with an empty line between two rows.

use super::value_text::text;
use super::{Column, Sink, Style};
use crate::shown;
use rusqlite::types::ValueRef;
use std::io::{self, Write};

pub(super) struct Lines {
    null: String,
    names: Vec<String>,
    /// Whether a row was printed since the format was chosen.
    has_rows: bool,
}

impl Lines {
    pub(super) fn new(style: &Style) -> Lines {
        Lines {
            null: style.null.clone(),
            names: Vec::new(),
            has_rows: false,
        }
    }
}

impl Sink for Lines {
    fn begin(&mut self, _out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
        self.names = columns.iter().map(|c| shown::shown(&c.name)).collect();
        Ok(())
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        if std::mem::replace(&mut self.has_rows, true) {
            writeln!(out)?;
        }
        let width = self.names.iter().map(|name| name.chars().count()).max();
        for (name, value) in self.names.iter().zip(values) {
            let value = shown::lines(&text(*value, &self.null));
            writeln!(out, "{name:>width$} = {value}", width = width.unwrap_or(0))?;
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

//! A table in Markdown, written row by row: its columns are not aligned.

use super::value_text::text;
use super::{Column, Sink, Style};
use crate::shown;
use rusqlite::types::ValueRef;
use std::io::{self, Write};

pub(super) struct Markdown {
    null: String,
    columns: Vec<String>,
    /// How numbers are aligned is known with the first row.
    is_ruled: bool,
}

/// A text as a cell: a bar would end it, and a line end the row.
fn cell(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('|', "\\|");
    let lines: Vec<String> = text.lines().map(shown::shown).collect();
    lines.join("<br>")
}

fn row(out: &mut dyn Write, cells: impl Iterator<Item = String>) -> io::Result<()> {
    write!(out, "|")?;
    for cell in cells {
        write!(out, " {cell} |")?;
    }
    writeln!(out)
}

impl Markdown {
    pub(super) fn new(style: &Style) -> Markdown {
        Markdown {
            null: style.null.clone(),
            columns: Vec::new(),
            is_ruled: false,
        }
    }

    fn rule(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        if std::mem::replace(&mut self.is_ruled, true) {
            return Ok(());
        }
        row(out, self.columns.iter().cloned())?;
        let is_number = |i| {
            let value = values.get(i);
            matches!(value, Some(ValueRef::Integer(_) | ValueRef::Real(_)))
        };
        let rule = |i| if is_number(i) { "---:" } else { "---" };
        row(out, (0..self.columns.len()).map(|i| rule(i).to_owned()))
    }
}

impl Sink for Markdown {
    fn begin(&mut self, _out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
        self.columns = columns.iter().map(|c| cell(&c.name)).collect();
        self.is_ruled = false;
        Ok(())
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        self.rule(out, values)?;
        let null = &self.null;
        row(out, values.iter().map(|value| cell(&text(*value, null))))
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.rule(out, &[])
    }
}

//! Tables with borders.

use super::value_text::text;
use super::{Column, Sink, Style};
use crate::shown;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use rusqlite::types::ValueRef;
use std::io::{self, Write};

/// Tables are laid out in groups of this many rows, so that memory is bounded.
const TABLE_ROWS: usize = 10_000;

/// Tables with borders.
pub(super) struct Tables {
    has_header: bool,
    null: String,
    columns: Vec<String>,
    table: Option<Table>,
}

impl Tables {
    pub(super) fn new(style: &Style) -> Tables {
        Tables {
            has_header: style.header.unwrap_or(true),
            null: style.null.clone(),
            columns: Vec::new(),
            table: None,
        }
    }

    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.table.take() {
            Some(table) => writeln!(out, "{table}"),
            None => Ok(()),
        }
    }

    fn fresh(&self) -> Table {
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Disabled);
        if self.has_header {
            table.set_header(self.columns.iter().map(|c| shown::lines(c)));
        }
        table
    }
}

impl Sink for Tables {
    fn begin(&mut self, _out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
        self.columns = columns.iter().map(|c| c.name.clone()).collect();
        self.table = Some(self.fresh());
        Ok(())
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        if self
            .table
            .as_ref()
            .is_some_and(|t| t.row_count() >= TABLE_ROWS)
        {
            self.flush(out)?;
        }
        let mut table = self.table.take().unwrap_or_else(|| self.fresh());
        table.add_row(values.iter().map(|v| {
            let cell = Cell::new(shown::lines(&text(*v, &self.null)));
            match v {
                ValueRef::Integer(_) | ValueRef::Real(_) => {
                    cell.set_alignment(CellAlignment::Right)
                }
                _ => cell,
            }
        }));
        self.table = Some(table);
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.flush(out)
    }
}

//! Rows as SQL: a line of literals for each, or a statement that inserts it.

use super::{Column, Sink, Style};
use crate::sql::literal::literal;
use densite_sqlite::quoted;
use rusqlite::types::ValueRef;
use std::io::{self, Write};

pub(super) struct Literals {
    has_header: bool,
    /// The table that statements insert into; `None` for literals alone.
    table: Option<String>,
    /// The names of the columns, as SQL.
    names: String,
}

impl Literals {
    /// A line of literals for each row.
    pub(super) fn alone(style: &Style) -> Literals {
        Literals {
            has_header: style.header.unwrap_or(false),
            table: None,
            names: String::new(),
        }
    }

    /// A statement for each row, with the names of the columns if headers are on.
    pub(super) fn inserted(style: &Style) -> Literals {
        let table = style.table.as_deref().unwrap_or("table");
        Literals {
            table: Some(quoted(table)),
            ..Literals::alone(style)
        }
    }
}

impl Sink for Literals {
    fn begin(&mut self, out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
        let name = |column: &Column| match self.table {
            Some(_) => quoted(&column.name),
            None => literal(ValueRef::Text(column.name.as_bytes())),
        };
        let names: Vec<String> = columns.iter().map(name).collect();
        self.names = names.join(",");
        match self.has_header && self.table.is_none() {
            true => writeln!(out, "{}", self.names),
            false => Ok(()),
        }
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        let values: Vec<String> = values.iter().map(|value| literal(*value)).collect();
        let values = values.join(",");
        match &self.table {
            None => writeln!(out, "{values}"),
            Some(table) if self.has_header => {
                writeln!(out, "INSERT INTO {table}({}) VALUES({values});", self.names)
            }
            Some(table) => writeln!(out, "INSERT INTO {table} VALUES({values});"),
        }
    }

    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

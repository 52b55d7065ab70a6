//! JSON and JSON lines.

use super::value_text::{json_value, keys, keys_plain};
use super::{Column, Sink};
use rusqlite::types::ValueRef;
use serde_json::json;
use std::io::{self, Write};

/// An array of objects for each result.
#[derive(Default)]
pub(super) struct Json {
    keys: Vec<String>,
    rows: u64,
}

impl Sink for Json {
    fn begin(&mut self, out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
        self.keys = keys(columns);
        self.rows = 0;
        write!(out, "[")
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        write!(out, "{}", if self.rows == 0 { "{" } else { ",\n{" })?;
        fields(out, &self.keys, values)?;
        self.rows += 1;
        write!(out, "}}")
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "]")
    }
}

/// The fields of an object.
fn fields(out: &mut dyn Write, keys: &[String], values: &[ValueRef<'_>]) -> io::Result<()> {
    for (i, (key, value)) in keys.iter().zip(values).enumerate() {
        let comma = if i == 0 { "" } else { "," };
        write!(out, "{comma}{key}:{}", json_value(*value))?;
    }
    Ok(())
}

/// An object on a line of its own for each row.
#[derive(Default)]
pub(super) struct Lines {
    keys: Vec<String>,
}

impl Sink for Lines {
    fn begin(&mut self, _out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
        self.keys = keys(columns);
        Ok(())
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        write!(out, "{{")?;
        fields(out, &self.keys, values)?;
        writeln!(out, "}}")
    }

    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// The results in the single object of `--json`: `{"columns": [...], "rows": [{...}]}` for each
/// result.
#[derive(Default)]
pub(crate) struct Wrapped {
    results: u64,
    rows: Json,
}

impl Sink for Wrapped {
    fn begin(&mut self, out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
        let comma = if self.results == 0 { "" } else { "," };
        self.results += 1;
        write!(
            out,
            "{comma}\n{{\"columns\":{},\"rows\":",
            json!(keys_plain(columns))
        )?;
        self.rows.begin(out, columns)
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        self.rows.row(out, values)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "]}}")
    }
}

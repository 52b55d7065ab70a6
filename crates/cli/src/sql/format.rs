//! Prints results as tables, CSV or JSON.
//!
//! | value | table | CSV | JSON |
//! |---|---|---|---|
//! | NULL | nothing | nothing | `null` |
//! | integer, real | digits | digits | number; infinite reals are `"Infinity"`, `"-Infinity"` |
//! | text | control characters as `^X` | quoted where needed; empty text is `""` | string |
//! | blob | `X'00FF'` | `X'00FF'` | `{"hex": "00FF"}` |

use crate::shown;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Tables are laid out in groups of this many rows, so that memory is bounded.
const TABLE_ROWS: usize = 10_000;

/// Receives the results of statements, one after the other.
pub(crate) trait Sink {
    /// Begins a result with these columns.
    fn begin(&mut self, out: &mut dyn Write, columns: &[String]) -> io::Result<()>;
    /// Adds a row of the result.
    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()>;
    /// Ends the result, after its last row or at an error.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// Tables with borders.
#[derive(Default)]
pub(crate) struct Tables {
    columns: Vec<String>,
    table: Option<Table>,
}

impl Tables {
    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.table.take() {
            Some(table) => writeln!(out, "{table}"),
            None => Ok(()),
        }
    }

    fn fresh(columns: &[String]) -> Table {
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(columns.iter().map(|c| shown::lines(c)));
        table
    }
}

impl Sink for Tables {
    fn begin(&mut self, _out: &mut dyn Write, columns: &[String]) -> io::Result<()> {
        self.columns = columns.to_vec();
        self.table = Some(Tables::fresh(columns));
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
        let table = self
            .table
            .get_or_insert_with(|| Tables::fresh(&self.columns));
        table.add_row(values.iter().map(|v| {
            let cell = Cell::new(shown::lines(&plain(*v)));
            match v {
                ValueRef::Integer(_) | ValueRef::Real(_) => {
                    cell.set_alignment(CellAlignment::Right)
                }
                _ => cell,
            }
        }));
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.flush(out)
    }
}

/// Comma-separated values with a header line for each result.
#[derive(Default)]
pub(crate) struct Csv;

impl Csv {
    /// NULL and the empty text must differ, so this function quotes the fields, and the crate does
    /// not.
    fn record<'a>(
        out: &mut dyn Write,
        fields: impl Iterator<Item = (bool, String)> + 'a,
    ) -> io::Result<()> {
        let mut writer = csv::WriterBuilder::new()
            .quote_style(csv::QuoteStyle::Never)
            .from_writer(out);
        for (null, text) in fields {
            let quote = !null && (text.is_empty() || text.contains([',', '"', '\n', '\r']));
            let field = if quote {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text
            };
            writer.write_field(field)?;
        }
        writer.write_record(None::<&[u8]>)?;
        writer.flush()
    }
}

impl Sink for Csv {
    fn begin(&mut self, out: &mut dyn Write, columns: &[String]) -> io::Result<()> {
        Csv::record(out, columns.iter().map(|c| (false, c.clone())))
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        Csv::record(
            out,
            values
                .iter()
                .map(|v| (matches!(v, ValueRef::Null), plain(*v))),
        )
    }

    fn end(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// An array of objects for each result.
#[derive(Default)]
pub(crate) struct Json {
    keys: Vec<String>,
    rows: u64,
}

impl Sink for Json {
    fn begin(&mut self, out: &mut dyn Write, columns: &[String]) -> io::Result<()> {
        self.keys = keys(columns);
        self.rows = 0;
        write!(out, "[")
    }

    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()> {
        write!(out, "{}", if self.rows == 0 { "{" } else { ",\n{" })?;
        for (i, (key, value)) in self.keys.iter().zip(values).enumerate() {
            write!(
                out,
                "{}{key}:{}",
                if i == 0 { "" } else { "," },
                json_value(*value)
            )?;
        }
        self.rows += 1;
        write!(out, "}}")
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "]")
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
    fn begin(&mut self, out: &mut dyn Write, columns: &[String]) -> io::Result<()> {
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

/// Makes column names unique: the second "a" becomes "a:1", as SQLite does in views.
fn keys_plain(columns: &[String]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::with_capacity(columns.len());
    let mut used = std::collections::HashSet::new();
    for name in columns {
        let mut key = name.clone();
        let mut n = 1;
        while !used.insert(key.clone()) {
            key = format!("{name}:{n}");
            n += 1;
        }
        keys.push(key);
    }
    keys
}

/// The same, as JSON strings.
fn keys(columns: &[String]) -> Vec<String> {
    keys_plain(columns)
        .into_iter()
        .map(|k| Value::String(k).to_string())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    let mut s = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        let _ = write!(s, "{b:02X}");
    }
    s
}

fn real(x: f64) -> String {
    // Debug keeps ".0" on whole numbers, so reals stay recognisable.
    if x.is_finite() {
        format!("{x:?}")
    } else if x > 0.0 {
        "Inf".into()
    } else {
        "-Inf".into()
    }
}

/// Formats a value for tables and CSV.
fn plain(v: ValueRef<'_>) -> String {
    match v {
        ValueRef::Null => String::new(),
        ValueRef::Integer(n) => n.to_string(),
        ValueRef::Real(x) => real(x),
        ValueRef::Text(t) => String::from_utf8_lossy(t).into_owned(),
        ValueRef::Blob(b) => format!("X'{}'", hex(b)),
    }
}

fn json_value(v: ValueRef<'_>) -> Value {
    match v {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(n) => n.into(),
        ValueRef::Real(x) if x.is_finite() => x.into(),
        ValueRef::Real(x) => Value::String(if x > 0.0 {
            "Infinity".into()
        } else {
            "-Infinity".into()
        }),
        ValueRef::Text(t) => Value::String(String::from_utf8_lossy(t).into_owned()),
        ValueRef::Blob(b) => json!({ "hex": hex(b) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(sink: &mut dyn Sink) -> String {
        let mut out = Vec::new();
        sink.begin(&mut out, &["a".into(), "b".into(), "a".into()])
            .expect("memory");
        for row in [
            [ValueRef::Null, ValueRef::Integer(-1), ValueRef::Real(2.0)],
            [
                ValueRef::Text(b""),
                ValueRef::Text(b"x,\"y\""),
                ValueRef::Blob(&[0, 255]),
            ],
            [
                ValueRef::Real(f64::INFINITY),
                ValueRef::Text(b"\x1b[2J"),
                ValueRef::Text(b"\xff"),
            ],
        ] {
            sink.row(&mut out, &row).expect("memory");
        }
        sink.end(&mut out).expect("memory");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn csv_tells_null_from_empty() {
        assert_eq!(
            print(&mut Csv),
            "a,b,a\n,-1,2.0\n\"\",\"x,\"\"y\"\"\",X'00FF'\nInf,\x1b[2J,\u{fffd}\n"
        );
    }

    #[test]
    fn json_is_json() {
        let rows: Value = serde_json::from_str(&print(&mut Json::default())).expect("JSON");
        assert_eq!(
            rows,
            json!([
                { "a": null, "b": -1, "a:1": 2.0 },
                { "a": "", "b": "x,\"y\"", "a:1": { "hex": "00FF" } },
                { "a": "Infinity", "b": "\u{1b}[2J", "a:1": "\u{fffd}" },
            ])
        );
        let whole: Value = serde_json::from_str(&print(&mut Wrapped::default())).expect("JSON");
        assert_eq!(whole["columns"], json!(["a", "b", "a:1"]));
        assert_eq!(whole["rows"], rows);
    }

    #[test]
    fn tables_show_no_control_characters() {
        let text = print(&mut Tables::default());
        assert!(text.contains("^[[2J") && !text.contains('\x1b'), "{text}");
        assert!(text.contains("X'00FF'"));
    }
}

//! Prints results in a format.
//!
//! | value | table, markdown, line, list | CSV | JSON, JSON lines |
//! |---|---|---|---|
//! | NULL | nothing, or the text of [`Style`] | the same | `null` |
//! | integer, real | digits | digits | number; infinite reals are `"Infinity"`, `"-Infinity"` |
//! | text | control characters as `^X` | quoted where needed; empty text is `""` | string |
//! | blob | `X'00FF'` | `X'00FF'` | `{"hex": "00FF"}` |
//!
//! Tab-separated values are as CSV. Formats of SQL have [literals](crate::sql::literal). Parquet and
//! Arrow have columns of one type each: [`columnar`].

mod columnar;
mod csv;
mod json;
mod line;
mod list;
mod literals;
mod markdown;
mod table;
mod value_text;

pub(crate) use json::Wrapped;

use crate::args::Format;
use rusqlite::types::ValueRef;
use std::io::{self, Write};

/// A column of a result.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The type that its table declares.
    pub(crate) declared: Option<String>,
}

/// How formats for readers print what they have in common.
#[derive(Debug, Clone, Default)]
pub(crate) struct Style {
    /// Whether results have the column names: tables and CSV have them if it was not set, and lists
    /// and SQL have not.
    pub(crate) header: Option<bool>,
    /// What stands for NULL.
    pub(crate) null: String,
    /// What stands between values and after rows, if it was set: in lists, and between values in
    /// CSV.
    pub(crate) separators: (Option<String>, Option<String>),
    /// Whether each value of a file of columns is text, as in CSV.
    pub(crate) as_text: bool,
    /// The table that INSERT statements name.
    pub(crate) table: Option<String>,
}

/// Receives the results of statements, one after the other.
pub(crate) trait Sink {
    /// Begins a result with these columns.
    fn begin(&mut self, out: &mut dyn Write, columns: &[Column]) -> io::Result<()>;
    /// Adds a row of the result.
    fn row(&mut self, out: &mut dyn Write, values: &[ValueRef<'_>]) -> io::Result<()>;
    /// Ends the result after its last row.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
    /// Ends the result at an error, after some of its rows.
    fn stop(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.end(out)
    }
}

/// The sink of a format.
pub(crate) fn sink(format: Format, style: &Style) -> Box<dyn Sink> {
    match format {
        Format::Table => Box::new(table::Tables::new(style)),
        Format::Csv => Box::new(csv::Csv::new(style, b',')),
        Format::Tsv => Box::new(csv::Csv::new(style, b'\t')),
        Format::Quote => Box::new(literals::Literals::alone(style)),
        Format::Insert => Box::new(literals::Literals::inserted(style)),
        Format::Json => Box::new(json::Json::default()),
        Format::Jsonl => Box::new(json::Lines::default()),
        Format::Markdown => Box::new(markdown::Markdown::new(style)),
        Format::Line => Box::new(line::Lines::new(style)),
        Format::List => Box::new(list::List::new(style)),
        Format::Parquet => Box::new(columnar::Columnar::new(style, columnar::parquet)),
        Format::Arrow => Box::new(columnar::Columnar::new(style, columnar::arrow)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn print(format: Format) -> String {
        print_to(sink(format, &Style::default()).as_mut())
    }

    fn print_to(sink: &mut dyn Sink) -> String {
        let mut out = Vec::new();
        let column = |name: &str| Column {
            name: name.to_owned(),
            declared: None,
        };
        sink.begin(&mut out, &["a", "b", "a"].map(column))
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
            print(Format::Csv),
            "a,b,a\n,-1,2.0\n\"\",\"x,\"\"y\"\"\",X'00FF'\nInf,\x1b[2J,\u{fffd}\n"
        );
    }

    #[test]
    fn json_is_json() {
        let rows: Value = serde_json::from_str(&print(Format::Json)).expect("JSON");
        assert_eq!(
            rows,
            json!([
                { "a": null, "b": -1, "a:1": 2.0 },
                { "a": "", "b": "x,\"y\"", "a:1": { "hex": "00FF" } },
                { "a": "Infinity", "b": "\u{1b}[2J", "a:1": "\u{fffd}" },
            ])
        );
        let whole: Value = serde_json::from_str(&print_to(&mut Wrapped::default())).expect("JSON");
        assert_eq!(whole["columns"], json!(["a", "b", "a:1"]));
        assert_eq!(whole["rows"], rows);
    }

    #[test]
    fn lists_and_their_separators() {
        assert_eq!(
            print(Format::List),
            "|-1|2.0\n|x,\"y\"|X'00FF'\nInf|^[[2J|\u{fffd}\n"
        );
        let style = Style {
            header: Some(true),
            null: "-".to_owned(),
            separators: (Some("\t".to_owned()), Some(";".to_owned())),
            ..Style::default()
        };
        let mut list = sink(Format::List, &style);
        assert_eq!(
            print_to(list.as_mut()),
            "a\tb\ta;-\t-1\t2.0;\tx,\"y\"\tX'00FF';Inf\t^[[2J\t\u{fffd};"
        );
        let mut csv = sink(Format::Csv, &style);
        assert_eq!(
            print_to(csv.as_mut()),
            "a\tb\ta\n-\t-1\t2.0\n\"\"\t\"x,\"\"y\"\"\"\tX'00FF'\nInf\t\x1b[2J\t\u{fffd}\n"
        );
    }

    #[test]
    fn tabs_stand_between_values_and_only_they_are_quoted() {
        assert_eq!(
            print(Format::Tsv),
            "a\tb\ta\n\t-1\t2.0\n\"\"\t\"x,\"\"y\"\"\"\tX'00FF'\nInf\t\x1b[2J\t\u{fffd}\n"
        );
        let mut out = Vec::new();
        let mut tsv = sink(Format::Tsv, &Style::default());
        tsv.row(&mut out, &[ValueRef::Text(b"a,b"), ValueRef::Text(b"a\tb")])
            .expect("memory");
        assert_eq!(out, b"a,b\t\"a\tb\"\n");
    }

    #[test]
    fn sql_keeps_every_value() {
        assert_eq!(
            print(Format::Quote),
            "NULL,-1,2.0\n'','x,\"y\"',X'00FF'\n9e999,'\x1b[2J',CAST(X'FF' AS TEXT)\n"
        );
        let style = Style {
            header: Some(true),
            table: Some("it's \"t\"".to_owned()),
            ..Style::default()
        };
        let text = print_to(sink(Format::Insert, &style).as_mut());
        let first = "INSERT INTO \"it's \"\"t\"\"\"(\"a\",\"b\",\"a\") VALUES(NULL,-1,2.0);\n";
        assert!(text.starts_with(first), "{text}");
        let text = print(Format::Insert);
        assert!(
            text.starts_with("INSERT INTO \"table\" VALUES(NULL,-1,2.0);\n"),
            "{text}"
        );
        let text = print_to(sink(Format::Quote, &style).as_mut());
        assert!(text.starts_with("'a','b','a'\nNULL,"), "{text}");
    }

    #[test]
    fn tables_show_no_control_characters() {
        let text = print(Format::Table);
        assert!(text.contains("^[[2J") && !text.contains('\x1b'), "{text}");
        assert!(text.contains("X'00FF'"));
    }
}

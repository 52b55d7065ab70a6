//! Reads rows from a file and inserts them into a table, for `densite load`.
//!
//! A [`Source`] returns rows, [`target`] describes the table, and [`insert`] inserts the rows. Rows
//! that fit into memory are sorted by the key first.

mod csv;
pub(crate) mod file_failure;
mod foreign;
mod gzip;
mod input;
pub(crate) mod insert;
mod json;
mod key_order;
mod parquet;
mod records;
mod spelled;
pub(crate) mod target_table;
pub(crate) mod types;

use crate::args::{FileFormat, LoadArgs};
use rusqlite::types::Value;
use spelled::Spelling;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

/// A row of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Its place in the file: the number of its first line, or of the row, from 1.
    pub(crate) at: u64,
    /// Values by column of the file; `None` if this row does not have the column.
    pub(crate) values: Vec<Option<Value>>,
}

/// A row or file that cannot be loaded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bad {
    /// Line or row; `None` if the problem concerns the whole file.
    pub(crate) at: Option<u64>,
    pub(crate) column: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) problem: String,
    /// Whether reading cannot continue after this problem.
    pub(crate) is_last: bool,
    /// Whether the file is damaged or has another format.
    pub(crate) is_damaged: bool,
}

impl Bad {
    /// A problem of the whole file.
    pub(crate) fn file(problem: impl Into<String>) -> Bad {
        Bad {
            at: None,
            column: None,
            value: None,
            problem: problem.into(),
            is_last: true,
            is_damaged: false,
        }
    }

    /// A problem of a damaged file.
    pub(crate) fn damaged(problem: impl Into<String>) -> Bad {
        Bad {
            is_damaged: true,
            ..Bad::file(problem)
        }
    }

    /// A problem of one row.
    pub(crate) fn row(at: u64, problem: impl Into<String>) -> Bad {
        Bad {
            at: Some(at),
            is_last: false,
            ..Bad::file(problem)
        }
    }

    /// Adds the column and its value.
    pub(crate) fn with(mut self, column: &str, value: Option<String>) -> Bad {
        self.column = Some(column.to_owned());
        self.value = value;
        self
    }
}

/// Rows from a file.
pub(crate) trait Source {
    /// The name of a place in the file: "line" or "row".
    fn unit(&self) -> &'static str;
    /// The line of the column names, if the file has one.
    fn header(&self) -> Option<u64> {
        None
    }
    /// Why its columns are possibly not those that the user expects, and what to do.
    fn doubt(&self) -> Option<String> {
        None
    }
    /// How it spells blobs.
    fn spelling(&self) -> Spelling;
    /// The columns known so far, with types for a new table. Rows of JSON can add more columns.
    fn columns(&self) -> &[Column];
    /// The next row.
    fn next(&mut self) -> Result<Option<Row>, Bad>;
    /// Bytes of the file that were read, for progress.
    fn bytes_read(&self) -> u64;
}

/// A column of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The type in a new table; empty for no type.
    pub(crate) declared: &'static str,
}

/// What is wrong with the names of columns: a zero byte, which SQL cannot have, or two that a table
/// takes for one, because case does not count.
pub(crate) fn wrong_names(columns: &[Column]) -> Option<String> {
    let mut places = HashMap::new();
    for (column, at) in columns.iter().zip(1..) {
        if column.name.contains('\0') {
            return Some(format!(
                "the name of column {at} has a zero byte; rename it"
            ));
        }
        let earlier = places.insert(column.name.to_ascii_lowercase(), (at, column));
        let Some((first, same)) = earlier else {
            continue;
        };
        return Some(match column.name.as_str() {
            "" => format!("columns {first} and {at} have no name; name them"),
            name if name == same.name => {
                format!("columns {first} and {at} have the same name, {name}; rename one of them")
            }
            name => format!(
                "columns {first} and {at} have names that differ only in case, {} and {name}; rename one of them",
                same.name
            ),
        });
    }
    None
}

/// The name without the end that stands for a compression.
fn uncompressed(path: &Path) -> &Path {
    let is_compressed = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("gz") || e.eq_ignore_ascii_case("zst"));
    match path.file_stem() {
        Some(stem) if is_compressed => Path::new(stem),
        _ => path,
    }
}

/// The format of the file: the requested one, or that of its extension.
pub(crate) fn format_of(args: &LoadArgs) -> Option<FileFormat> {
    let by_name = || {
        let extension = uncompressed(&args.file).extension()?.to_str()?;
        match extension.to_ascii_lowercase().as_str() {
            "csv" | "tsv" => Some(FileFormat::Csv),
            "json" => Some(FileFormat::Json),
            "jsonl" | "ndjson" => Some(FileFormat::Jsonl),
            "parquet" => Some(FileFormat::Parquet),
            _ => None,
        }
    };
    args.format.or_else(by_name)
}

/// What a file is whose format is not clear from its name, if it is one that is not loaded.
pub(crate) fn not_loaded(path: &Path) -> Option<Bad> {
    let about = std::fs::metadata(path).ok()?;
    let mut file = about.is_file().then(|| File::open(path).ok())??;
    let first = input::peek(&mut file).ok()?;
    foreign::problem(&first, None).map(Bad::file)
}

/// Opens the file.
pub(crate) fn open(args: &LoadArgs, format: FileFormat) -> Result<Box<dyn Source>, Bad> {
    let file = match args.file == Path::new("-") {
        true => std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map(File::from),
        false => File::open(&args.file),
    };
    let file = file.map_err(|e| {
        let is_url = args.file.to_string_lossy().contains("://");
        Bad::file(match e.kind() {
            std::io::ErrorKind::NotFound if is_url => {
                "is no file; load reads files and standard input: download it first, or pipe it to densite load DB TABLE -"
                    .to_owned()
            }
            std::io::ErrorKind::NotFound => "does not exist; check the path".to_owned(),
            _ => format!("cannot be opened: {e}"),
        })
    })?;
    match format {
        FileFormat::Parquet => Ok(Box::new(parquet::Parquet::new(file)?)),
        _ => open_text(file, args, format),
    }
}

/// Opens the text of a reader, in a format of text.
pub(crate) fn open_text(
    reader: impl Read + 'static,
    args: &LoadArgs,
    format: FileFormat,
) -> Result<Box<dyn Source>, Bad> {
    let has_quotes = args.quote.byte().is_some();
    // The lines that are skipped are of any format.
    let problem = |first: &[u8]| match args.skip {
        0 => foreign::other_text(first, format, has_quotes),
        _ => None,
    };
    let (input, text) = input::text(reader, args.encoding, format, problem)?;
    Ok(match format {
        FileFormat::Csv => {
            let is_tsv = is_tsv(uncompressed(&args.file));
            Box::new(csv::Csv::new(input, text, args, is_tsv)?)
        }
        FileFormat::Json => Box::new(json::Array::new(input, text)),
        FileFormat::Jsonl | FileFormat::Parquet => Box::new(json::Lines::new(input, text)),
    })
}

fn is_tsv(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("tsv"))
}

/// A short form of a value, for messages.
pub(crate) fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(n) => n.to_string(),
        Value::Real(x) => x.to_string(),
        Value::Text(text) => format!("{text:?}"),
        Value::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
    };
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

//! Reading rows from a file and inserting them into a table: what `densite load` does.
//!
//! A [`Source`] gives rows; [`target`] says what the table is like, [`insert`] brings them in, sorted by its key where they fit into memory.

mod csv;
pub(crate) mod insert;
mod jsonl;
mod order;
mod parquet;
mod records;
pub(crate) mod target;

use crate::args::{FileFormat, LoadArgs};
use rusqlite::types::Value;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

/// A row as a file has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Where it is in the file: number of its first line, or of the row, from 1.
    pub(crate) at: u64,
    /// By column of the file; `None` where this row does not name the column.
    pub(crate) values: Vec<Option<Value>>,
}

/// Something that cannot be loaded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bad {
    /// Line or row; `None` if it is about the file.
    pub(crate) at: Option<u64>,
    pub(crate) column: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) problem: String,
    /// Nothing that follows in the file can be read either.
    pub(crate) is_last: bool,
    /// The file is damaged, or not of its format.
    pub(crate) is_damaged: bool,
}

impl Bad {
    /// About the file as a whole.
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

    /// About a file that is damaged.
    pub(crate) fn damaged(problem: impl Into<String>) -> Bad {
        Bad {
            is_damaged: true,
            ..Bad::file(problem)
        }
    }

    /// About one row.
    pub(crate) fn row(at: u64, problem: impl Into<String>) -> Bad {
        Bad {
            at: Some(at),
            is_last: false,
            ..Bad::file(problem)
        }
    }

    /// With the column and its value.
    pub(crate) fn with(mut self, column: &str, value: Option<String>) -> Bad {
        self.column = Some(column.to_owned());
        self.value = value;
        self
    }
}

/// Rows from a file.
pub(crate) trait Source {
    /// What a place in the file is called: "line" or "row".
    fn unit(&self) -> &'static str;
    /// Names of the columns that are known by now, and types for a table that is to be made; rows of JSON may bring more.
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
    /// Type in a table that is made for it; empty for none.
    pub(crate) declared: &'static str,
}

/// The file's format by what was asked for or by its name.
pub(crate) fn format_of(args: &LoadArgs) -> Option<FileFormat> {
    let by_name = || {
        let extension = args.file.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "csv" | "tsv" => Some(FileFormat::Csv),
            "jsonl" | "ndjson" => Some(FileFormat::Jsonl),
            "parquet" => Some(FileFormat::Parquet),
            _ => None,
        }
    };
    args.format.or_else(by_name)
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
    let file = file.map_err(|e| Bad::file(format!("cannot be opened: {e}")))?;
    Ok(match format {
        FileFormat::Csv => Box::new(csv::Csv::new(file, args, is_tsv(&args.file))?),
        FileFormat::Jsonl => Box::new(jsonl::Jsonl::new(file)),
        FileFormat::Parquet => Box::new(parquet::Parquet::new(file)?),
    })
}

fn is_tsv(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("tsv"))
}

/// A value in few words, for a message.
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

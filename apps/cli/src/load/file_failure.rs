//! Problems of a file as failures.

use super::{Bad, Source};
use crate::failure::Failure;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// What may be wrong with a file that was loaded all the same, as a message.
pub(crate) fn doubt(file: &Path, unit: &str, source: &dyn Source) -> Option<String> {
    let doubt = Bad::file(source.doubt()?);
    let at = source.header();
    Some(sentence(file, unit, &Bad { at, ..doubt }))
}

/// A message with file, place, column, value and problem.
pub(crate) fn sentence(file: &Path, unit: &str, bad: &Bad) -> String {
    let mut text = file.display().to_string();
    if let Some(at) = bad.at {
        let _ = write!(text, ", {unit} {at}");
    }
    if let Some(column) = &bad.column {
        let _ = write!(text, ", column {column}");
    }
    if let Some(value) = &bad.value {
        let _ = write!(text, ", value {value}");
    }
    format!("{text}: {}", bad.problem)
}

pub(crate) fn details(file: &Path, unit: &str, bad: &Bad) -> Value {
    json!({
        "path": file.to_string_lossy(),
        "unit": unit,
        "at": bad.at,
        "column": bad.column,
        "value": bad.value,
        "problem": bad.problem,
    })
}

pub(crate) fn input(file: &Path, unit: &str, bad: Bad) -> Failure {
    let mut text = sentence(file, unit, &bad);
    text += "; nothing was loaded";
    if !bad.is_last {
        text += "; densite load --skip-errors skips such rows";
    }
    let (kind, code) = match bad.is_damaged {
        true => ("damaged", 5),
        false => ("input", 1),
    };
    Failure::Other(kind, code, text, details(file, unit, &bad))
}

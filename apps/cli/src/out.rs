//! Results go to stdout, everything else to stderr. With `--json` stdout gets exactly one object.

use crate::args::Common;
use crate::shown::{self, shown};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Prints the JSON object with `--json`, and the text otherwise. Names in the text must pass
/// through `shown`, so that they cannot begin a line.
pub(crate) fn result(common: Common, object: &Value, text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if common.json {
        writeln!(out, "{}", shown::json(object))?;
    } else {
        out.write_all(shown::lines(text).as_bytes())?;
    }
    out.flush()
}

/// Prints the verdict of a check, which is the exit code. Damage is the more important news: then a
/// failure to print is only a message.
pub(crate) fn verdict(common: Common, object: &Value, text: &str, code: u8) -> io::Result<u8> {
    match result(common, object, text) {
        Err(e) if code != 0 => {
            if e.kind() != io::ErrorKind::BrokenPipe {
                let text = format!("cannot write the output: {e}");
                failure(Object::None, "io", code, &text, json!({}));
            }
        }
        printed => printed?,
    }
    Ok(code)
}

/// Prints the report of work that is done, and that a failure to print does not undo. `done` is a
/// sentence that says so. A program that got an error would do the work again.
pub(crate) fn report(common: Common, object: &Value, text: &str, done: &str) {
    match result(common, object, text) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            let text = format!("{done}, but the report could not be written: {e}");
            let _ = writeln!(io::stderr().lock(), "densite: {}", shown(&text));
        }
        _ => {}
    }
}

/// Prints one event of a verb that goes on, as a JSON object on a line of its own.
pub(crate) fn event(object: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", shown::json_line(object))?;
    out.flush()
}

/// Prints a message to stderr, unless `--quiet` is given.
pub(crate) fn message(common: Common, text: &str) {
    if !common.quiet {
        warning(text);
    }
}

/// Prints what needs attention to stderr, also with `--quiet`.
pub(crate) fn warning(text: &str) {
    // A closed stderr is no reason to stop.
    let _ = writeln!(io::stderr().lock(), "densite: {}", shown(text));
}

/// What a failure prints to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Object {
    /// Nothing.
    None,
    /// A JSON object.
    Whole,
    /// A JSON object on one line, after those of events.
    Line,
}

/// Reports a failure: a message on stderr, and with `--json` also an object on stdout.
pub(crate) fn failure(object: Object, kind: &str, exit_code: u8, text: &str, details: Value) {
    let _ = writeln!(io::stderr().lock(), "densite: {}", shown(text));
    let error = || json!({ "error": error(kind, exit_code, text, details) });
    let printed = match object {
        Object::None => return,
        Object::Whole => shown::json(&error()),
        Object::Line => shown::json_line(&error()),
    };
    let _ = writeln!(io::stdout().lock(), "{printed}");
}

/// The value of `error` with `--json`.
pub(crate) fn error(kind: &str, exit_code: u8, text: &str, details: Value) -> Value {
    let mut object = densite_tools::json::error(kind, text, details);
    if let Value::Object(fields) = &mut object {
        fields.insert("exit_code".to_owned(), json!(exit_code));
    }
    object
}

/// Formats bytes for a user: "1.4 GiB (1,503,238,553 bytes)".
pub(crate) fn bytes(n: u64) -> String {
    let exact = format!("{} bytes", thousands(n));
    if n < 1024 {
        exact
    } else {
        format!("{} ({exact})", indicatif::BinaryBytes(n))
    }
}

/// Formats 1234567 as "1,234,567".
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut s = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            s.push(',');
        }
        s.push(c);
    }
    s
}

/// A number of things, as in "1 row" and "1,234 rows".
pub(crate) fn counted(n: u64, one: &str, more: &str) -> String {
    format!("{} {}", thousands(n), if n == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_three() {
        for (n, s) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(thousands(n), s);
        }
    }
}

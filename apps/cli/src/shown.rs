//! Escapes text from a database, a log or a path for printing. The result cannot control a
//! terminal, change the direction of text, or begin a line.

use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// Whether a character has an effect instead of being visible: control characters, direction marks
/// and line ends.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes text to one line: control characters as `^X`, other characters with an effect as
/// `<U+202E>`.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0'..='\x1f' => out.extend(['^', char::from(c as u8 + b'@')]),
            '\x7f' => out.push_str("^?"),
            c if acts(c) => {
                let _ = write!(out, "<U+{:04X}>", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Escapes a text of several lines. Line ends inside of values must be escaped before the lines are
/// joined.
pub(crate) fn lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(shown).collect();
    lines.join("\n")
}

/// A path in one line.
pub(crate) fn path(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

/// Escapes JSON text without changing its meaning.
pub(crate) fn json_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // JSON itself escapes the other control characters and uses newlines between values.
        match c {
            '\n' => out.push(c),
            c if acts(c) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// A JSON value, indented for reading.
pub(crate) fn json(value: &Value) -> String {
    json_text(&format!("{value:#}"))
}

/// A JSON value on one line, in the same way.
pub(crate) fn json_line(value: &Value) -> String {
    json_text(&value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_acts_on_the_terminal() {
        let evil = "a\x1b[2J\r\n\u{9b}31m\u{202e}b\u{2066}\x7fé\t";
        let seen = shown(evil);
        assert_eq!(seen, "a^[[2J^M^J<U+009B>31m<U+202E>b<U+2066>^?é^I");
        assert!(!seen.chars().any(acts));
        assert_eq!(lines("a\nb\x07\n"), "a\nb^G\n");
        assert_eq!(path(Path::new("x\ny")), "x^Jy");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = json!({ "a\u{202e}": "\u{9b}\x1b\n\u{7f} é" });
        let text = super::json(&value);
        assert!(!text.replace('\n', "").chars().any(acts), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }
}

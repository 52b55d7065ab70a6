//! The path in a `file:` URI, by SQLite's rules. Parameters are those of a connection, and have no
//! meaning for verbs that read the file themselves.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The path of a `file:` URI; `None` for other names, and for a file that has this very name.
pub(crate) fn path_in(given: &Path) -> Option<PathBuf> {
    let uri = given.to_str()?.strip_prefix("file:")?;
    if given.exists() {
        return None;
    }
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    // file:///path and file://localhost/path.
    let path = match uri.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => uri,
    };
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_uris() {
        for (uri, path) in [
            ("file:a.db", "a.db"),
            ("file:/x/a%20b.db?level=9#f", "/x/a b.db"),
            ("file:///x/a.db?vfs=densite", "/x/a.db"),
            ("file://localhost/x/a.db", "/x/a.db"),
            ("file:100%.db", "100%.db"),
        ] {
            assert_eq!(path_in(Path::new(uri)), Some(path.into()), "{uri}");
        }
        assert_eq!(path_in(Path::new("a.db")), None);
    }
}

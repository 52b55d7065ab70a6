//! The URI of a file path, with all special characters escaped.

use std::fmt::Write;

/// `file:` and the path with all special characters of URIs escaped, and then the VFS.
pub(crate) fn of_path(path: &str) -> String {
    // After two slashes SQLite expects a host, so an absolute path gets an empty one.
    let start = if path.starts_with('/') {
        "file://"
    } else {
        "file:"
    };
    let mut uri = start.to_owned();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri + "?vfs=densite"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_uris_are_escaped() {
        assert_eq!(of_path("app.db"), "file:app.db?vfs=densite");
        assert_eq!(
            of_path("/a b/c?d#e%f&g.db"),
            "file:///a%20b/c%3Fd%23e%25f%26g.db?vfs=densite"
        );
        assert_eq!(
            of_path("//host/ü:.db"),
            "file:////host/%C3%BC%3A.db?vfs=densite"
        );
    }
}

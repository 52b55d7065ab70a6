//! The URI of a file, so that every name means itself.

use std::fmt::Write;

/// `file:` and the path with everything escaped that a URI could take for something else; then the VFS.
pub(crate) fn of_path(path: &str) -> String {
    // After two slashes SQLite expects a host: an absolute path gets an empty one.
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
                // Writing to a string does not fail.
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
    fn what_a_uri_could_take_for_something_else_is_escaped() {
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

//! Names that were meant to be URLs. As paths they would name missing files, or directories that a
//! replica would be written to.

/// The schemes of URLs. That of files is not one of them: `file:a.db` is a name in SQLite.
const SCHEMES: [&str; 3] = ["https", "http", "s3"];

/// What is wrong with the name of a file or directory that was meant to be a URL, and what to write;
/// `None` if it does not look like one, or is a URL.
#[must_use]
pub fn mistaken_url(name: &str) -> Option<String> {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let end = name.find(|c| !is_of_scheme(c)).unwrap_or(name.len());
    let (scheme, rest) = name.split_at_checked(end)?;
    let mut known = SCHEMES.iter();
    let known = known.find(|known| scheme.eq_ignore_ascii_case(known));
    match known {
        None if scheme.eq_ignore_ascii_case("file") => None,
        None if !scheme.is_empty() && rest.starts_with("://") => Some(format!(
            "{scheme}:// is not known; use https://, http:// or s3://"
        )),
        Some(known) if !rest.starts_with("://") && rest.starts_with([':', '/']) => Some(format!(
            "write {known}:// for a URL, or ./{name} for a path"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_meant_to_be_a_url_is_told_from_a_path() {
        for name in ["htps://h/a.db", "gs://b/a.db", "ftp://h/a"] {
            let said = mistaken_url(name).expect(name);
            assert!(said.contains("is not known; use https://"), "{said}");
        }
        for (name, scheme) in [
            ("s3//my-bucket/live", "s3"),
            ("S3/my-bucket", "s3"),
            ("https:/h/a.db", "https"),
            ("http:h/a.db", "http"),
        ] {
            let said = mistaken_url(name).expect(name);
            assert!(said.starts_with(&format!("write {scheme}://")), "{said}");
            assert!(said.contains(&format!("./{name}")), "{said}");
        }
        for name in [
            "a.db",
            "s3",
            "s3.db",
            "s3-backups/a",
            "/s3/a",
            "./s3/a",
            "my-bucket/x",
            "",
            "https://h/a.db",
            "s3://b/a",
            "file:///data/a",
            "file:a.db",
            "file:/data/a.db?mode=ro",
            "a:b",
            "é://h",
            "C:/a.db",
        ] {
            assert_eq!(mistaken_url(name), None, "{name}");
        }
    }
}

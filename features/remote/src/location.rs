//! Where a remote file is.

use crate::error::{Error, Problem, Result};
use url::Url;

/// The schemes that are read.
const SCHEMES: [&str; 3] = ["https", "http", "s3"];

/// Whether a name is a URL that this crate reads, by its scheme.
#[must_use]
pub fn is_url(name: &str) -> bool {
    name.split_once("://").is_some_and(|(scheme, _)| {
        SCHEMES
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
    })
}

/// The place of a remote file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// A file of a web server.
    Web(Url),
    /// An object of a bucket.
    Bucket {
        /// The bucket's name.
        bucket: String,
        /// The object's key, not escaped.
        key: String,
    },
}

impl Location {
    /// Parses the URL of a file.
    ///
    /// # Errors
    /// [`Problem::Url`] with what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Location> {
        let wrong = |what: &str| Err(Error::new(shown(text), Problem::Url(what.into())));
        match Location::parsed(text, "s3://BUCKET/KEY")? {
            Location::Web(url) if url.path() == "/" => wrong("it names no file"),
            Location::Bucket { key, .. } if key.is_empty() => wrong("use s3://BUCKET/KEY"),
            location => Ok(location),
        }
    }

    /// Parses a URL under which files are, without a slash at its end. It can be all of a bucket or
    /// of a web server.
    ///
    /// # Errors
    /// [`Problem::Url`] with what is wrong.
    pub(crate) fn prefix(text: &str) -> Result<Location> {
        Location::parsed(text, "s3://BUCKET/PREFIX")
    }

    /// Parses a URL. `form`: what one of object storage looks like.
    fn parsed(text: &str, form: &str) -> Result<Location> {
        let wrong = |what: &str| Err(Error::new(shown(text), Problem::Url(what.into())));
        // An object's key can contain any character, so it is not taken from the parsed URL.
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("s3") => rest,
            _ => return web(text),
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.contains('@') {
            return wrong(
                "keys in it are not supported; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            );
        }
        if bucket.is_empty() {
            return wrong(&format!("it names no bucket; use {form}"));
        }
        let mut parts = key.split('/');
        if rest.contains('/') && parts.any(|part| ["", ".", ".."].contains(&part)) {
            return wrong(&format!(
                "use {form}; keys with empty parts, . or .. cannot be read"
            ));
        }
        Ok(Location::Bucket {
            bucket: bucket.into(),
            key: key.into(),
        })
    }
}

/// Parses a URL of a web server.
fn web(text: &str) -> Result<Location> {
    let wrong = |what: &str| Err(Error::new(shown(text), Problem::Url(what.into())));
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(e) => return wrong(&e.to_string()),
    };
    let has_user = !url.username().is_empty() || url.password().is_some();
    match url.host_str() {
        Some(_) if has_user => wrong("users and passwords in it are not supported"),
        Some(_) => Ok(Location::Web(url)),
        None => wrong("it names no file"),
    }
}

/// A URL without slashes at its end.
pub(crate) fn trimmed(url: &str) -> &str {
    let begin = url.find("://").map_or(0, |at| at + "://".len());
    let (_, rest) = url.split_at(begin);
    let kept = begin + rest.trim_end_matches('/').len();
    url.get(..kept).unwrap_or(url)
}

/// A URL for messages: without a query, a fragment, a user or a password, which can be secrets.
#[must_use]
pub fn shown(text: &str) -> String {
    let parsed = Url::parse(text).ok().filter(|url| url.scheme() != "s3");
    let Some(mut url) = parsed else {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        // A key can contain these characters, and is no secret.
        let rest = match scheme.eq_ignore_ascii_case("s3") {
            true => rest,
            false => rest.split(['?', '#']).next().unwrap_or_default(),
        };
        let host = rest.split('/').next().unwrap_or_default();
        let user = host.rfind('@').map_or(0, |at| at + 1);
        return format!("{scheme}://{}", rest.get(user..).unwrap_or_default());
    };
    url.set_query(None);
    url.set_fragment(None);
    // These fail only for URLs that cannot have a user, which then have none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_known_by_their_scheme() {
        for name in ["https://h/a.db", "HTTP://h/a.db", "s3://b/k"] {
            assert!(is_url(name), "{name}");
        }
        for name in ["a.db", "/https:/a.db", "file:a.db", "ftp://h/a.db", "C://x"] {
            assert!(!is_url(name), "{name}");
        }
    }

    #[test]
    fn a_bucket_and_a_key_are_needed() {
        let parsed = Location::parse("s3://bucket/a dir/b?c#d%20.db").expect("a key");
        let expected = Location::Bucket {
            bucket: "bucket".into(),
            key: "a dir/b?c#d%20.db".into(),
        };
        assert_eq!(parsed, expected);
        for text in [
            "s3://bucket",
            "s3://bucket/",
            "s3:///key",
            "s3://b//key",
            "s3://b/a/../c",
            "https://host",
            "http://",
        ] {
            let said = Location::parse(text).expect_err(text).to_string();
            assert!(said.starts_with(text), "{said}");
        }
    }

    #[test]
    fn a_prefix_can_be_all_of_a_bucket() {
        for (text, key) in [("s3://bucket", ""), ("S3://bucket/a/b", "a/b")] {
            let parsed = Location::prefix(text).expect("a place");
            let expected = Location::Bucket {
                bucket: "bucket".into(),
                key: key.into(),
            };
            assert_eq!(parsed, expected);
        }
        for text in ["s3://", "s3:///a", "s3://b//a", "s3://b/.", "s3://b/a/../c"] {
            let said = Location::prefix(text).expect_err(text).to_string();
            assert!(said.starts_with(&format!("{text}: ")), "{said}");
            assert!(said.contains("use s3://BUCKET/PREFIX"), "{said}");
        }
        for (url, kept) in [
            ("s3://b/a//", "s3://b/a"),
            ("s3://b/", "s3://b"),
            ("s3:///", "s3://"),
            ("http://h/", "http://h"),
        ] {
            assert_eq!(trimmed(url), kept);
        }
    }

    #[test]
    fn messages_have_no_secrets() {
        assert_eq!(
            shown("https://user:secret@host:8443/a%20b.db?X-Amz-Signature=secret#secret"),
            "https://host:8443/a%20b.db"
        );
        assert_eq!(shown("https://[bad/a?secret"), "https://[bad/a");
        assert_eq!(
            shown("http://me:secret@h:99999/a?secret"),
            "http://h:99999/a"
        );
        assert_eq!(shown("s3://id:secret@bucket/a?b"), "s3://bucket/a?b");
        for text in [
            "http://me:secret@h/a",
            "http://me:secret@/a",
            "s3://id:secret@bucket/a",
        ] {
            let said = Location::parse(text).expect_err(text).to_string();
            assert!(!said.contains("secret"), "{said}");
        }
    }
}

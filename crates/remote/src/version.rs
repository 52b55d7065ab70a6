//! Which version of a file was read first.

use http::header::{DATE, ETAG, HeaderMap, HeaderValue, LAST_MODIFIED};
use object_store::{GetOptions, ObjectMeta};
use std::time::Duration;

/// A file of this age, in seconds, gets another modification second when it changes. Clocks of a
/// disk and of a server can differ by a tick.
const SETTLED: i64 = 2;

/// Whether an ETag can be compared by If-Match. A weak one never matches: RFC 9110, section 13.1.1.
fn is_strong(tag: &str) -> bool {
    !tag.starts_with("W/") && tag != "\"\""
}

/// How long to wait until a later version of the file must have another ETag or time than this
/// answer: RFC 9110, section 8.8.2.2. The server's own clock counts.
pub(crate) fn time_until_unique(headers: &HeaderMap) -> Duration {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let time = |name| {
        let time = chrono::DateTime::parse_from_rfc2822(text(name)?).ok()?;
        Some(time.timestamp())
    };
    let (Some(now), Some(modified)) = (time(DATE), time(LAST_MODIFIED)) else {
        return Duration::ZERO;
    };
    let tag = text(ETAG).filter(|tag| is_strong(tag));
    // nginx: `"<second>-<length>"`, in hexadecimal.
    let is_by_second = tag.is_none_or(|tag| tag.contains(&format!("{modified:x}")));
    let missing = SETTLED - (now - modified).clamp(0, SETTLED);
    match is_by_second {
        true => Duration::from_secs(missing.unsigned_abs()),
        false => Duration::ZERO,
    }
}

/// A version of a remote file: its length, and what the server calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// The length in bytes.
    pub(crate) len: u64,
    mark: Mark,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Mark {
    /// A strong ETag.
    Tag(String),
    /// The server gives no strong ETag: when the file was last modified.
    Modified(chrono::DateTime<chrono::Utc>),
}

impl Version {
    /// The version that an answer names; `None` if it names none.
    pub(crate) fn of(meta: &ObjectMeta) -> Option<Version> {
        let tag = meta.e_tag.clone().filter(|tag| is_strong(tag));
        let mark = match tag {
            Some(tag) => Mark::Tag(tag),
            // The library puts the beginning of time where the header is missing.
            None if meta.last_modified.timestamp() > 0 => Mark::Modified(meta.last_modified),
            None => return None,
        };
        Some(Version {
            len: meta.size,
            mark,
        })
    }

    /// Makes a request one for this version only.
    pub(crate) fn demand(&self, options: &mut GetOptions) {
        match &self.mark {
            Mark::Tag(tag) => options.if_match = Some(tag.clone()),
            Mark::Modified(when) => options.if_unmodified_since = Some(*when),
        }
    }

    /// As text. Two versions of one file have different texts.
    pub(crate) fn text(&self) -> String {
        match &self.mark {
            Mark::Tag(tag) => format!("{} {tag}", self.len),
            Mark::Modified(when) => format!("{} {}", self.len, when.timestamp()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_young_file_with_a_version_by_the_second_is_waited_for() {
        let modified = "Thu, 26 Nov 2026 01:00:00 GMT";
        let second = 1_795_654_800;
        for (date, tag, expected) in [
            ("Thu, 26 Nov 2026 01:00:00 GMT", None, 2),
            ("Thu, 26 Nov 2026 01:00:01 GMT", None, 1),
            ("Thu, 26 Nov 2026 01:00:02 GMT", None, 0),
            ("Thu, 26 Nov 2026 00:59:59 GMT", None, 2),
            (
                "Thu, 26 Nov 2026 01:00:00 GMT",
                Some(format!("\"{second:x}-64\"")),
                2,
            ),
            (
                "Thu, 26 Nov 2026 01:00:00 GMT",
                Some("\"9e107d9d\"".into()),
                0,
            ),
            (
                "Thu, 26 Nov 2026 01:00:00 GMT",
                Some("W/\"9e107d9d\"".into()),
                2,
            ),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(LAST_MODIFIED, HeaderValue::from_static(modified));
            headers.insert(DATE, date.parse().expect("a date"));
            if let Some(tag) = &tag {
                headers.insert(ETAG, tag.parse().expect("a tag"));
            }
            assert_eq!(
                time_until_unique(&headers).as_secs(),
                expected,
                "{date} {tag:?}"
            );
        }
        assert_eq!(time_until_unique(&HeaderMap::new()), Duration::ZERO);
    }
}

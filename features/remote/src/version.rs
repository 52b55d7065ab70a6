//! Which version of a file was read first.

use chrono::{DateTime, NaiveDateTime, Utc};
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
    let time = |name| Some(parsed_time(text(name)?)?.timestamp());
    let (Some(now), Some(modified)) = (time(DATE), time(LAST_MODIFIED)) else {
        return Duration::ZERO;
    };
    let tag = text(ETAG).filter(|tag| is_strong(tag));
    // nginx: `"<second>-<length>"`, in hexadecimal.
    let is_by_second = tag.is_none_or(|tag| tag.contains(&format!("{modified:x}")));
    let age = now - modified;
    // A change gets the time of its moment. No file gets a time that is far in the future again.
    match is_by_second && age >= -SETTLED {
        true => Duration::from_secs((SETTLED - age.clamp(0, SETTLED)).unsigned_abs()),
        false => Duration::ZERO,
    }
}

/// A time in one of the three forms of RFC 9110, section 5.6.7. Two of them are obsolete, but servers
/// send them.
fn parsed_time(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(time) = DateTime::parse_from_rfc2822(text) {
        return Some(time.to_utc());
    }
    let forms = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let mut times = forms
        .iter()
        .filter_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    times.next().map(|time| time.and_utc())
}

/// Gives Last-Modified the form that the library reads. One that is no time is removed: a strong
/// ETag is enough.
pub(crate) fn put_right(headers: &mut HeaderMap) {
    let Some(value) = headers.get(LAST_MODIFIED) else {
        return;
    };
    let time = value.to_str().ok().and_then(parsed_time);
    let value = time.and_then(|time| {
        let text = time.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        HeaderValue::from_str(&text).ok()
    });
    match value {
        Some(value) => headers.insert(LAST_MODIFIED, value),
        None => headers.remove(LAST_MODIFIED),
    };
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
    Modified(DateTime<Utc>),
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
            ("Thu, 26 Nov 2026 00:50:00 GMT", None, 0),
            ("Thursday, 26-Nov-26 01:00:01 GMT", None, 1),
            ("Thu Nov 26 01:00:01 2026", None, 1),
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

    #[test]
    fn obsolete_forms_of_a_time_are_read_and_others_removed() {
        let usual = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (text, expected) in [
            (usual, Some(usual)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(usual)),
            ("Sun Nov  6 08:49:37 1994", Some(usual)),
            ("yesterday", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(LAST_MODIFIED, text.parse().expect("a value"));
            put_right(&mut headers);
            let found = headers.get(LAST_MODIFIED).map(|value| value.as_bytes());
            assert_eq!(found, expected.map(str::as_bytes), "{text}");
        }
    }
}

//! Which version of a file was read first.

use object_store::{GetOptions, ObjectMeta};
use std::time::Duration;

/// From this age on, a file that changes gets another second. Clocks of a disk and of a server can
/// differ by a tick.
const SETTLED: Duration = Duration::from_secs(2);

/// A version of a remote file: its length, and what the server calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// The length in bytes.
    pub(crate) len: u64,
    mark: Mark,
    /// The mark is nothing but the length and the second in which the file was modified.
    is_by_second: bool,
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
        // A weak ETag never matches If-Match: RFC 9110, section 13.1.1.
        let tag = meta
            .e_tag
            .clone()
            .filter(|tag| !tag.starts_with("W/") && tag != "\"\"");
        let mark = match tag {
            Some(tag) => Mark::Tag(tag),
            // The library puts the beginning of time where the header is missing.
            None if meta.last_modified.timestamp() > 0 => Mark::Modified(meta.last_modified),
            None => return None,
        };
        let second = meta.last_modified.timestamp();
        let is_by_second = match &mark {
            // nginx: `"<second>-<length>"`, in hexadecimal.
            Mark::Tag(tag) => second > 0 && tag.contains(&format!("{second:x}")),
            Mark::Modified(_) => true,
        };
        Some(Version {
            len: meta.size,
            mark,
            is_by_second,
        })
    }

    /// How long a file of this age must still stay as it is until no other version of it can have
    /// the same mark: RFC 9110, section 8.8.2.2.
    pub(crate) fn unsettled(&self, age: Option<Duration>) -> Duration {
        match age {
            Some(age) if self.is_by_second => SETTLED.saturating_sub(age),
            _ => Duration::ZERO,
        }
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

//! Which version of a file was read first.

use object_store::{GetOptions, ObjectMeta};

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
        // A weak ETag never matches If-Match: RFC 9110, section 13.1.1.
        let tag = meta.e_tag.clone().filter(|tag| !tag.starts_with("W/"));
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

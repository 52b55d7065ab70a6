//! The figures of earlier reports on a database, which its page keeps.
//!
//! They are in a comment at the start of the page, as JSON: the page is a file of the user, which
//! can be moved, mailed and deleted, and nothing else of the machine or the database changes. A
//! file is a page of `report` if and only if it begins with such a comment that can be read. The
//! file can come from anywhere, so all of it is only numbers and text to display.

use densite_disk::hash::xxh3_64;
use densite_disk::{File, OpenMode, RealFile};
use densite_tools::json::kind;
use densite_tools::{Form, Info};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How a page begins, up to the JSON.
const START: &str = "<!doctype html>\n<!--densite-report ";
const END: &str = "-->\n";
/// Version of the JSON.
const VERSION: u32 = 1;
/// The largest number of reports in a page. The oldest one is kept, then the newest ones.
const RUNS_MAX: usize = 100;
/// The largest number of objects whose sizes a page keeps.
const OBJECTS_MAX: usize = 500;
/// A longer comment was not written by this program.
const BYTES_MAX: usize = 1 << 20;

/// The figures of one report, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Seconds since 1970, UTC.
    pub(super) time: i64,
    pub(super) compressed: bool,
    pub(super) logical: u64,
    pub(super) stored: u64,
    pub(super) live: u64,
    pub(super) dead: u64,
    pub(super) free: u64,
    pub(super) wal: u64,
}

/// The size of an object in the newest report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    kind: String,
    name: String,
    raw: u64,
}

/// The figures of a database's reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    version: u32,
    /// A hash of the database's path, because the page can go to others.
    database: String,
    /// Oldest first; the last one is this report's.
    runs: Vec<Run>,
    /// The objects of the last report.
    objects: Vec<Known>,
    /// Those of the report before it.
    #[serde(skip)]
    before: Option<Vec<Known>>,
}

/// What is at the path of a new page.
pub(crate) enum Found {
    /// No file.
    Nothing,
    /// A page about the same database.
    Page(History),
    /// A page about another database.
    OfAnother,
    /// Another file, or one that cannot be read.
    Foreign,
}

impl History {
    /// The history of a database without earlier reports.
    pub(crate) fn new(db: &Path) -> History {
        let whole = std::fs::canonicalize(db);
        let path = whole.as_deref().unwrap_or(db).as_os_str();
        History {
            version: VERSION,
            database: format!("{:016x}", xxh3_64(path.as_encoded_bytes())),
            runs: Vec::new(),
            objects: Vec::new(),
            before: None,
        }
    }

    /// Reads the file at `path`, for a report on `db`.
    pub(crate) fn find(path: &Path, db: &Path) -> Found {
        match std::fs::symlink_metadata(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Found::Nothing,
            Ok(there) if there.is_file() => {}
            _ => return Found::Foreign,
        }
        let new = History::new(db);
        match start(path).as_deref().and_then(History::parse) {
            Some(old) if old.database == new.database => Found::Page(old),
            Some(_) => Found::OfAnother,
            None => Found::Foreign,
        }
    }

    fn parse(start: &[u8]) -> Option<History> {
        let json = start.strip_prefix(START.as_bytes())?;
        let end = json.windows(END.len()).position(|w| w == END.as_bytes())?;
        let history: History = serde_json::from_slice(json.get(..end)?).ok()?;
        let known = history.version == VERSION && history.runs.len() <= RUNS_MAX;
        known.then_some(history)
    }

    /// Adds the figures of a report. Keeps the first and the newest ones.
    pub(crate) fn add(&mut self, info: &Info, time: i64) {
        let gain = info.gain.as_ref();
        self.runs.push(Run {
            time,
            compressed: info.form == Form::Compressed,
            logical: info.logical_bytes,
            stored: info.stored_bytes,
            live: gain.map_or(0, |g| g.live_bytes),
            dead: gain.map_or(0, |g| g.dead_bytes),
            free: gain.map_or(0, |g| g.free_bytes),
            wal: info.wal_bytes,
        });
        if self.runs.len() > RUNS_MAX {
            self.runs.remove(1);
        }
        let known = info.objects.all.iter().filter(|o| o.name.is_some());
        let known = known.take(OBJECTS_MAX).map(|o| Known {
            kind: kind(o.kind).to_owned(),
            name: o.name.clone().unwrap_or_default(),
            raw: o.raw_bytes,
        });
        let objects = known.collect();
        let before = std::mem::replace(&mut self.objects, objects);
        self.before = (self.runs.len() > 1).then_some(before);
    }

    /// All reports, oldest first.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The bytes of an object in the report before the last one. The outer `None`: its objects are
    /// not known.
    pub(super) fn before(&self, object: &densite_tools::Object) -> Option<Option<u64>> {
        let before = self.before.as_ref().filter(|b| !b.is_empty())?;
        let name = object.name.as_deref()?;
        let known = before
            .iter()
            .find(|k| k.name == name && k.kind == kind(object.kind));
        match known {
            // One that was too small to be kept.
            None if before.len() >= OBJECTS_MAX => None,
            known => Some(known.map(|k| k.raw)),
        }
    }

    /// The start of a page with this history.
    pub(super) fn start(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        let mut start = String::from(START);
        for c in json.chars() {
            match c {
                // So that no name ends the comment. They are in strings only: numbers here are not
                // negative, except for times before 1970.
                '<' | '>' | '&' => start.push_str(&format!("\\u{:04x}", u32::from(c))),
                '-' if start.ends_with(['-', '!']) => start.push_str("\\u002d"),
                c => start.push(c),
            }
        }
        start + END
    }
}

/// The first bytes of a regular file.
fn start(path: &Path) -> Option<Vec<u8>> {
    let file = RealFile::open(path, OpenMode::Read).ok()?;
    let mut bytes = vec![0; START.len() + BYTES_MAX];
    let n = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(n);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(name: &str, runs: usize) -> History {
        let run = |i| Run {
            time: i as i64,
            compressed: true,
            logical: 3,
            stored: 2,
            live: 1,
            dead: 1,
            free: 0,
            wal: 0,
        };
        History {
            runs: (0..runs).map(run).collect(),
            objects: vec![Known {
                kind: "table".into(),
                name: name.into(),
                raw: 1,
            }],
            ..History::new(Path::new("/a.db"))
        }
    }

    #[test]
    fn a_history_is_read_as_it_was_written_whatever_the_names_are() {
        for name in [
            "-->",
            "--!>",
            "a--->b--",
            "<!--",
            "-",
            "\"\\\n\u{0}&amp;",
            "->",
            "",
        ] {
            let history = history(name, 3);
            let start = history.start();
            let comment = &start[START.len()..start.len() - END.len()];
            assert!(!comment.contains('>') && !comment.contains("--"), "{start}");
            assert_eq!(History::parse(start.as_bytes()), Some(history));
        }
    }

    #[test]
    fn what_was_cut_or_changed_is_no_history() {
        let start = history("t", 2).start();
        for end in 0..start.len() - 1 {
            assert_eq!(History::parse(&start.as_bytes()[..end]), None, "{end}");
        }
        for (old, new) in [
            ("\"version\":1", "\"version\":2"),
            ("\"logical\":3", "\"logical\":-3"),
            ("\"logical\":3", "\"logical\":1e300"),
            ("\"runs\":[", "\"runs\":[{},"),
        ] {
            let changed = start.replace(old, new);
            assert_ne!(changed, start);
            assert_eq!(History::parse(changed.as_bytes()), None, "{new}");
        }
        let long = history("t", RUNS_MAX + 1).start();
        assert_eq!(History::parse(long.as_bytes()), None);
    }
}

//! What the files of a database look like, to see changes without opening it.

use crate::target::beside;
use densite_sqlite::Companions;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Inode, length, and time of the last change in seconds and nanoseconds.
type File = (u64, u64, i64, i64);

/// Two changes within this time can have one time stamp.
const TICK: Duration = Duration::from_secs(3);

/// What the files of a database looked like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Files([Option<File>; 5]);

impl Files {
    /// The files of the database at `path` now.
    pub(super) fn of(path: &Path) -> Files {
        let file = |path: &Path| {
            let meta = std::fs::metadata(path).ok()?;
            Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
        };
        Files([
            file(path),
            file(&beside(path, Companions::DENSITE.wal)),
            file(&beside(path, Companions::DENSITE.journal)),
            file(&beside(path, "-log/end")),
            file(&beside(path, "-log/state")),
        ])
    }

    /// Whether any later change gets another time stamp than these files have.
    pub(super) fn are_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs().cast_signed());
        let limit = now - TICK.as_secs().cast_signed();
        self.0
            .iter()
            .flatten()
            .all(|(_, _, seconds, _)| *seconds < limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_any_file_is_seen() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.db");
        std::fs::write(&path, "a").expect("written");
        let before = Files::of(&path);
        assert_eq!(Files::of(&path), before);
        assert!(!before.are_settled(), "it was just written");
        std::fs::write(beside(&path, Companions::DENSITE.wal), "").expect("written");
        assert_ne!(Files::of(&path), before);
        std::fs::remove_file(beside(&path, Companions::DENSITE.wal)).expect("removed");
        assert_eq!(Files::of(&path), before);
        let file = std::fs::File::options().write(true).open(&path);
        let then = SystemTime::now() - Duration::from_secs(60);
        file.and_then(|file| file.set_modified(then))
            .expect("older");
        let old = Files::of(&path);
        assert!(old.are_settled() && old != before);
    }
}

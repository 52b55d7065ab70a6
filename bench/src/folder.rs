//! The folder of a measurement's files.

use std::fs;
use std::path::Path;

use crate::result::{About, Result};

/// Removes everything in the folder: an interrupted run leaves databases and the folders of their
/// logs.
///
/// # Errors
/// The file system's.
pub(crate) fn clear(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).about("read", folder)? {
        let path = entry.about("read", folder)?.path();
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.about("remove", &path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_an_interrupted_run_left_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("a.db-log")).expect("made");
        std::fs::write(folder.path().join("a.db-log/end"), "1").expect("written");
        std::fs::write(folder.path().join("a.db"), "2").expect("written");
        super::clear(folder.path()).expect("cleared");
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            0
        );
    }
}

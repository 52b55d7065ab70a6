//! Checks the store of a database file without SQLite.

use std::path::Path;

use densite_disk::{OpenMode, RealFile};
use densite_store::{CheckReport, Handle, Kind, Options};

/// The kind of a file; `Empty` if it does not exist.
///
/// # Panics
/// If it cannot be read.
pub fn kind(path: &Path) -> Kind {
    if !path.exists() {
        return Kind::Empty;
    }
    let file = RealFile::open(path, OpenMode::Read).expect("open");
    densite_store::probe(&file).expect("read")
}

/// Checks every frame, the map and the accounting of the store. This process must have no
/// connection to the file: closing it here would drop the locks of that connection (rule S14).
///
/// # Panics
/// If the file cannot be opened as a store.
pub fn check(path: &Path) -> CheckReport {
    let file = RealFile::open(path, OpenMode::Read).expect("open");
    let options = Options {
        read_only: true,
        threads: 0,
        ..Options::default()
    };
    let identity = format!("check:{}", path.display());
    let mut handle = Handle::open(Box::new(file), &identity, options)
        .unwrap_or_else(|e| panic!("{} does not open as a store: {e}", path.display()));
    handle.check(&mut |_, _| true).expect("check")
}

/// Asserts that the store, if the file is one, is sound and lost nothing. The page cache of the
/// system survives a killed process, so no commit can be cut off.
///
/// # Panics
/// If it is not.
pub fn assert_whole(path: &Path, what: &str) {
    if kind(path) != Kind::Densite {
        return;
    }
    let report = check(path);
    assert_eq!(report.problems, vec![], "{what}: {}", path.display());
    assert_eq!(report.cut, None, "{what}: {}", path.display());
}

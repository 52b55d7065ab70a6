//! The store of a database file, looked at without SQLite.

use std::path::Path;

use densite_disk::{OpenMode, RealFile};
use densite_store::{CheckReport, Handle, Kind, Options};

/// What the file is; `Empty` when there is none.
///
/// # Panics
/// When it cannot be read.
pub fn kind(path: &Path) -> Kind {
    if !path.exists() {
        return Kind::Empty;
    }
    let file = RealFile::open(path, OpenMode::Read).expect("open");
    densite_store::probe(&file).expect("read")
}

/// Checks every frame, the map and the accounting of the store. Only while this process has no
/// connection on the file: closing it here would drop that connection's locks (rule 14).
///
/// # Panics
/// When the file cannot be opened as a store.
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

/// Asserts that the store, if the file is one, is whole and lost nothing. The page cache outlives a
/// process, so after a kill no commit may be cut.
///
/// # Panics
/// When it is not.
pub fn assert_whole(path: &Path, what: &str) {
    if kind(path) != Kind::Densite {
        return;
    }
    let report = check(path);
    assert_eq!(report.problems, vec![], "{what}: {}", path.display());
    assert_eq!(report.cut, None, "{what}: {}", path.display());
}

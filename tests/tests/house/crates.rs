//! Where the crates of the workspace stand, and their sources.

use std::path::{Path, PathBuf};

/// Compressed databases and nothing else; what stands on them; what users run; what only tests use.
pub(super) const FOLDERS: [&str; 4] = ["core", "features", "apps", "lab"];

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The crates in a folder, by their paths from the root.
pub(super) fn crates(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).expect("the crates");
    let names = entries.map(|entry| entry.expect("a crate").file_name());
    let mut paths: Vec<String> = names
        .map(|name| format!("{folder}/{}", name.to_string_lossy()))
        .collect();
    paths.sort();
    paths
}

/// All crates.
pub(super) fn all_crates() -> impl Iterator<Item = String> {
    FOLDERS.into_iter().flat_map(crates)
}

/// The Rust files below these folders, which are named from the root.
pub(super) fn rust_files<P: AsRef<Path>>(folders: impl IntoIterator<Item = P>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = folders.into_iter().map(|f| root().join(f)).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|e| e == "rs") => found.push(path),
                false => {}
            }
        }
    }
    found
}

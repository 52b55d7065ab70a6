//! Pauses and deadlines have one mechanism, `densite_disk::wait`, and the busy timeout of a connection
//! one reader, so that each wait ends and backs off in the same way.

use crate::source::Source;
use std::path::{Path, PathBuf};

/// What only this file of the workspace may name.
const ONLY_IN: [(&[&str], &str); 2] = [
    (&["thread", "sleep"], "crates/disk/src/wait.rs"),
    (&["thread", "sleep_ms"], ""),
];

/// Crates that only tests use.
const FOR_TESTS: [&str; 3] = ["testing", "sim-disk", "format-doc"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources of all crates that users run.
fn sources() -> Vec<PathBuf> {
    let crates = std::fs::read_dir(root().join("crates")).expect("a folder");
    let names = crates.map(|entry| entry.expect("an entry").file_name());
    let names = names.filter(|name| !FOR_TESTS.iter().any(|other| name == other));
    let mut folders: Vec<PathBuf> = names
        .map(|n| root().join("crates").join(n).join("src"))
        .collect();
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

fn relative(file: &Path) -> String {
    let path = file.strip_prefix(root()).expect("below the root");
    path.display().to_string()
}

/// Whether the file itself is there only for tests.
fn is_test(file: &Path) -> bool {
    file.ends_with("tests.rs") || file.iter().any(|part| part == "tests")
}

#[test]
fn each_pause_goes_through_one_module() {
    let sources = sources();
    assert!(sources.len() > 500, "{}", sources.len());
    let mut wrong = Vec::new();
    for file in sources.iter().filter(|file| !is_test(file)) {
        let source = Source::read(file);
        let name = relative(file);
        let used = source
            .uses
            .iter()
            .map(|(path, _)| path)
            .chain(&source.paths);
        for path in used {
            for (what, allowed) in ONLY_IN {
                let is_named =
                    path.len() >= what.len() && path.windows(what.len()).any(|w| w == what);
                if is_named && name != allowed {
                    wrong.push(format!("{name}: {}", path.join("::")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "use densite_disk::wait: {wrong:#?}");
}

#[test]
fn one_function_reads_the_busy_timeout() {
    let reads = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).expect("a source");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        code.contains("PRAGMA busy_timeout\"")
    };
    let readers: Vec<String> = sources()
        .iter()
        .filter(|f| reads(f))
        .map(|f| relative(f))
        .collect();
    assert_eq!(readers, ["crates/sqlite/src/connection.rs"]);
}

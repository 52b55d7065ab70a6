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

/// Whether a file, by its name from the root, is there only for tests.
fn is_test(name: &str) -> bool {
    name.ends_with("/tests.rs") || name.contains("/tests/")
}

/// What a source names and only another file is allowed to.
fn forbidden(name: &str, source: &Source) -> Vec<String> {
    let used = source.uses.iter().map(|(path, _)| path);
    let used = used.chain(&source.paths);
    let is_elsewhere = |path: &&Vec<String>| {
        let mut only = ONLY_IN.iter();
        only.any(|(what, place)| name != *place && path.windows(what.len()).any(|w| w == *what))
    };
    let found = used.filter(is_elsewhere);
    found
        .map(|path| format!("{name}: {}", path.join("::")))
        .collect()
}

#[test]
fn a_pause_elsewhere_is_found() {
    for text in [
        "fn f() { std::thread::sleep(TIME); }",
        "use std::thread; fn f() { if x { thread::sleep(TIME); } }",
        "use std::thread::{self, sleep}; fn f() { sleep(TIME); }",
    ] {
        let source = Source::of(text).expect("Rust");
        assert_eq!(forbidden("crates/x/src/a.rs", &source).len(), 1, "{text}");
        assert!(forbidden("crates/disk/src/wait.rs", &source).is_empty());
    }
    let other = "#[cfg(test)] mod tests { fn f() { std::thread::sleep(TIME); } }";
    let source = Source::of(other).expect("Rust");
    assert!(forbidden("crates/x/src/a.rs", &source).is_empty());
}

#[test]
fn each_pause_goes_through_one_module() {
    let sources = sources();
    let files = sources.iter().map(|file| (relative(file), file));
    let files: Vec<_> = files.filter(|(name, _)| !is_test(name)).collect();
    assert!(files.len() > 500, "{}", files.len());
    let wrong = files
        .iter()
        .flat_map(|(name, file)| forbidden(name, &Source::read(file)));
    let wrong: Vec<String> = wrong.collect();
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

//! Pauses and deadlines have one mechanism, `densite_disk::wait`, and the busy timeout of a connection
//! one reader, so that each wait ends and backs off in the same way.

use crate::crates::{crates, root, rust_files};
use crate::source::Source;
use std::path::{Path, PathBuf};

/// What only this file of the workspace may name.
const ONLY_IN: [(&[&str], &str); 2] = [
    (&["thread", "sleep"], "core/disk/src/wait.rs"),
    (&["thread", "sleep_ms"], ""),
];

/// The sources of all crates that users run.
fn sources() -> Vec<PathBuf> {
    let crates = ["core", "features", "apps"].into_iter().flat_map(crates);
    rust_files(crates.map(|path| format!("{path}/src")))
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
        assert_eq!(forbidden("core/x/src/a.rs", &source).len(), 1, "{text}");
        assert!(forbidden("core/disk/src/wait.rs", &source).is_empty());
    }
    let other = "#[cfg(test)] mod tests { fn f() { std::thread::sleep(TIME); } }";
    let source = Source::of(other).expect("Rust");
    assert!(forbidden("core/x/src/a.rs", &source).is_empty());
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
    assert_eq!(readers, ["core/sqlite/src/connection.rs"]);
}

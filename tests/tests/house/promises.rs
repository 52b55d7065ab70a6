//! Tests and files that the documents name exist, so that a promise never rests on a name alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The documents of the project: those in its root, and all below these folders.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = ["docs", "examples", "bench", "python"]
        .map(PathBuf::from)
        .to_vec();
    let top = [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
    ];
    found.extend(top.map(PathBuf::from));
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root().join(&folder));
        for entry in entries.unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let entry = entry.expect("an entry");
            let path = folder.join(entry.file_name());
            let is_folder = entry.file_type().expect("a type").is_dir();
            let is_ours = !entry.file_name().to_string_lossy().starts_with('.');
            match is_folder {
                // Installed or measured files are not part of the project.
                true if is_ours && !path.ends_with("node_modules") && !path.ends_with("data") => {
                    folders.push(path);
                }
                false if path.extension().is_some_and(|e| e == "md") => found.push(path),
                _ => {}
            }
        }
    }
    found
}

fn text(document: &Path) -> String {
    let read = std::fs::read_to_string(root().join(document));
    read.unwrap_or_else(|e| panic!("{}: {e}", document.display()))
}

/// The texts between backquotes on one line.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|l| !l.starts_with("```"));
    lines.flat_map(|l| l.split('`').skip(1).step_by(2))
}

/// The tests that a document names: `path/of/file.rs::name`, or `::name` for a test of the last
/// named file.
fn named(document: &str) -> Vec<(&str, &str)> {
    let mut tests = Vec::new();
    let mut file = None;
    for quoted in quoted(document) {
        if let Some((path, name)) = quoted.split_once(".rs::") {
            file = Some(path);
            tests.push((path, name));
        } else if let Some(path) = quoted.strip_suffix(".rs") {
            file = Some(path);
        } else if let (Some(path), Some(name)) = (file, quoted.strip_prefix("::")) {
            tests.push((path, name));
        }
    }
    tests
}

/// Whether the file has a test of that name, and the test is run.
fn is_run(source: &str, name: &str) -> bool {
    // A function, or a line of the macro that creates one.
    let Some((before, _)) = source.split_once(&format!("fn {name}(")) else {
        return source.contains(&format!("    {name}: "));
    };
    let attributes = before.rsplit("\n\n").next().unwrap_or_default();
    !(before.trim_end().ends_with(']') && attributes.contains("#[ignore"))
}

#[test]
fn every_named_test_exists() {
    let document = text(Path::new("docs/DURABILITY.md"));
    let tests = named(&document);
    assert!(tests.len() > 100, "{}", tests.len());
    let mut missing = Vec::new();
    for (file, name) in tests {
        let source = std::fs::read_to_string(root().join(format!("{file}.rs"))).unwrap_or_default();
        if !is_run(&source, name) {
            missing.push(format!("{file}.rs::{name}"));
        }
    }
    assert!(
        missing.is_empty(),
        "docs/DURABILITY.md names tests that are not there or not run: {missing:#?}"
    );
}

/// The other documents name tests by shorter paths. A file whose path ends in this way must have
/// the test.
#[test]
fn every_abbreviated_test_name_exists() {
    let mut sources = Vec::new();
    let mut folders = ["crates", "tests", "fuzz"].map(|f| root().join(f)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let source = std::fs::read_to_string(&path).expect("a source");
                sources.push((path, source));
            }
        }
    }
    let mut missing = BTreeSet::new();
    for document in documents() {
        let text = text(&document);
        for (file, name) in named(&text) {
            let there = sources
                .iter()
                .any(|(path, source)| path.ends_with(format!("{file}.rs")) && is_run(source, name));
            if !there {
                missing.insert(format!("{}: {file}.rs::{name}", document.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Paths of files that the documents name in full exist.
#[test]
fn every_named_file_exists() {
    let tops: Vec<String> = std::fs::read_dir(root())
        .expect("the root")
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name != "target")
        .collect();
    let mut missing = BTreeSet::new();
    for document in documents() {
        for quoted in quoted(&text(&document)) {
            let path = quoted.split("::").next().unwrap_or_default();
            let is_path = path
                .split_once('/')
                .is_some_and(|(top, _)| tops.iter().any(|t| t == top))
                && !path.contains([' ', '*', '<', '{']);
            if is_path && !root().join(path).exists() {
                missing.insert(format!("{}: {path}", document.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// ARCHITECTURE.md has a row for each crate, and the crates that it says forbid `unsafe` do so.
#[test]
fn every_crate_is_described() {
    let document = text(Path::new("ARCHITECTURE.md"));
    let mut wrong = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("crates")).expect("the rooms") {
        let room = entry.expect("an entry").file_name();
        let room = room.to_string_lossy();
        let mark = format!("| `crates/{room}` | ");
        let Some(row) = document.lines().find(|l| l.starts_with(&mark)) else {
            wrong.insert(format!("{room} has no row"));
            continue;
        };
        let source = std::fs::read_to_string(root().join(format!("crates/{room}/src/lib.rs")));
        let forbids = source.is_ok_and(|s| s.contains("#![forbid(unsafe_code)]"));
        if row.contains("forbids `unsafe`") != forbids {
            wrong.insert(format!("{room} and its row disagree on unsafe code"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

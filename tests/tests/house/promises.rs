//! Tests and files that the documents name exist, so that a promise never rests on a name alone.

use crate::crates::{FOLDERS, all_crates, root, rust_files};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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

/// docs/DURABILITY.md and its pages.
fn durability() -> Vec<PathBuf> {
    let mut pages = documents();
    pages.retain(|page| page.starts_with("docs/durability") || page.ends_with("DURABILITY.md"));
    assert!(pages.len() > 5, "{pages:?}");
    pages
}

/// The pages about durability name tests by their full paths.
#[test]
fn every_named_test_exists() {
    let (mut missing, mut count) = (Vec::new(), 0);
    for page in durability() {
        for (file, name) in named(&text(&page)) {
            count += 1;
            let source = std::fs::read_to_string(root().join(format!("{file}.rs")));
            if !is_run(&source.unwrap_or_default(), name) {
                missing.push(format!("{}: {file}.rs::{name}", page.display()));
            }
        }
    }
    assert!(count > 300, "{count}");
    assert!(
        missing.is_empty(),
        "these tests are not there or not run: {missing:#?}"
    );
}

/// The numbered items of a list, and the rows of a table whose first column is a number.
fn items(text: &str) -> Vec<(usize, String)> {
    let mut items: Vec<(usize, String)> = Vec::new();
    for line in text.lines() {
        let row = line.strip_prefix("| ").unwrap_or(line);
        let rest = row.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = row.strip_suffix(rest).and_then(|n| n.parse().ok());
        match number {
            Some(number) if rest.starts_with(". ") || rest.starts_with(" | ") => {
                items.push((number, format!("{rest}\n")));
            }
            _ => {
                if let Some((_, text)) = items.last_mut() {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
    }
    items
}

/// What is wrong with a page of docs/durability. The promises of each section are numbered from 1.
/// The list below "Tests:" names the tests of each number, and no other text names a test.
fn untested(page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for section in page.split("\n#") {
        let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
        let heading = heading.trim_start_matches('#').trim();
        let (promises, tests) = body.split_once("\nTests:\n").unwrap_or((body, ""));
        if promises.contains("::") {
            wrong.push(format!("{heading}: a test is named outside of the list"));
        }
        let numbers: Vec<usize> = items(promises).iter().map(|(number, _)| *number).collect();
        if !numbers.iter().copied().eq(1..=numbers.len()) {
            wrong.push(format!("{heading}: promises {numbers:?}"));
        }
        let tests = items(tests);
        for (number, text) in &tests {
            if !text.contains(".rs") || !numbers.contains(number) {
                wrong.push(format!("{heading}: tests {number}"));
            }
        }
        let tested: Vec<usize> = tests.iter().map(|(number, _)| *number).collect();
        if heading != "What is not promised" && tested != numbers {
            wrong.push(format!("{heading}: promises {numbers:?}, tests {tested:?}"));
        }
    }
    wrong
}

#[test]
fn every_durability_promise_has_tests() {
    let (mut wrong, mut count) = (BTreeSet::new(), 0);
    for page in durability() {
        let text = text(&page);
        count += text.matches("\nTests:\n").count();
        for what in untested(&text) {
            wrong.insert(format!("{}: {what}", page.display()));
        }
    }
    assert!(count > 20, "{count}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_promise_without_tests_is_reported() {
    let page = |tests: &str| format!("# A\n\n## B\n\n| 1 | x |\n\n2. y\n   z\n\nTests:\n\n{tests}");
    assert_eq!(untested(&page("1. `a.rs::b`\n2. `a.rs::c`\n")), [""; 0]);
    assert_eq!(untested(&page("1. `a.rs::b`\n")).len(), 1);
    assert_eq!(untested(&page("1. `a.rs::b`\n2. none\n")).len(), 1);
    assert_eq!(untested("# A\n\n- b (`a.rs::c`)\n").len(), 1);
    assert_eq!(untested("# A\n\n1. b\n3. c\n").len(), 2);
}

/// The other documents name tests by shorter paths. A file whose path ends in this way must have
/// the test.
#[test]
fn every_abbreviated_test_name_exists() {
    let files = rust_files(FOLDERS.into_iter().chain(["tests", "fuzz"]));
    let read = |path: PathBuf| {
        let source = std::fs::read_to_string(&path).expect("a source");
        (path, source)
    };
    let sources: Vec<(PathBuf, String)> = files.into_iter().map(read).collect();
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
    for room in all_crates() {
        let mark = format!("| `{room}` | ");
        let Some(row) = document.lines().find(|l| l.starts_with(&mark)) else {
            wrong.insert(format!("{room} has no row"));
            continue;
        };
        let source = std::fs::read_to_string(root().join(format!("{room}/src/lib.rs")));
        let forbids = source.is_ok_and(|s| s.contains("#![forbid(unsafe_code)]"));
        if row.contains("forbids `unsafe`") != forbids {
            wrong.insert(format!("{room} and its row disagree on unsafe code"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

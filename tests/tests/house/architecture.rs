//! Everything that ARCHITECTURE.md names exists: files, folders, and the functions of its paths
//! through the code.

use crate::crates::{FOLDERS, root, rust_files};
use std::path::PathBuf;

/// The document with white space reduced to single blanks, so that names are not split by lines.
fn document() -> String {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the document");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// All sources of the crates, with their paths.
fn sources() -> Vec<(PathBuf, String)> {
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source");
        (path, text)
    };
    rust_files(FOLDERS).into_iter().map(read).collect()
}

/// Whether a source contains this text, not followed by a letter.
fn has(source: &str, what: &str) -> bool {
    let mut at = source.match_indices(what).map(|(at, _)| at + what.len());
    at.any(|end| !source[end..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Whether a source defines a function of that name, in an `impl` or a trait of the given type; or
/// else a module.
fn defines(source: &str, owner: Option<&str>, name: &str) -> bool {
    let function = format!("fn {name}");
    match owner.filter(|owner| owner.starts_with(char::is_uppercase)) {
        Some(owner) => {
            let heads = ["\nimpl", "\npub trait", "\npub(crate) trait", "\ntrait"];
            let source = format!("\n{source}");
            heads.iter().any(|head| {
                source.split(head).skip(1).any(|rest| {
                    let (head, body) = rest.split_once('{').unwrap_or_default();
                    let body = body.split("\n}").next().unwrap_or_default();
                    has(head, &format!(" {owner}")) && has(body, &function)
                })
            })
        }
        None => has(source, &function) || owner.is_none() && has(source, &format!("mod {name}")),
    }
}

/// Parses `Owner::name` or `name`, if it looks like a function.
fn function(quoted: &str) -> Option<(Option<&str>, &str)> {
    let is_name = |s: &str| {
        s.starts_with(|c: char| c.is_lowercase())
            && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match quoted.rsplit_once("::") {
        Some((owner, name)) if is_name(name) => Some((owner.rsplit("::").next(), name)),
        // Names that begin with `densite_` are names in SQL.
        None if is_name(quoted) && quoted.contains('_') && !quoted.starts_with("densite_") => {
            Some((None, quoted))
        }
        _ => None,
    }
}

#[test]
fn files_that_are_named_exist() {
    let document = document();
    let mut missing: Vec<&str> = quoted(&document)
        .filter(|path| {
            let top = path.split_once('/').map(|(top, _)| top);
            top.is_some_and(|top| top == "tests" || FOLDERS.contains(&top))
        })
        .filter(|path| !root().join(path).exists())
        .collect();
    missing.dedup();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn files_of_the_tables_exist() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the document");
    let mut missing = Vec::new();
    for section in text.split("\n## Inside ").skip(1) {
        let folder = section.split("Files are in `").nth(1);
        let folder = folder.and_then(|rest| rest.split('`').next());
        let folder = root().join(folder.expect("the folder of the files"));
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let (cell, rest) = row.split_once(" | ").expect("a first cell");
            let names: Vec<&str> = quoted(cell).collect();
            missing.extend(
                names
                    .iter()
                    .filter(|name| !folder.join(name).exists())
                    .map(|n| (*n).to_owned()),
            );
            // The other cells name files of the folders in the first one, or beside them.
            let is_file = |name: &&str| name.ends_with(".rs");
            for name in quoted(rest).filter(is_file) {
                let mut places = names.iter().map(|folder| format!("{folder}/{name}"));
                let exists = folder.join(name).exists()
                    || root().join(name).exists()
                    || places.any(|place| folder.join(place).exists());
                if !exists {
                    missing.push(name.to_owned());
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn functions_that_are_named_exist() {
    let (document, sources) = (document(), sources());
    let mut missing = Vec::new();
    for (owner, name) in quoted(&document).filter_map(function) {
        if !sources.iter().any(|(_, text)| defines(text, owner, name)) {
            missing.push(format!("{}::{name}", owner.unwrap_or_default()));
        }
    }
    // A name that is followed by a file name must be in that file.
    let pieces: Vec<&str> = document.split('`').collect();
    for window in pieces.windows(4).skip(1).step_by(2) {
        let [quoted, " (", file, _] = window else {
            continue;
        };
        let Some((owner, name)) = function(quoted) else {
            continue;
        };
        let file = root().join(file);
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if file.extension().is_some() && !defines(&text, owner, name) {
            missing.push(format!("{quoted} in {}", file.display()));
        }
    }
    missing.sort();
    missing.dedup();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn missing_names_are_found() {
    let source = "impl Reader {\n    pub(crate) fn newest(&mut self) {}\n}\nfn read_pages() {}";
    assert!(defines(source, Some("Reader"), "newest"));
    assert!(defines(source, None, "read_pages"));
    assert!(!defines(source, None, "read_page"), "only a part of a name");
    assert!(!defines(source, Some("Writer"), "newest"));
    let other = "impl Reader {}\nimpl Writer {\n    fn newest() {}\n}\n";
    assert!(
        !defines(other, Some("Reader"), "newest"),
        "another's method"
    );
    assert_eq!(function("Reader::newest"), Some((Some("Reader"), "newest")));
    assert_eq!(function("read_pages"), Some((None, "read_pages")));
    assert_eq!(function("SQLITE_CORRUPT"), None);
    assert_eq!(function("densite_applied"), None);
    assert_eq!(function("store"), None);
}

//! Few files and few public types share a name, so that a name leads to one place.

use crate::crates::{FOLDERS, root, rust_files};
use std::collections::BTreeMap;
use std::path::Path;

/// How often a name may stand in the workspace.
const MOST: usize = 3;
/// Names that Rust gives, and what each crate has one of.
const FILES: [&str; 6] = ["build", "error", "lib", "main", "mod", "tests"];
/// What each crate has one of.
const TYPES: [&str; 2] = ["Error", "Result"];

/// The names that stand too often, with how often they do.
fn repeated(names: impl IntoIterator<Item = String>, allowed: &[&str]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts.retain(|name, count| *count > MOST && !allowed.contains(&name.as_str()));
    let list = counts.into_iter();
    list.map(|(name, count)| format!("{name} {count} times"))
        .collect()
}

/// Whether a file holds tests: these are often named after what they test, and count for themselves.
fn is_test(file: &Path) -> bool {
    let path = file.strip_prefix(root()).expect("below the root");
    path.starts_with("fuzz") || path.iter().rev().skip(1).any(|part| part == "tests")
}

/// The public types that a source declares.
fn types(source: &str) -> impl Iterator<Item = String> {
    let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
    let names = source.lines().filter_map(move |line| {
        kinds
            .iter()
            .find_map(|kind| line.trim_start().strip_prefix(kind))
    });
    names.map(|rest| {
        let end = rest
            .find(|c: char| !c.is_alphanumeric())
            .unwrap_or(rest.len());
        rest[..end].to_owned()
    })
}

#[test]
fn a_name_of_a_file_stands_few_times() {
    let files = rust_files(FOLDERS.into_iter().chain(["bench", "fuzz", "tests"]));
    let (tests, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| is_test(file));
    assert!(tests.len() > 200 && others.len() > 800, "files are found");
    for group in [tests, others] {
        let stems = group.iter().filter_map(|file| file.file_stem());
        let found = repeated(stems.map(|s| s.to_string_lossy().into_owned()), &FILES);
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn a_name_of_a_public_type_stands_few_times() {
    let mut found = Vec::new();
    for file in rust_files(FOLDERS.into_iter().chain(["bench", "fuzz", "tests"])) {
        found.extend(types(&std::fs::read_to_string(&file).expect("a source")));
    }
    assert!(found.len() > 300, "types are found");
    let found = repeated(found, &TYPES);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn names_that_stand_too_often_are_found() {
    let source = "pub struct A;\n    pub enum A {\npub(crate) struct B;\npub type A<T> = T;\n";
    let names: Vec<String> = types(source).collect();
    assert_eq!(names, ["A", "A", "A"]);
    assert!(repeated(names.clone(), &[]).is_empty());
    let four = names.into_iter().chain(["A".to_owned()]);
    assert_eq!(repeated(four.clone(), &[]), ["A 4 times"]);
    assert!(repeated(four, &["A"]).is_empty());
}

//! The documents name tests; here it is seen that these exist, so that a promise is never held by a name alone.

use std::path::Path;

/// The tests a document names: `path/of/file.rs::name`.
fn named(document: &str) -> Vec<(&str, &str)> {
    let quoted = document.split('`').skip(1).step_by(2);
    quoted.filter_map(|q| q.split_once(".rs::")).collect()
}

#[test]
fn every_named_test_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let document =
        std::fs::read_to_string(root.join("docs/DURABILITY.md")).expect("docs/DURABILITY.md");
    let tests = named(&document);
    assert!(tests.len() > 40, "{}", tests.len());
    let mut missing = Vec::new();
    for (file, name) in tests {
        let source = std::fs::read_to_string(root.join(format!("{file}.rs"))).unwrap_or_default();
        // A function, or a line of the macro that makes one.
        let function = source
            .split(&format!("fn {name}("))
            .next()
            .filter(|before| before.len() < source.len());
        let ignored = function.is_some_and(|before| {
            before.trim_end().ends_with(']')
                && before
                    .rsplit("\n\n")
                    .next()
                    .is_some_and(|b| b.contains("#[ignore"))
        });
        let made = source.contains(&format!("    {name}: "));
        if (function.is_none() && !made) || ignored {
            missing.push(format!("{file}.rs::{name}"));
        }
    }
    assert!(
        missing.is_empty(),
        "docs/DURABILITY.md names tests that are not there or not run: {missing:#?}"
    );
}

/// Paths of files that README, ARCHITECTURE.md and the documents name.
#[test]
fn every_named_file_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut missing = Vec::new();
    for document in ["ARCHITECTURE.md", "docs/DURABILITY.md", "docs/FORMAT.md"] {
        let text = std::fs::read_to_string(root.join(document))
            .unwrap_or_else(|e| panic!("{document}: {e}"));
        for quoted in text.split('`').skip(1).step_by(2) {
            let path = quoted.split("::").next().unwrap_or_default();
            let is_path = path.contains('/') && !path.contains([' ', '*', '<', '.'])
                || path.contains('/') && path.ends_with(".rs");
            if is_path && !path.starts_with("target/") && !root.join(path).exists() {
                missing.push(format!("{document}: {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

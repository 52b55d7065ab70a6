//! What makes packages names files, targets and versions that exist. No container engine and no
//! workflow runs in the tests, so a wrong name would be found only at a release.

use crate::crates::{FOLDERS, crates, root};

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The text between the first `before` and the next `after`.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).expect("the beginning");
    rest.split_once(after).expect("the end").0
}

/// The Rust that `.ci/run` pins.
fn toolchain() -> String {
    between(&read(".ci/run"), "TOOLCHAIN=", "\n").to_owned()
}

#[test]
fn the_dockerfile_names_files_that_exist() {
    let text = read("Dockerfile");
    let built = ["target/release/densite", "target/release/libdensite.so"];
    let copied: Vec<&str> = text
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("/src/"))
        .collect();
    assert_eq!(copied.len(), 6, "{copied:?}");
    for path in copied {
        assert!(
            built.contains(&path) || root().join(path).exists(),
            "{path}"
        );
    }
    let image = between(&text, "FROM rust:", "-");
    assert!(toolchain().starts_with(&format!("{image}.")), "{image}");
    for package in ["densite-extension", "densite-cli"] {
        assert!(text.contains(&format!("-p {package}")), "{package}");
    }
    // Both stages are the same Debian, so that the program finds the glibc that it was linked with.
    assert!(text.contains("-trixie AS build") && text.contains("FROM debian:trixie-slim"));
}

#[test]
fn the_workflow_runs_targets_and_scripts_that_exist() {
    let text = read(".github/workflows/ci.yml");
    let makefile = read("Makefile");
    let mut words = text.split_whitespace().peekable();
    let mut found = 0;
    while let Some(word) = words.next() {
        if word == "make" {
            let target = words.peek().expect("a target");
            let defined = makefile.lines().any(|line| {
                line.split_once(':')
                    .is_some_and(|(names, _)| names.split(' ').any(|name| name == *target))
            });
            // In the comment at the top, `makes` and similar are other words.
            assert!(defined, "make {target}");
            found += 1;
        }
        if word.starts_with("scripts/") || word == ".ci/run" {
            assert!(root().join(word).exists(), "{word}");
            found += 1;
        }
    }
    assert_eq!(found, 4);
}

#[test]
fn the_oldest_rust_is_the_same_everywhere() {
    let oldest = between(&read("Cargo.toml"), "rust-version = \"", "\"").to_owned();
    for (path, text) in [
        (
            "examples/rust/Cargo.toml",
            format!("rust-version = \"{oldest}\""),
        ),
        ("scripts/need.sh", format!("rust_min={oldest}\n")),
        ("docs/install.md", format!("Rust {oldest} or newer")),
        ("docs/decisions/packages.md", format!("is {oldest}")),
        ("README.md", format!("Rust {oldest} or newer")),
        ("CONTRIBUTING.md", format!("Rust {oldest} or newer")),
    ] {
        assert!(read(path).contains(&text), "{path} does not say {text:?}");
    }
}

/// Clippy refuses functions of a newer standard library (`incompatible_msrv`). This test refuses
/// crates that need a newer compiler.
#[test]
fn no_dependency_needs_a_newer_rust_than_the_oldest() {
    let numbers = |version: &str| -> Vec<u32> {
        let parts = version.split('.');
        parts.map(|n| n.parse().expect("a number")).collect()
    };
    let oldest = numbers(between(&read("Cargo.toml"), "rust-version = \"", "\""));
    let asked = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    let metadata = String::from_utf8(asked.stdout).expect("UTF-8");
    let needed = metadata.split("\"rust_version\":\"").skip(1);
    let needed: Vec<&str> = needed.filter_map(|rest| rest.split('"').next()).collect();
    assert!(needed.len() > 100, "{} crates say it", needed.len());
    for version in needed {
        // 1.89 allows 1.89.1.
        let needed = numbers(version).into_iter().take(oldest.len());
        assert!(
            needed.le(oldest.iter().copied()),
            "a dependency needs Rust {version}"
        );
    }
}

#[test]
fn all_parts_have_one_version() {
    let cargo = read("Cargo.toml");
    let version = between(&cargo, "\nversion = \"", "\"");
    for line in cargo
        .lines()
        .filter(|l| l.starts_with("densite") && l.contains("version"))
    {
        assert!(line.contains(&format!("version = \"{version}\"")), "{line}");
    }
    let python = read("python/densite/_library.py");
    assert!(python.contains(&format!("__version__ = \"{version}\"")));
    assert!(read("CHANGELOG.md").contains(&format!("\n## {version}")));
}

/// The packages of the project that a crate always uses, by their names.
fn used(path: &str) -> Vec<String> {
    let manifest = read(&format!("{path}/Cargo.toml"));
    let (_, rest) = manifest
        .split_once("\n[dependencies]\n")
        .unwrap_or_default();
    let lines = rest.lines().take_while(|line| !line.starts_with('['));
    let own =
        lines.filter(|line| line.starts_with("densite-") && !line.contains("optional = true"));
    own.filter_map(|line| line.strip_prefix("densite-")?.split(['.', ' ']).next())
        .map(str::to_owned)
        .collect()
}

/// What a crate uses and none of these folders has.
fn foreign(path: &str, folders: &[&str]) -> Vec<String> {
    let found = used(path).into_iter();
    let is_there = |name: &String| {
        let mut paths = folders.iter().map(|folder| format!("{folder}/{name}"));
        paths.any(|path| root().join(path).is_dir())
    };
    found.filter(|name| !is_there(name)).collect()
}

/// Compressed databases use no log, no other machines and no command; no feature uses a command.
#[test]
fn the_folders_stand_one_on_another() {
    for at in 0..FOLDERS.len() - 1 {
        for path in crates(FOLDERS[at]) {
            let found = foreign(&path, &FOLDERS[..=at]);
            assert!(found.is_empty(), "{path} uses {found:?}");
        }
    }
    // What only tests use is used by none of these, and itself uses no command.
    for path in crates("lab") {
        let found = foreign(&path, &["core", "features", "lab"]);
        assert!(found.is_empty(), "{path} uses {found:?}");
    }
    // The check sees what a crate uses.
    assert!(used("core/vfs").contains(&"store".to_owned()));
    assert!(foreign("features/tools", &["core"]).contains(&"cluster".to_owned()));
}

/// A stream in a directory, and all else that only tests have, is in nothing that users get, whatever
/// features they choose.
#[test]
fn what_users_get_has_nothing_of_the_lab() {
    let lab: Vec<String> = crates("lab")
        .iter()
        .map(|path| path.replace("lab/", "densite-"))
        .collect();
    assert!(lab.contains(&"densite-directory-stream".to_owned()));
    let tree = |options: &[&str]| {
        let asked = std::process::Command::new(env!("CARGO"))
            .args(["tree", "--locked", "--offline", "--edges", "no-dev"])
            .args(["--prefix", "none", "--format", "{p} features: {f}"])
            .args(options)
            .current_dir(root())
            .output()
            .expect("cargo starts");
        assert!(asked.status.success(), "{options:?}");
        String::from_utf8(asked.stdout).expect("UTF-8")
    };
    for path in crates("apps") {
        let package = path.replace("apps/", "densite-");
        let package = package.trim_end_matches("-densite");
        for features in [&[][..], &["--all-features"], &["--no-default-features"]] {
            let tree = tree(&[&["--package", package], features].concat());
            let names: Vec<&str> = tree.lines().filter_map(|l| l.split(' ').next()).collect();
            let found: Vec<&&str> = names
                .iter()
                .filter(|n| lab.iter().any(|l| l == *n))
                .collect();
            assert!(found.is_empty(), "{package} {features:?}: {found:?}");
            let stream = tree.lines().find(|l| l.starts_with("densite-stream "));
            let stream = stream.unwrap_or_else(|| panic!("{package} has no streams"));
            assert!(
                !stream.contains("testing"),
                "{package} {features:?}: {stream}"
            );
        }
    }
    // The check sees the lab and the feature where they are.
    let tests = tree(&["--package", "densite-fuzz"]);
    assert!(tests.contains("\ndensite-directory-stream "), "{tests}");
    assert!(
        tests
            .lines()
            .any(|l| l.starts_with("densite-stream ") && l.contains("testing"))
    );
}

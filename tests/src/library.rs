//! Builds the shared library and the command.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The extension, built from these sources in the profile of the running test.
///
/// # Panics
/// If the build fails.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("libdensite.so"))
}

/// The `densite` command, built beside it.
///
/// # Panics
/// If the build fails.
pub fn command() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("densite"))
}

fn build(file: &str) -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let profile = program
        .parent()
        .and_then(Path::parent)
        .expect("target/PROFILE/deps/PROGRAM");
    let mut cargo = Command::new(env!("CARGO"));
    // A package alone would have fewer features of the libraries than `cargo test` gives them, and
    // most of it would be compiled once more.
    cargo.args(["build", "--quiet", "--locked", "--workspace"]);
    // `cargo test` sets these for the running test. The build script of `ring` asks for them. With
    // others, `ring` and all above it would be compiled again, for each package that has such tests.
    for (name, _) in std::env::vars_os() {
        let is_of_test = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if is_of_test {
            cargo.env_remove(name);
        }
    }
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    cargo.env(
        "CARGO_TARGET_DIR",
        profile.parent().expect("the target folder"),
    );
    let built = cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("run cargo");
    assert!(built.success(), "{file} does not build");
    let built = profile.join(file);
    assert!(built.exists(), "{} is not there", built.display());
    built
}

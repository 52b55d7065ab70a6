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

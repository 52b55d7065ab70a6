//! Builds the shared library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The extension, built from these sources in the profile of the running test.
///
/// # Panics
/// If the build fails.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let program = std::env::current_exe().expect("this program");
        let profile = program
            .parent()
            .and_then(Path::parent)
            .expect("target/PROFILE/deps/PROGRAM");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "densite-extension"]);
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
        assert!(built.success(), "the extension does not build");
        let library = profile.join("libdensite.so");
        assert!(library.exists(), "{} is not there", library.display());
        library
    })
}

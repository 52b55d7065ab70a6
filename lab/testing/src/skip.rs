//! Tests that cannot run on this machine.

use std::io::Write;

/// Reports why a test cannot run on this machine. The test then returns, and counts as passed.
///
/// The reason goes to standard error. The test harness hides that, so it is also appended as a line
/// to the file that `DENSITE_SKIPPED` names. `make test` counts these lines at its end.
///
/// # Panics
/// If `DENSITE_NO_SKIP` is 1: then every test has to run. If the file cannot be written.
pub fn skip(why: &str) {
    let strict = std::env::var("DENSITE_NO_SKIP").is_ok_and(|v| v == "1");
    assert!(!strict, "skipped under DENSITE_NO_SKIP=1: {why}");
    report(why);
}

/// As [`skip`], but also under `DENSITE_NO_SKIP=1`: for what a set-up has tried to install, and could
/// not.
pub(crate) fn report(why: &str) {
    eprintln!("skipped: {why}");
    if let Some(path) = std::env::var_os("DENSITE_SKIPPED") {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .create(true)
            .append(true)
            .open(path)
            .expect("DENSITE_SKIPPED");
        file.write_all(format!("{why}\n").as_bytes())
            .expect("DENSITE_SKIPPED");
    }
}

//! A process that has too many open files.

use std::fs::File;
use std::process::Command;

/// Tells the test to use up its descriptors and to open this database.
const DATABASE: &str = "DENSITE_TEST_DATABASE";

#[test]
fn opening_with_too_many_open_files_names_the_limit() {
    if let Some(path) = std::env::var_os(DATABASE) {
        let mut open = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            open.push(file);
        }
        let error = densite::open(path).expect_err("no descriptor is free");
        drop(open);
        let said = error.to_string();
        assert!(said.contains("raise its limit with ulimit -n"), "{said}");
        assert!(!said.contains("owner and mode"), "{said}");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    densite::open(&path)
        .and_then(|con| Ok(con.execute_batch("CREATE TABLE t(a)")?))
        .expect("created");
    let test = std::env::current_exe().expect("the path of this test");
    // The limit holds for the whole process, so the test runs again in its own.
    let ran = Command::new("sh")
        .args(["-c", "ulimit -n 40; exec \"$0\""])
        .arg(test)
        .env(DATABASE, path)
        .output()
        .expect("the shell runs");
    assert!(ran.status.success(), "{ran:?}");
}

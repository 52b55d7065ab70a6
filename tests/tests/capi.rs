//! The C API from C: a program that uses `include/densite.h` with the SQLite of the machine.

use densite_tests::library::library;
use std::path::Path;
use std::process::Command;

#[test]
fn a_program_in_c_uses_the_whole_api() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("use");
    let library = library();
    let folder = library.parent().expect("its folder");
    let built = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(root.join("../include"))
        .arg(root.join("tests/capi/use.c"))
        .arg("-L")
        .arg(folder)
        .args(["-ldensite", "-l:libsqlite3.so.0"])
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .output()
        .expect("run cc");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    for entry in ["usual", "default"] {
        let ran = Command::new(&program)
            .arg(dir.path().join(format!("{entry}-plain.db")))
            .arg(dir.path().join(format!("{entry}-small.db")))
            .arg(entry)
            .output()
            .expect("run the program");
        assert!(
            ran.status.success(),
            "{entry}: {:?}: {}",
            ran.status,
            String::from_utf8_lossy(&ran.stderr)
        );
        // The file was compressed and then decompressed in place.
        let bytes = std::fs::read(dir.path().join(format!("{entry}-small.db"))).expect("the file");
        assert!(bytes.starts_with(b"SQLite format 3"), "{entry}");
    }
}

#[test]
fn the_header_declares_every_exported_function() {
    let header = include_str!("../../include/densite.h");
    let symbols = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library())
        .output()
        .expect("run nm");
    let symbols = String::from_utf8_lossy(&symbols.stdout);
    let mut exported: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|name| name.starts_with("densite_"))
        // Functions of the Python package only, which no C program needs.
        .filter(|name| !name.starts_with("densite_capsule_"))
        .collect();
    exported.sort_unstable();
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|line| {
            !line.starts_with("typedef") && !line.starts_with("**") && line.ends_with(");")
        })
        .filter_map(|line| line.split_once('(')?.0.split([' ', '*']).next_back())
        .filter(|name| name.starts_with("densite_"))
        .collect();
    declared.sort_unstable();
    assert_eq!(exported, declared);
}

//! Which paths count as a Chroma directory, and which processes have it open.

use crate::made::{Age, Made};
use densite_tools::Error;
use densite_tools::chroma::{recognise, users};
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn a_directory_or_its_database() {
    let mut made = Made::new(Age::New);
    let a = made.collection("a");
    made.add(&a, "id", 0..10);
    made.persist(&a, 10);
    let dir = made.dir.path();
    let file = dir.join("chroma.sqlite3");
    let by_dir = recognise(dir).expect("looked at").expect("found");
    let by_file = recognise(&file).expect("looked at").expect("found");
    assert_eq!(
        (by_dir.dir(), by_dir.database()),
        (by_file.dir(), by_file.database())
    );
    assert!(!by_dir.named_database() && by_file.named_database());
    assert_eq!(
        densite_tools::chroma::prune(&made.ours(), &by_file)
            .expect("pruned")
            .rows,
        9
    );

    // A copy with another name has Chroma's tables, but no index files beside it.
    let copy = dir.join("backup.sqlite3");
    fs::copy(&file, &copy).expect("copied");
    assert_eq!(recognise(&copy).expect("looked at"), None);
    // A directory with only another database.
    let other = dir.join("other");
    fs::create_dir(&other).expect("made");
    fs::copy(&file, other.join("app.db")).expect("copied");
    assert_eq!(recognise(&other).expect("looked at"), None);
    // With both databases it is Chroma's.
    fs::copy(&file, other.join("chroma.sqlite3")).expect("copied");
    assert!(recognise(&other).expect("looked at").is_some());
}

#[test]
fn files_that_are_not_databases() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("chroma.sqlite3");
    assert_eq!(recognise(dir.path()).expect("looked at"), None);
    assert!(matches!(recognise(&file), Err(Error::NotFound { .. })));
    fs::write(&file, b"").expect("written");
    let e = recognise(dir.path()).expect_err("empty");
    assert!(matches!(e, Error::NotADatabase { empty: true, .. }), "{e}");
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("made");
    let e = recognise(dir.path()).expect_err("no file");
    assert!(matches!(e, Error::NotADatabase { empty: false, .. }), "{e}");
    // A dangling link counts as missing.
    fs::remove_dir(&file).expect("removed");
    std::os::unix::fs::symlink(dir.path().join("nowhere"), &file).expect("linked");
    assert_eq!(recognise(dir.path()).expect("looked at"), None);
}

#[test]
fn index_files_are_looked_for_beside_the_name() {
    let mut made = Made::new(Age::New);
    let a = made.collection("a");
    made.add(&a, "id", 0..10);
    made.persist(&a, 10);
    let elsewhere = tempfile::tempdir().expect("a directory");
    let (name, moved) = (
        made.dir.path().join("chroma.sqlite3"),
        elsewhere.path().join("chroma.sqlite3"),
    );
    fs::rename(&name, &moved).expect("moved");
    std::os::unix::fs::symlink(&moved, &name).expect("linked");
    assert_eq!(made.plan().expect("a plan").rows, 9);
    // Beside the other name there is no index.
    let found = recognise(&moved).expect("looked at").expect("found");
    let plan = densite_tools::chroma::plan(&made.ours(), &found).expect("a plan");
    assert_eq!(plan.rows, 0);
}

#[test]
fn a_process_that_has_it_open_is_named() {
    let mut made = Made::new(Age::New);
    let a = made.collection("a");
    made.add(&a, "id", 0..10);
    made.persist(&a, 10);
    let found = made.found();
    let mine = |pid: u32| users(&found).into_iter().any(|h| h.pid == pid);
    assert!(!mine(std::process::id()), "this process does not count");
    for file in ["chroma.sqlite3".into(), format!("{}/header.bin", a.vectors)] {
        let open = fs::File::open(made.dir.path().join(&file)).expect("open");
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::from(open))
            .spawn()
            .expect("a child");
        let named = users(&found);
        child.kill().expect("killed");
        child.wait().expect("gone");
        let named: Vec<_> = named.iter().filter(|h| h.pid == child.id()).collect();
        assert_eq!(named.len(), 1, "{file}");
        assert!(!mine(child.id()), "{file}");
    }
    // Another name of the same database file.
    let link = made
        .dir
        .path()
        .join("..")
        .join(format!("{}.link", std::process::id()));
    fs::hard_link(found.database(), &link).expect("linked");
    let open = fs::File::open(&link).expect("open");
    let mut child = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::from(open))
        .spawn()
        .expect("a child");
    let named = mine(child.id());
    child.kill().expect("killed");
    child.wait().expect("gone");
    fs::remove_file(&link).expect("removed");
    assert!(named);
}

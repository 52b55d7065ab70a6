use super::*;
use crate::target::{leftovers, resolve};
use densite_disk::File;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn mode(path: &Path) -> u32 {
    let meta = fs::metadata(path).expect("metadata");
    meta.permissions().mode() & 0o777
}

/// Creates a file with this mode.
fn like(dir: &tempfile::TempDir, name: &str, bits: u32) -> Target {
    let path = dir.path().join(name);
    fs::write(&path, b"old").expect("write");
    fs::set_permissions(&path, fs::Permissions::from_mode(bits)).expect("mode");
    resolve(&path).expect("a file")
}

#[test]
fn an_unfinished_copy_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let like = like(&dir, "a.db", 0o600);
    let temp = Temp::create(&like.path, &like, false).expect("a temporary file");
    assert_eq!(leftovers(&like.path), [temp.path()]);
    drop(temp);
    assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
}

#[test]
fn an_unfinished_copy_is_private_and_a_finished_one_as_open_as_its_source() {
    for (bits, replaces) in [
        (0o600, true),
        (0o644, true),
        (0o666, true),
        (0o640, false),
        (0o644, false),
        (0o604, false),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let like = like(&dir, "a.db", bits);
        let dst = dir.path().join("b.db");
        let wanted = if replaces { &like.path } else { &dst };
        let mut temp = Temp::create(wanted, &like, replaces).expect("a temporary file");
        assert_eq!(mode(temp.path()), 0o600, "{bits:o}");
        // Another user who opens the file while it is written gets no access: these permission bits
        // stay until the end.
        temp.open()
            .expect("open")
            .write_at(b"new", 0)
            .expect("write");
        assert_eq!(mode(temp.path()), 0o600, "{bits:o}");
        let usual = temp.mode;
        match replaces {
            true => temp.replace(&like).expect("replaced"),
            false => temp.rename_to(&dst).expect("placed"),
        }
        let want = if replaces { bits } else { bits & usual };
        assert_eq!(mode(wanted), want, "{bits:o}");
        assert_eq!(fs::read(wanted).expect("read"), b"new");
    }
}

#[test]
fn the_mode_at_the_end_counts() {
    let dir = tempfile::tempdir().expect("a directory");
    let like = like(&dir, "a.db", 0o644);
    let temp = Temp::create(&like.path, &like, true).expect("a temporary file");
    fs::set_permissions(&like.path, fs::Permissions::from_mode(0o600)).expect("mode");
    temp.replace(&like).expect("replaced");
    assert_eq!(mode(&like.path), 0o600);
}

#[test]
fn what_another_put_in_its_place_is_neither_changed_nor_used() {
    let dir = tempfile::tempdir().expect("a directory");
    let victim = dir.path().join("victim");
    fs::write(&victim, b"private").expect("write");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).expect("mode");
    for replaces in [true, false] {
        let like = like(&dir, "a.db", 0o666);
        let dst = dir.path().join("b.db");
        let wanted = if replaces { &like.path } else { &dst };
        let mut temp = Temp::create(wanted, &like, replaces).expect("a temporary file");
        fs::remove_file(temp.path()).expect("remove");
        std::os::unix::fs::symlink(&victim, temp.path()).expect("symlink");
        temp.open()
            .expect("open")
            .write_at(b"new", 0)
            .expect("write");
        let failed = match replaces {
            true => temp.replace(&like),
            false => temp.rename_to(&dst),
        };
        let failed = failed.expect_err("another file").to_string();
        assert!(failed.contains("something else in its place"), "{failed}");
        assert_eq!(mode(&victim), 0o600);
        assert_eq!(fs::read(&victim).expect("read"), b"private");
        assert_eq!(fs::read(&like.path).expect("read"), b"old");
        assert!(!dst.exists());
    }
}

#[test]
fn a_source_that_was_replaced_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let like = like(&dir, "a.db", 0o600);
    let temp = Temp::create(&like.path, &like, true).expect("a temporary file");
    fs::rename(&like.path, dir.path().join("away")).expect("rename");
    std::os::unix::fs::symlink("away", &like.path).expect("symlink");
    let refused = temp.replace(&like).expect_err("a link");
    assert!(
        refused.to_string().contains("replaced or renamed"),
        "{refused}"
    );
    let refused = Temp::create(&like.path, &like, true).expect_err("a link");
    assert!(
        refused.to_string().contains("replaced or renamed"),
        "{refused}"
    );
    assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 2);
}

#[test]
fn renaming_to_a_destination_never_replaces_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let dst = dir.path().join("b.db");
    let like = like(&dir, "a.db", 0o644);
    let mut temp = Temp::create(&dst, &like, false).expect("a temporary file");
    fs::write(&dst, b"mine").expect("write");
    assert!(matches!(temp.rename_to(&dst), Err(Error::Exists { .. })));
    assert_eq!(fs::read(&dst).expect("read"), b"mine");
    drop(temp);
    assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 2);
}

#[test]
fn a_missing_temporary_name_does_not_fail_the_rename() {
    let dir = tempfile::tempdir().expect("a directory");
    let dst = dir.path().join("b.db");
    let like = like(&dir, "a.db", 0o644);
    let temp = Temp::create(&dst, &like, false).expect("a temporary file");
    temp.dir.link(&temp.name, "b.db").expect("linked");
    temp.dir.remove(&temp.name).expect("removed");
    temp.leave_only(&dst, "b.db").expect("left");
    assert!(dst.exists());
}

#[test]
fn replacing_removes_the_journal_and_wal_of_the_old_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = like(&dir, "c.db", 0o644);
    fs::write(beside(&target.path, "-wal"), b"").expect("write");
    let temp = Temp::create(&target.path, &target, true).expect("a temporary file");
    temp.open()
        .expect("open")
        .write_at(b"new", 0)
        .expect("write");
    temp.replace(&target).expect("replace");
    assert_eq!(fs::read(&target.path).expect("read"), b"new");
    assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
}

#[test]
fn a_link_that_was_put_at_the_name_is_replaced_and_not_followed() {
    let dir = tempfile::tempdir().expect("a directory");
    let dst = dir.path().join("r.html");
    let victim = dir.path().join("victim");
    for exists in [true, false] {
        let mut temp = Temp::create_own(&dst, 0o777).expect("a temporary file");
        assert_eq!(mode(temp.path()), 0o600);
        temp.open()
            .expect("open")
            .write_at(b"page", 0)
            .expect("write");
        if exists {
            fs::write(&victim, b"private").expect("write");
        }
        std::os::unix::fs::symlink(&victim, &dst).expect("symlink");
        temp.rename_over(&dst).expect("renamed");
        let meta = fs::symlink_metadata(&dst).expect("metadata");
        assert!(meta.is_file());
        assert_eq!(fs::read(&dst).expect("read"), b"page");
        match exists {
            true => assert_eq!(fs::read(&victim).expect("read"), b"private"),
            false => assert!(!victim.exists()),
        }
        fs::remove_file(&dst).expect("remove");
        fs::remove_file(&victim).ok();
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 0);
    }
}

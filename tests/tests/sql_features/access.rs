//! Files with read permission only.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::*;
use densite_testing::skip;
use densite_tests::model::folder;

/// A user without any files. Permissions do not bind the superuser.
const NOBODY: u32 = 65534;

#[test]
fn mode_ro_reads_and_does_not_write() {
    let dir = folder();
    let path = dir.path().join("app.db");
    densite(&path).execute_batch(SOME_ROWS).expect("write");
    let before = std::fs::read(&path).expect("read");
    let uri = format!("file:{}?vfs=densite&mode=ro", path.display());
    let db = Connection::open_with_flags(uri, FLAGS).expect("open");
    check_rows(&db);
    let error = db.execute_batch("DELETE FROM t").expect_err("read-only");
    assert_eq!(code_of(&error).0, rusqlite::ffi::SQLITE_READONLY);
    assert!(db.is_readonly("main").expect("main is there"));
    // It sees writes of other connections.
    densite(&path)
        .execute_batch("DELETE FROM t WHERE id > 100")
        .expect("write");
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 100);
    drop(db);
    assert_ne!(
        before,
        std::fs::read(&path).expect("read"),
        "the other connection wrote"
    );

    let uri = format!(
        "file:{}?vfs=densite&mode=ro",
        dir.path().join("none.db").display()
    );
    let error = Connection::open_with_flags(uri, FLAGS).expect_err("not there");
    assert_eq!(code_of(&error).0, rusqlite::ffi::SQLITE_CANTOPEN);
    assert!(!dir.path().join("none.db").exists());
}

#[test]
fn a_reader_changes_no_byte() {
    let dir = folder();
    let path = dir.path().join("app.db");
    densite(&path).execute_batch(SOME_ROWS).expect("write");
    let before = std::fs::read(&path).expect("read");
    for parameters in ["", "mode=ro", "immutable=1", "level=19&run_pages=16"] {
        check_rows(&try_densite(&path, parameters).expect("open"));
        assert_eq!(before, std::fs::read(&path).expect("read"), "{parameters}");
    }
}

#[test]
fn immutable_takes_no_locks_and_makes_no_files() {
    let dir = folder();
    for journal in ["delete", "wal"] {
        let path = dir.path().join(format!("{journal}.db"));
        let db = densite(&path);
        assert_eq!(
            text(&db, &format!("PRAGMA journal_mode = {journal}")),
            journal
        );
        db.execute_batch(SOME_ROWS).expect("write");
        drop(db);
        let immutable = try_densite(&path, "immutable=1").expect("open");
        check_rows(&immutable);
        assert!(
            !dir.path().join(format!("{journal}.db-shm")).exists(),
            "no companions"
        );
        let error = immutable
            .execute_batch("DELETE FROM t")
            .expect_err("immutable");
        assert_eq!(code_of(&error).0, rusqlite::ffi::SQLITE_READONLY);
        // It holds no lock that blocks another connection.
        immutable
            .execute_batch("BEGIN; SELECT count(*) FROM t")
            .expect("read");
        let other = densite(&path);
        other
            .busy_timeout(std::time::Duration::ZERO)
            .expect("no waiting");
        other
            .execute_batch("BEGIN EXCLUSIVE; ROLLBACK")
            .expect("no lock is in the way");
    }
}

/// Plain SQLite and Densite return the same results to a user without rights.
#[test]
fn read_only_files_and_folders() {
    let dir = folder();
    open_to_all(dir.path());
    // Rollback and WAL, in directories with and without write permission, and in files with and
    // without it.
    for (journal, folder_mode, file_mode) in [
        ("delete", 0o555, 0o666),
        ("delete", 0o555, 0o444),
        ("delete", 0o777, 0o444),
        ("wal", 0o555, 0o666),
        ("wal", 0o555, 0o444),
        ("wal", 0o777, 0o444),
        ("delete", 0o777, 0o000),
    ] {
        let name = format!("{journal}-{folder_mode:o}-{file_mode:o}");
        let inner = dir.path().join(&name);
        std::fs::create_dir(&inner).expect("make a folder");
        for (file, through) in [("plain.db", false), ("dense.db", true)] {
            let path = inner.join(file);
            let db = if through {
                densite(&path)
            } else {
                plain(&path)
            };
            assert_eq!(
                text(&db, &format!("PRAGMA journal_mode = {journal}")),
                journal
            );
            db.execute_batch(SOME_ROWS).expect("write");
            drop(db);
            std::fs::set_permissions(&path, PermissionsExt::from_mode(file_mode)).expect("chmod");
        }
        std::fs::set_permissions(&inner, PermissionsExt::from_mode(folder_mode)).expect("chmod");
        let before = std::fs::read(inner.join("dense.db"));
        let answers = as_nobody(&inner);
        std::fs::set_permissions(&inner, PermissionsExt::from_mode(0o755)).expect("chmod");
        let Some(answers) = answers else { return };
        let of = |file: &str| -> Vec<String> {
            let lines = answers
                .lines()
                .filter_map(|l| l.strip_prefix(&format!("answer {file} ")));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(of("plain.db").len(), 8, "{name}: {answers}");
        assert_eq!(of("plain.db"), of("dense.db"), "{name}");
        if file_mode == 0o444 || folder_mode == 0o555 {
            assert_eq!(
                before.ok(),
                std::fs::read(inner.join("dense.db")).ok(),
                "{name}: the file changed"
            );
        }
    }
}

/// The work of the child process.
#[test]
#[ignore = "a child of read_only_files_and_folders"]
fn child_without_rights() {
    let Some(dir) = std::env::var_os("DENSITE_CHILD_DIR").map(std::path::PathBuf::from) else {
        return;
    };
    register();
    for (file, vfs) in [("plain.db", "unix"), ("dense.db", "densite")] {
        for parameters in ["", "&mode=ro", "&immutable=1", "&nolock=1"] {
            let uri = format!("file:{}?vfs={vfs}{parameters}", dir.join(file).display());
            let db = Connection::open_with_flags(uri, FLAGS);
            let say = |found: rusqlite::Result<String>| match found {
                Ok(found) => found,
                Err(rusqlite::Error::SqliteFailure(e, _)) => format!("error {}", e.extended_code),
                Err(e) => e.to_string(),
            };
            let read = db.and_then(|db| {
                let sum = try_text(&db, "SELECT sum(length(x)) FROM t")?;
                let wrote = db.execute("INSERT INTO t(x) VALUES ('written')", []);
                Ok((sum, say(wrote.map(|n| n.to_string()))))
            });
            match read {
                Ok((sum, wrote)) => {
                    println!("\nanswer {file} {parameters} reads {sum}");
                    println!("\nanswer {file} {parameters} writes {wrote}");
                }
                Err(e) => {
                    println!("\nanswer {file} {parameters} reads {}", say(Err(e)));
                    println!("\nanswer {file} {parameters} writes nothing");
                }
            }
        }
    }
}

/// Runs `child_without_rights` as a user without rights; `None` if this is not possible here.
fn as_nobody(dir: &Path) -> Option<String> {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args([
            "--exact",
            "sql_features::access::child_without_rights",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("DENSITE_CHILD_DIR", dir)
        .current_dir("/");
    let root = rustix_uid() == 0;
    if root {
        command.uid(NOBODY).gid(NOBODY);
    }
    match command.output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                output.status.success(),
                "{text}\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
            Some(text)
        }
        Err(error) => {
            skip(&format!(
                "another user cannot run this test's program: {error}"
            ));
            None
        }
    }
}

fn rustix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    // The owner of `/proc/self` is the user of this process.
    std::fs::metadata("/proc/self").map_or(0, |m| m.uid())
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("chmod");
}

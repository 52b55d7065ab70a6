//! Bad input gives one message and the documented exit code, and changes no file.

use crate::common::*;
use std::fs;
use std::process::Command;

/// Runs the command and asserts its code, its message, and that no file of the directory changed.
#[track_caller]
fn refused(dir: &tempfile::TempDir, args: &[&str], code: i32, words: &str) -> Ran {
    let before = snapshot(dir.path());
    let ran = densite(args).expect(code).says(words);
    assert!(
        snapshot(dir.path()) == before,
        "files changed: {:?}",
        names(dir.path())
    );
    ran
}

#[test]
fn no_such_file() {
    let dir = temp();
    let x = at(&dir, "x.db");
    for verb in ["compress", "decompress", "info", "check"] {
        refused(&dir, &[verb, &x], 1, "x.db: there is no such file");
    }
    refused(
        &dir,
        &["sql", &at(&dir, "no/x.db"), "SELECT 1"],
        1,
        "there is no such file",
    );
}

#[test]
fn a_directory() {
    let dir = temp();
    fs::create_dir(dir.path().join("d")).expect("mkdir");
    let d = at(&dir, "d");
    for args in [
        &["compress", &*d][..],
        &["decompress", &d],
        &["info", &d],
        &["check", &d],
        &["sql", &d, "SELECT 1"],
    ] {
        refused(&dir, args, 5, "is a directory, not a database");
    }
}

#[test]
fn not_a_database() {
    let dir = temp();
    let x = at(&dir, "x.db");
    fs::write(&x, b"a,b\n1,2\n".repeat(2000)).expect("write");
    for verb in ["compress", "decompress", "info", "check"] {
        refused(&dir, &[verb, &x], 5, "x.db is not a SQLite database");
    }
    refused(
        &dir,
        &["sql", &x, "SELECT * FROM sqlite_schema"],
        5,
        "file is not a database",
    );
}

#[test]
fn an_empty_file() {
    let dir = temp();
    let x = at(&dir, "x.db");
    fs::write(&x, b"").expect("write");
    for verb in ["compress", "decompress"] {
        refused(&dir, &[verb, &x], 5, "x.db is empty");
    }
    assert_eq!(
        densite(&["info", &x, "--json"]).expect(0).json()["form"],
        "empty"
    );
    assert_eq!(
        densite(&["check", &x, "--json"]).expect(0).json()["ok"],
        true
    );
}

#[test]
fn a_truncated_header() {
    let dir = temp();
    let x = at(&dir, "x.db");
    fs::write(&x, b"SQLite format 3\0and no more").expect("write");
    refused(&dir, &["compress", &x], 5, "not a SQLite database");
}

#[test]
fn the_wrong_form() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    plain(&a, 4096, 100);
    densite(&["compress", &a, &b]).expect(0);
    let before = snapshot(dir.path());
    for (verb, file, words) in [
        ("compress", &b, "b.db is compressed already"),
        ("decompress", &a, "a.db is a plain SQLite database already"),
    ] {
        densite(&[verb, file]).expect(0).says(words);
        let said = densite(&[verb, file, "--json"])
            .expect(0)
            .says(words)
            .json();
        assert_eq!(
            (&said["already"], &said["verb"]),
            (&true.into(), &verb.into())
        );
        let quiet = densite(&[verb, file, "--quiet"]).expect(0);
        assert!(quiet.out.is_empty() && quiet.err.is_empty(), "{quiet:?}");
        // With a separate destination this is an error, because the destination would be missing.
        refused(&dir, &[verb, file, &at(&dir, "c.db")], 1, words);
    }
    assert!(snapshot(dir.path()) == before, "{:?}", names(dir.path()));
}

#[test]
fn an_existing_destination() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    plain(&a, 4096, 100);
    fs::write(&b, b"precious").expect("write");
    refused(
        &dir,
        &["compress", &a, &b],
        1,
        "b.db exists already and was not changed",
    );
    refused(&dir, &["compress", &a, &a], 1, "this is the source itself");
    fs::write(&b, b"").expect("write");
    refused(&dir, &["compress", &a, &b], 1, "b.db exists already");
    // SQLite would roll the journal of an earlier database into the new one.
    fs::remove_file(&b).expect("remove");
    fs::write(at(&dir, "b.db-journal"), b"x").expect("write");
    refused(
        &dir,
        &["compress", &a, &b],
        1,
        "b.db-journal exists already",
    );
    std::os::unix::fs::symlink("nowhere", at(&dir, "c.db")).expect("symlink");
    refused(
        &dir,
        &["compress", &a, &at(&dir, "c.db")],
        1,
        "c.db exists already",
    );
    refused(
        &dir,
        &["compress", &a, &at(&dir, "no/c.db")],
        1,
        "there is no such file",
    );
}

#[test]
fn usage() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 100);
    for args in [
        &["compress", &*a, "--level", "23"][..],
        &["compress", &a, "--level", "-8"],
        &["compress", &a, "--level", "much"],
        &["compress", &a, "--page-size", "1000"],
        &["compress", &a, "--page-size", "131072"],
        &["compress", &a, "--threads", "-1"],
        &["compress", &a, "--cache-size", "x"],
        &["compress"],
        &["compress", &a, "b", "c"],
        &["squeeze", &a],
        &["info", &a, "--frobnicate"],
        &["sql", &a, "SELECT 1", "--format", "xml"],
        &[],
    ] {
        let before = snapshot(dir.path());
        let ran = densite(args).expect(2);
        assert!(
            !ran.err.is_empty() && ran.out.is_empty(),
            "{args:?}: {ran:?}"
        );
        assert!(snapshot(dir.path()) == before);
    }
    densite(&["compress", &a, "--level", "23"]).says("the level goes from -7 to 22");
    let ran = densite(&["compress", &a, "--level", "23", "--json"]).expect(2);
    assert_eq!(ran.json()["error"]["kind"], "usage");
}

#[test]
fn a_newer_format() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    plain(&a, 4096, 100);
    densite(&["compress", &a, &b]).expect(0);
    let mut bytes = fs::read(&b).expect("read");
    // As a later version would write it: docs/FORMAT.md, header.
    bytes[16] = 9;
    let sum = densite_disk::hash::xxh3_64(&bytes[..32]);
    bytes[32..40].copy_from_slice(&sum.to_le_bytes());
    fs::write(&b, bytes).expect("write");
    for verb in ["decompress", "info", "check"] {
        let ran = refused(
            &dir,
            &[verb, &b],
            1,
            "format version 9, but this program reads versions up to 1",
        );
        assert!(ran.err.contains("use a newer Densite"));
    }
    let before = snapshot(dir.path());
    densite(&["sql", &b, "SELECT * FROM t"])
        .expect(1)
        .says("use a newer Densite");
    assert!(snapshot(dir.path()) == before);
}

#[test]
fn an_unknown_uri_value() {
    let dir = temp();
    let a = at(&dir, "a.db");
    for parameter in [
        "level=99",
        "level=x",
        "threads=-1",
        "codec=lz4",
        "readahead=perhaps",
    ] {
        let ran =
            densite(&["sql", &format!("file:{a}?{parameter}"), "CREATE TABLE t(a)"]).expect(1);
        let value = parameter.split('=').next_back().expect("a value");
        assert!(ran.err.contains(value), "{parameter} is not named: {ran:?}");
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    }
}

#[test]
fn no_permission() {
    let dir = temp();
    chmod(dir.path(), 0o755);
    let a = at(&dir, "a.db");
    plain(&a, 4096, 100);
    chmod(&a, 0o000);
    for verb in ["compress", "info", "check"] {
        unprivileged(&dir, &[verb, &a])
            .expect(1)
            .says("a.db: no permission to");
    }
    unprivileged(&dir, &["sql", &a, "SELECT 1 FROM t"]).expect(1);
}

#[test]
fn a_read_only_directory() {
    let dir = temp();
    let other = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 500);
    chmod(&a, 0o644);
    chmod(dir.path(), 0o555);
    chmod(other.path(), 0o777);
    let before = snapshot(dir.path());
    unprivileged(&dir, &["compress", &a])
        .expect(1)
        .says("no permission to create a file in it");
    assert!(snapshot(dir.path()) == before);
    // Reading needs only read permission.
    unprivileged(&dir, &["compress", &a, &at(&other, "b.db")]).expect(0);
    assert!(is_compressed(&at(&other, "b.db")));
    unprivileged(&dir, &["info", &a]).expect(0);
    unprivileged(&dir, &["check", &a]).expect(0);
    chmod(dir.path(), 0o755);
    fs::copy(at(&other, "b.db"), at(&dir, "b.db")).expect("copy");
    chmod(at(&dir, "b.db"), 0o444);
    chmod(dir.path(), 0o555);
    unprivileged(&dir, &["info", &at(&dir, "b.db")]).expect(0);
    unprivileged(&dir, &["check", &at(&dir, "b.db")]).expect(0);
    unprivileged(
        &dir,
        &["decompress", &at(&dir, "b.db"), &at(&other, "c.db")],
    )
    .expect(0);
    chmod(dir.path(), 0o755);
}

#[test]
fn wal_mode_in_a_read_only_directory() {
    // SQLite alone cannot open these databases: it needs shared memory beside them.
    let dir = temp();
    let other = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    plain(&a, 4096, 500);
    densite(&["sql", &a, "PRAGMA journal_mode=WAL"]).expect(0);
    densite(&["compress", &a, &b]).expect(0);
    for path in [&a, &b] {
        chmod(path, 0o444);
    }
    chmod(dir.path(), 0o555);
    chmod(other.path(), 0o777);
    let before = snapshot(dir.path());
    for path in [&a, &b] {
        unprivileged(&dir, &["info", path]).expect(0);
        unprivileged(&dir, &["check", path]).expect(0);
    }
    unprivileged(&dir, &["compress", &a, &at(&other, "a2.db")]).expect(0);
    unprivileged(&dir, &["decompress", &b, &at(&other, "b2.db")]).expect(0);
    assert!(snapshot(dir.path()) == before);
    assert_same_but_unused(
        &fs::read(&a).expect("read"),
        &fs::read(at(&other, "b2.db")).expect("read"),
    );
    // With a WAL, the file alone is not the whole state.
    chmod(dir.path(), 0o755);
    fs::write(at(&dir, "a.db-wal"), b"x").expect("write");
    chmod(dir.path(), 0o555);
    let ran = unprivileged(&dir, &["compress", &a, &at(&other, "a3.db")]).expect(1);
    assert!(ran.err.contains("a.db: no permission to"), "{ran:?}");
    chmod(dir.path(), 0o755);
}

#[test]
fn a_read_only_file_is_not_replaced() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 100);
    chmod(&a, 0o444);
    chmod(dir.path(), 0o777);
    let before = snapshot(dir.path());
    unprivileged(&dir, &["compress", &a])
        .expect(1)
        .says("a.db: no permission to");
    assert!(snapshot(dir.path()) == before);
}

#[test]
fn too_little_disk_space_is_reported_before_the_work_begins() {
    let dir = temp();
    let a = at(&dir, "a.db");
    let most = longer_than_any_disk(&a);
    let ran = densite(&["compress", &a, &at(&dir, "b.db"), "--json"])
        .expect(4)
        .says("not enough disk space in");
    assert_eq!(names(dir.path()), ["a.db"]);
    let error = &ran.json()["error"];
    assert_eq!(error["kind"], "no_space");
    assert!(error["needed_bytes"].as_u64() >= Some(most), "{error}");
    assert!(error["available_bytes"].as_u64() < Some(most), "{error}");
    densite(&["compress", &a]).expect(4);
    assert_eq!(names(dir.path()), ["a.db"]);
}

/// Runs the command under a limit on file sizes, which acts like a disk that becomes full during a
/// write.
pub(crate) fn limited(bytes: u64, args: &[&str]) -> Ran {
    run(Command::new("env")
        .args([
            "--ignore-signal=XFSZ",
            "prlimit",
            &format!("--fsize={bytes}"),
            DENSITE,
        ])
        .args(args))
}

#[test]
fn a_disk_that_is_full_from_the_start_leaves_no_new_file() {
    let dir = temp();
    let rows = at(&dir, "rows.csv");
    std::fs::write(&rows, "a,b\n1,2\n").expect("write");
    // For a journal that cannot be written, SQLite only reports this.
    limited(0, &["load", &at(&dir, "new.db"), "t", &rows])
        .expect(1)
        .says("disk I/O error");
    assert_eq!(names(dir.path()), ["rows.csv"]);
    let a = at(&dir, "a.db");
    plain(&a, 4096, 100);
    let mut report = Command::new("env");
    report.args(["--ignore-signal=XFSZ", "prlimit", "--fsize=0", DENSITE]);
    report.args(["report", "a.db", "-o", "page.html"]);
    run(report.current_dir(dir.path())).expect(4).says(&format!(
        "not enough disk space in {};",
        dir.path().canonicalize().expect("a path").display()
    ));
    assert_eq!(names(dir.path()), ["a.db", "rows.csv"]);
}

/// The URI can come without a VFS parameter: the command adds its own VFS.
#[test]
fn an_unknown_uri_parameter_is_reported() {
    let dir = temp();
    let (a, rows) = (at(&dir, "a.db"), at(&dir, "rows.csv"));
    plain(&a, 4096, 100);
    std::fs::write(&rows, "a,b\n1,2\n").expect("write");
    let before = snapshot(dir.path());
    for (parameters, says) in [
        ("LEVEL=9", "LEVEL is not known: did you mean level?"),
        (
            "mode=rw&codex=raw",
            "codex is not known: did you mean codec?",
        ),
        (
            "application=7#top",
            "the URI parameter application is not known",
        ),
    ] {
        let uri = format!("file:{a}?{parameters}");
        densite(&["sql", &uri, "SELECT 1"]).expect(1).says(says);
        densite(&["load", &uri, "new", &rows]).expect(1).says(says);
    }
    assert!(snapshot(dir.path()) == before);
    for parameters in ["", "?level=9", "?vfs=unix&application=7", "?#top"] {
        let uri = format!("file:{a}{parameters}");
        densite(&["sql", &uri, "SELECT 1"]).expect(0);
    }
}

/// No verb blocks on a pipe.
#[test]
fn a_pipe_is_refused_as_a_database() {
    let dir = temp();
    let pipe = at(&dir, "pipe");
    run(Command::new("mkfifo").arg(&pipe)).expect(0);
    for args in [
        &["info"][..],
        &["report", "--output", &at(&dir, "report.html")],
        &["check"],
        &["compress"],
        &["vacuum"],
        &["log", "status"],
        &["log", "check"],
        &["log", "tail"],
    ] {
        let ran = run(Command::new("timeout")
            .args(["60", DENSITE])
            .args(args)
            .arg(&pipe));
        ran.expect(5);
    }
}

#[test]
fn a_disk_that_becomes_full_changes_no_file() {
    let dir = temp();
    let (a, b, c) = (at(&dir, "a.db"), at(&dir, "b.db"), at(&dir, "c.db"));
    plain(&a, 4096, 20_000);
    densite(&["compress", &a, &b]).expect(0);
    let before = snapshot(dir.path());
    for args in [
        &["compress", &*a][..],
        &["compress", &a, &c],
        &["decompress", &b],
        &["decompress", &b, &c],
    ] {
        limited(200_000, args)
            .expect(4)
            .says("not enough disk space");
        assert!(
            snapshot(dir.path()) == before,
            "{args:?}: {:?}",
            names(dir.path())
        );
    }
    // In WAL mode SQLite needs shared memory beside the database. `check` does without.
    for file in [&a, &b] {
        densite(&["sql", file, "PRAGMA journal_mode=WAL"]).expect(0);
        limited(10_000, &["check", file]).expect(0);
        limited(10_000, &["sql", file, "SELECT 1 FROM t"])
            .expect(4)
            .says("disk space");
    }
    // SQLite reports this limit as an I/O error, not as a full disk.
    limited(
        200_000,
        &["sql", &b, "INSERT INTO t(body) SELECT randomblob(1000000)"],
    )
    .expect(1);
    densite(&["check", &b]).expect(0);
}

#[test]
fn a_limit_on_the_length_of_files_leaves_no_new_file() {
    let dir = temp();
    let (a, b, c) = (at(&dir, "a.db"), at(&dir, "b.db"), at(&dir, "c.db"));
    plain(&a, 4096, 20_000);
    densite(&["compress", &a, &b]).expect(0);
    let before = snapshot(dir.path());
    for args in [
        &["compress", &*a][..],
        &["compress", &a, &c],
        &["decompress", &b],
        &["decompress", &b, &c],
        &["vacuum", "--yes", &a],
        &["vacuum", "--yes", &b],
    ] {
        // The system also sends SIGXFSZ, which ends a program that does not handle it.
        let mut command = Command::new("prlimit");
        run(command.args(["--fsize=200000", DENSITE]).args(args))
            .expect(4)
            .says("not enough disk space");
        assert!(
            snapshot(dir.path()) == before,
            "{args:?}: {:?}",
            names(dir.path())
        );
    }
}

#[test]
fn sql_without_write_permission_names_what_to_check() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 300);
    chmod(&a, 0o644);
    chmod(dir.path(), 0o555);
    let ran =
        |name: &str, sql: &str| unprivileged(&dir, &["sql", "--create", &at(&dir, name), sql]);
    let (reads, writes) = (ran("a.db", "SELECT 1"), ran("a.db", "DELETE FROM t"));
    let new = ran("new.db", "CREATE TABLE t(a)");
    chmod(&a, 0o000);
    let closed = ran("a.db", "SELECT count(*) FROM t");
    chmod(&a, 0o644);
    chmod(dir.path(), 0o755);
    reads.expect(0);
    let look = "owner and mode of the file and its directory";
    writes.expect(1).says("opened for reading only").says(look);
    new.expect(1).says(look);
    closed.expect(1).says(look);
    // A missing directory is reported as such.
    densite(&["sql", &at(&dir, "nowhere/a.db"), "SELECT 1"])
        .expect(1)
        .says("nowhere: there is no such file or directory");
}

#[test]
fn the_log_of_a_file_that_is_no_database_is_not_looked_for() {
    let dir = temp();
    let text = at(&dir, "a.txt");
    std::fs::write(
        &text,
        "a text that is no database, and longer than a header",
    )
    .expect("written");
    for verb in ["status", "tail", "check", "prune"] {
        densite(&["log", verb, &text])
            .expect(5)
            .says("is not a SQLite database");
    }
    let db = at(&dir, "a.db");
    plain(&db, 4096, 10);
    densite(&["log", "status", &db])
        .expect(1)
        .says("has no log");
}

#[test]
fn info_and_check_take_a_uri() {
    let dir = temp();
    let db = at(&dir, "a b.db");
    plain(&db, 4096, 100);
    densite(&["compress", &db]).expect(0);
    let uri = format!("file:{}?level=9", db.replace(' ', "%20"));
    let json = densite(&["info", &uri, "--json"]).expect(0).json();
    assert_eq!(json["path"], db.as_str());
    densite(&["check", &uri]).expect(0);
    densite(&["info", &format!("file:{}/none.db", dir.path().display())])
        .expect(1)
        .says("none.db");
}

#[test]
fn maintenance_takes_no_value() {
    let dir = temp();
    let db = at(&dir, "a.db");
    plain(&db, 4096, 2000);
    densite(&["compress", &db]).expect(0);
    let length = || std::fs::metadata(&db).expect("metadata").len();
    let before = length();
    for value in ["off", "1"] {
        densite(&["sql", &db, &format!("PRAGMA densite_maintain={value}")])
            .expect(1)
            .says("takes no value")
            .says("maintain=off");
    }
    assert_eq!(length(), before);
    densite(&["sql", &db, "PRAGMA densite_maintain"]).expect(0);
}

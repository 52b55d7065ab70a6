//! What `densite replicate`, `restore` and `replicas` refuse: damage, older states, and what lies
//! beside a replica. Each is one sentence, and nothing is lost.

use crate::common::shipping::Shipping;
use crate::common::{at, densite, names, temp};
use std::os::unix::fs::PermissionsExt as _;
use tempfile::TempDir;

const ROWS: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT);
    WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
    INSERT INTO t SELECT i, hex(randomblob(100)) FROM n";

fn made(dir: &TempDir) -> (String, String) {
    let db = at(dir, "a.db");
    densite(&["sql", "--create", &db, ROWS]).expect(0);
    (db, at(dir, "bucket"))
}

fn count(db: &str) -> String {
    let sql = ["sql", db, "SELECT count(*) FROM t", "--format", "csv"];
    densite(&sql).expect(0).out
}

/// Turso's MVCC leaves an empty file of the name of a log.
#[test]
fn a_file_of_another_program_in_the_place_of_the_log_is_named() {
    let dir = temp();
    let (db, url) = made(&dir);
    let foreign = at(&dir, "a.db-log");
    std::fs::write(&foreign, "").expect("written");
    for arguments in [
        &["replicate", &db, &url, "--once"][..],
        &["log", "status", &db],
    ] {
        densite(arguments)
            .expect(1)
            .says(&foreign)
            .says("not a directory of Densite's; if another program made it, move it away");
    }
    std::fs::remove_file(&foreign).expect("removed");
    densite(&["replicate", &db, &url, "--once"]).expect(0);
}

#[test]
fn a_database_is_no_replica() {
    let dir = temp();
    let (db, _) = made(&dir);
    let copy = at(&dir, "copy.db");
    let ran = densite(&["restore", &db, &copy]).expect(1);
    ran.says("is a file, not a replica");
    assert!(!std::path::Path::new(&copy).exists());
}

#[test]
fn a_replica_that_is_named_in_the_place_of_the_database_is_noticed() {
    let dir = temp();
    let (db, url) = made(&dir);
    densite(&["replicate", &db, &url, "--once"]).expect(0);
    let new = at(&dir, "new.db");
    for first in [&db, &new] {
        for replica in ["s3://bucket/app", "s3://bucket/app/", &url] {
            densite(&["restore", first, replica])
                .expect(2)
                .says(&format!(
                    "name the replica first: densite restore {replica} {first}"
                ));
        }
    }
    densite(&["restore", &url, "s3://bucket/app"])
        .expect(2)
        .says("s3://bucket/app is a URL, but a database is restored to a file");
    densite(&["replicate", "s3://bucket/app", &db])
        .expect(2)
        .says(&format!(
            "name the database first: densite replicate {db} s3://bucket/app"
        ));
    // A file is no replica for any verb.
    for arguments in [
        &["replicas", &db][..],
        &["restore", &db, &at(&dir, "copies/")],
        &["restore", &db, "--verify-only"],
    ] {
        densite(arguments)
            .expect(1)
            .says("a.db is a file, not a replica");
    }
    // Over an existing database, nothing is asked before.
    densite(&["restore", &db, &url, "--force"])
        .expect(2)
        .says("name the replica first");
}

/// As `densite replicate DIRECTORY URL` makes them.
#[test]
fn replicas_below_a_directory_are_named() {
    let dir = temp();
    let (db, _) = made(&dir);
    let url = at(&dir, "all");
    densite(&["replicate", &db, &format!("{url}/one.db"), "--once"]).expect(0);
    let copy = at(&dir, "copy.db");
    for arguments in [
        &["replicas", &url][..],
        &["restore", &url, &copy],
        &["restore", &format!("{url}/"), "--verify-only"],
    ] {
        densite(arguments).expect(1).says(&format!(
            "{url}: the replica here is below this: one.db; name one, as in {url}/one.db, or"
        ));
    }
    let with_slash = format!("{url}/");
    for arguments in [
        &["info", &url][..],
        &["info", &with_slash],
        &["check", &url],
        &["sql", &url, "SELECT 1"],
        &["sql", &with_slash, "SELECT 1"],
    ] {
        densite(arguments)
            .expect(5)
            .says("is a directory, not a database; the replica here is below this: one.db")
            .says(&format!("name one, as in {url}/one.db/, or"))
            .says(&format!("densite restore {url} DIRECTORY/"));
    }
    densite(&["sql", &format!("{url}/one.db/"), "SELECT 1"]).expect(0);
    std::fs::create_dir(format!("{url}/folder")).expect("made");
    for n in 0..12 {
        let other = at(&dir, &format!("b{n:02}.db"));
        densite(&["sql", "--create", &other, "CREATE TABLE t(x)"]).expect(0);
        densite(&["replicate", &other, &format!("{url}/b{n:02}.db"), "--once"]).expect(0);
    }
    densite(&["replicas", &url])
        .expect(1)
        .says("b00.db, b01.db,")
        .says("b09.db and 3 more; name one, as in");
    densite(&["restore", &url, &at(&dir, "copies/")]).expect(0);
    densite(&["replicas", &at(&dir, "nowhere")])
        .expect(1)
        .says("there is no replica here");
}

/// A base with the page would take the place of the last copy that has it.
#[test]
fn a_damaged_page_stops_a_base_and_the_replica_keeps_its_state() {
    let dir = temp();
    let (db, url) = made(&dir);
    densite(&["replicate", &db, &url, "--once"]).expect(0);
    let mut bytes = std::fs::read(&db).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&db, bytes).expect("written");
    let before = names(std::path::Path::new(&url));
    for arguments in [
        &["replicate", &db, &url, "--once", "--takeover"][..],
        &["replicate", &db, &at(&dir, "another"), "--once"],
    ] {
        densite(arguments)
            .expect(5)
            .says("a.db: frame at offset")
            .says("(page ")
            .says("restore the database from there or from a backup");
    }
    assert_eq!(names(std::path::Path::new(&url)), before);
    let copy = at(&dir, "copy.db");
    densite(&["restore", &url, &copy]).expect(0);
    assert_eq!(count(&copy), "count(*)\n3000\n");
}

/// Shipping ends, and says how to continue. The replica keeps the newer state.
#[test]
fn an_older_state_that_is_put_back_stops_a_running_command() {
    for is_renamed in [false, true] {
        let dir = temp();
        let (db, url) = made(&dir);
        let (old, copy) = (at(&dir, "old.db"), at(&dir, "copy.db"));
        std::fs::copy(&db, &old).expect("copied");
        let mut shipping = Shipping::start(&db, &url, &[]);
        shipping.event("began");
        densite(&["sql", &db, "DELETE FROM t WHERE id > 2000"]).expect(0);
        shipping.event("shipped");
        match is_renamed {
            true => std::fs::rename(&old, &db).expect("renamed"),
            false => drop(std::fs::copy(&old, &db).expect("copied")),
        }
        densite(&["sql", &db, "DELETE FROM t WHERE id > 1000"]).expect(0);
        let (code, said) = shipping.ended();
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("an older copy was put back; continue here with --takeover"),
            "{said}"
        );
        densite(&["restore", &url, &copy]).expect(0);
        assert_eq!(count(&copy), "count(*)\n2000\n");
        densite(&["replicate", &db, &url, "--once", "--takeover"]).expect(0);
    }
}

#[test]
fn a_folder_in_the_directory_of_a_replica_does_not_matter() {
    let dir = temp();
    let (db, url) = made(&dir);
    densite(&["replicate", &db, &url, "--once"]).expect(0);
    let before = densite(&["replicas", &url, "--json"]).expect(0).json();
    std::fs::create_dir(format!("{url}/.snapshots")).expect("made");
    std::fs::create_dir(format!("{url}/g9999-folder-delta-000000000007")).expect("made");
    let after = densite(&["replicas", &url, "--json"]).expect(0).json();
    assert_eq!(before["objects"], after["objects"]);
    densite(&["sql", &db, "DELETE FROM t WHERE id > 2000"]).expect(0);
    densite(&["replicate", &db, &url, "--once"]).expect(0);
    densite(&["restore", &url, &at(&dir, "copy.db")]).expect(0);
    assert_eq!(count(&format!("{url}/")), "count(*)\n2000\n");
}

/// What a killed restore leaves is removed by the next one to the same name.
#[test]
fn files_of_a_killed_restore_are_removed_by_the_next_one() {
    let dir = temp();
    let (db, url) = made(&dir);
    densite(&["replicate", &db, &url, "--once"]).expect(0);
    let leave = |path: &str| {
        for end in ["", "-dwal", "-shm"] {
            let path = format!("{path}{end}");
            std::fs::write(&path, vec![7; 100_000]).expect("written");
            let own = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&path, own).expect("private");
        }
        std::fs::create_dir(format!("{path}-log")).expect("made");
        std::fs::write(format!("{path}-log/x"), "").expect("written");
    };
    let left = || {
        let mut names = names(dir.path());
        names.retain(|name| name.contains("-densite-tmp-"));
        names
    };
    let copy = at(&dir, "copy.db");
    for name in ["whole", "0123-newest"] {
        leave(&format!("{copy}-densite-tmp-restore-{name}"));
        densite(&["restore", &url, &copy]).expect(0);
        assert_eq!(left(), [""; 0], "{name}");
        assert_eq!(count(&copy), "count(*)\n3000\n");
        std::fs::remove_file(&copy).expect("removed");
    }
    leave(&at(
        &dir,
        "densite-verify-densite-tmp-restore-0123456789abcdef",
    ));
    let mut verify = std::process::Command::new(crate::common::DENSITE);
    verify.args(["restore", "--verify-only", &url]);
    crate::common::run(verify.env("TMPDIR", dir.path())).expect(0);
    assert_eq!(left(), [""; 0]);
}

/// The advice for a replica is not that for a file.
#[test]
fn a_damaged_object_has_one_advice() {
    let dir = temp();
    let (db, url) = made(&dir);
    densite(&["replicate", &db, &url, "--once"]).expect(0);
    let names = names(std::path::Path::new(&url));
    let base = names.iter().find(|name| name.contains("-base-"));
    let base = format!("{url}/{}", base.expect("a base"));
    let mut bytes = std::fs::read(&base).expect("read");
    bytes[20_000] ^= 1;
    std::fs::write(&base, bytes).expect("written");
    let failed = densite(&["restore", &url, &at(&dir, "copy.db")])
        .expect(5)
        .says("-base-")
        .says("none of them can be restored; densite replicate --takeover sends a new base");
    assert!(!failed.err.contains("from a backup"), "{}", failed.err);
    // That can be done.
    densite(&["replicate", &db, &url, "--once", "--takeover"]).expect(0);
    densite(&["restore", &url, &at(&dir, "copy.db")]).expect(0);
}

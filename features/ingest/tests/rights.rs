//! A log contains rows of its database: the same users can access both, and no others.

use crate::common::storage;

use crate::common::{Db, create, wait};
use rusqlite::Connection;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use storage::{Faults, Own};

/// The directory and all files in it.
fn all(log: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(log)
        .expect("a log")
        .map(|f| f.expect("a file").path());
    files.chain([log.to_owned()]).collect()
}

/// Those of a file that was there when the directory was read. `None` if the worker has replaced or
/// removed it since.
fn metadata_of(path: &Path) -> Option<fs::Metadata> {
    match fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{path:?}: {error}"),
    }
}

fn used(db: &Db, con: &Connection, from: i64) {
    for i in from..from + 60 {
        con.execute("INSERT INTO t_in VALUES (?1, randomblob(900))", [i])
            .expect("inserts");
    }
    wait(con);
    con.execute_batch("SELECT densite_prune()").expect("prunes");
    assert!(db.log_dir().join("state").exists());
}

#[test]
fn a_log_is_as_private_as_its_database() {
    for (database, file, dir) in [
        (0o600, 0o600, 0o700),
        (0o640, 0o640, 0o750),
        (0o666, 0o666, 0o777),
    ] {
        let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
        fs::set_permissions(db.path(), Permissions::from_mode(database)).expect("set");
        // Segments are made and removed.
        let con = Own::failing(&Faults::default()).connect(&db.path());
        create(&con, "t", "").expect("the ingest table");
        con.execute_batch("SELECT densite_subscribe('s', 'start')")
            .expect("subscribes");
        used(&db, &con, 0);
        for path in all(&db.log_dir()) {
            let Some(metadata) = metadata_of(&path) else {
                continue;
            };
            let mode = metadata.mode() & 0o7777;
            let is_dir = path == db.log_dir();
            assert_eq!(
                mode,
                if is_dir { dir } else { file },
                "{database:o}: {path:?}"
            );
        }
    }
}

/// Root opens a database of another user. That user can continue afterwards.
#[test]
fn a_log_has_the_owner_of_its_database() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    // Only root can do this.
    let other = chown(db.path(), Some(12345), Some(12346)).is_ok();
    let con = Own::failing(&Faults::default()).connect(&db.path());
    create(&con, "t", "").expect("the ingest table");
    used(&db, &con, 0);
    for path in all(&db.log_dir()) {
        let Some(log) = metadata_of(&path) else {
            continue;
        };
        let db = fs::metadata(db.path()).expect("there");
        assert_eq!(
            (log.uid(), log.gid()),
            (db.uid(), db.gid()),
            "{other}: {path:?}"
        );
    }
}

//! Lets SQLite recover a database, and tells whether anything beside it is pending.

use crate::db::{Access, Through, from_sqlite};
use crate::error::{Error, Result};
use crate::target::{Target, beside, len_or_zero};
use densite_disk::{File, OpenMode, RealFile};
use densite_sqlite::{Api, Code, Companions, Connection, ffi};
use std::path::Path;
use std::time::Duration;

/// Opens a connection for reading the recovered state, and returns how the file was opened.
///
/// In a read-only location SQLite cannot open a database in WAL mode, because it needs shared
/// memory beside the file. If there is no WAL and no hot journal, the file alone is the whole
/// state.
///
/// On a full disk the WAL stays as it is, and SQLite reads it. If there is no room for the shared
/// memory either, the connection has the database for itself and needs none.
pub(crate) fn open_reading(
    api: Api,
    through: Through,
    target: &Target,
    wait: Duration,
) -> Result<(Connection, Access)> {
    let wal = beside(&target.path, through.companions().wal);
    let mut refused = None;
    for access in [Access::Write, Access::Read, Access::Immutable] {
        if access == Access::Immutable && !is_recovered(&target.path, through).unwrap_or(false) {
            break;
        }
        let opened = match connect(api, through, target, access, wait) {
            Err(e) if access == Access::Write && may_lack_room(&e) => {
                // The first error says more.
                connect_alone(api, through, target, wait).map_err(|_| e)
            }
            opened => opened,
        };
        let recovered = opened.and_then(|db| match empty_wal(&db, &wal, target, access) {
            Err(Error::NoSpace { .. }) => Ok(db),
            done => done.map(|()| db),
        });
        match recovered {
            Ok(db) => return Ok((db, access)),
            Err(e @ Error::Permission { .. }) => refused = refused.or(Some(e)),
            Err(e) => return Err(e),
        }
    }
    Err(refused.unwrap_or_else(|| not_a_database(target)))
}

/// Lets SQLite roll back a hot journal and write the WAL into the file, as far as other connections
/// allow.
pub(super) fn recover(
    api: Api,
    through: Through,
    target: &Target,
    access: Access,
    wait: Duration,
) -> Result<Connection> {
    let db = connect(api, through, target, access, wait)?;
    let wal = beside(&target.path, through.companions().wal);
    empty_wal(&db, &wal, target, access)?;
    Ok(db)
}

/// Lets SQLite roll back a hot journal.
fn connect(
    api: Api,
    through: Through,
    target: &Target,
    access: Access,
    wait: Duration,
) -> Result<Connection> {
    let db = through.connect(api, target, access, wait)?;
    read_state(&db, target)?;
    Ok(db)
}

/// The same for this connection alone, which has the index of the WAL in memory.
fn connect_alone(
    api: Api,
    through: Through,
    target: &Target,
    wait: Duration,
) -> Result<Connection> {
    let db = through.connect(api, target, Access::Write, wait)?;
    db.exec("PRAGMA locking_mode=EXCLUSIVE")
        .map_err(|e| from_sqlite(&target.path, e))?;
    read_state(&db, target)?;
    Ok(db)
}

/// Whether SQLite may have found no room for the shared memory beside the file.
fn may_lack_room(error: &Error) -> bool {
    match error {
        Error::NoSpace { .. } => true,
        Error::Sqlite { code, .. } => code & 0xff == Code::IOERR.0,
        _ => false,
    }
}

/// Writes the WAL into the file, as far as other connections allow.
fn empty_wal(db: &Connection, wal: &Path, target: &Target, access: Access) -> Result<()> {
    if access == Access::Write && len_or_zero(wal) > 0 {
        match db.checkpoint(None, ffi::CHECKPOINT_TRUNCATE) {
            // Other connections hold locks. The caller decides what this means.
            Err(e) if e.is_busy() => {}
            other => {
                other.map_err(|e| from_sqlite(&target.path, e))?;
            }
        }
    }
    Ok(())
}

/// Makes SQLite read the file. It does not read the schema, which can need extensions that are not
/// loaded.
pub(super) fn read_state(db: &Connection, target: &Target) -> Result<()> {
    db.query_i64("PRAGMA schema_version")
        .map_err(|e| match from_sqlite(&target.path, e) {
            Error::NotADatabase { .. } => not_a_database(target),
            Error::Locked { by, .. } => Error::Locked {
                path: target.given.clone(),
                by,
            },
            other => other,
        })?;
    Ok(())
}

/// Whether no journal or WAL beside the file must still be written into it. A journal whose first
/// byte is zero is cold.
pub(crate) fn is_recovered(db: &Path, through: Through) -> Result<bool> {
    let companions = through.companions();
    if len_or_zero(&beside(db, companions.wal)) > 0 {
        return Ok(false);
    }
    let journal = beside(db, companions.journal);
    if len_or_zero(&journal) == 0 {
        return Ok(true);
    }
    let failed = |e| Error::from_disk(&journal, "read", &e);
    let mut first = [0u8];
    let file = RealFile::open(&journal, OpenMode::Read).map_err(failed)?;
    Ok(file.read_at(&mut first, 0).map_err(failed)? == 0 || first == [0])
}

/// Refuses a journal or WAL of a database of the other form that had this name. Replacing the file
/// removes what is beside it, and these can have the only copy of a transaction.
pub(super) fn no_foreign(target: &Target, through: Through) -> Result<()> {
    let other = match through {
        Through::Host => Through::Densite,
        Through::Densite => Through::Host,
    };
    if is_recovered(&target.path, other)? {
        return Ok(());
    }
    let Companions { journal, wal } = other.companions();
    let foreign = [journal, wal].map(|ending| beside(&target.path, ending));
    let foreign = foreign.iter().find(|path| len_or_zero(path) > 0);
    Err(Error::Setting(format!(
        "{}: beside it is {}, of another database that had this name; move that file away",
        target.given.display(),
        foreign.unwrap_or(&target.path).display()
    )))
}

pub(super) fn not_a_database(target: &Target) -> Error {
    Error::NotADatabase {
        path: target.given.clone(),
        empty: target.len == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_sqlite::SHM;
    use std::fs;

    #[test]
    fn a_wal_or_hot_journal_is_pending() {
        let dir = tempfile::tempdir().expect("a directory");
        let db = dir.path().join("a.db");
        for through in [Through::Host, Through::Densite] {
            let settled = |suffix: &str, bytes: &[u8]| {
                let path = beside(&db, suffix);
                fs::write(&path, bytes).expect("write");
                let answer = is_recovered(&db, through).expect("an answer");
                fs::remove_file(&path).expect("remove");
                answer
            };
            let (own, other) = match through {
                Through::Host => (Companions::PLAIN, Companions::DENSITE),
                Through::Densite => (Companions::DENSITE, Companions::PLAIN),
            };
            assert!(is_recovered(&db, through).expect("an answer"));
            assert!(settled(own.wal, b""));
            assert!(!settled(own.wal, b"x"));
            assert!(settled(own.journal, b""));
            assert!(
                settled(own.journal, &[0; 600]),
                "a finished PERSIST journal"
            );
            assert!(!settled(own.journal, &[0xd9; 600]), "a hot journal");
            assert!(settled(SHM, b"x"));
            assert!(settled(other.wal, b"x"), "of a database of the other form");
            assert!(settled(other.journal, &[0xd9; 600]), "of the other form");
        }
    }
}

//! The log beside a database, as the command sees it: opened for reading, without being its database's user.

use crate::failure::Failure;
use densite_disk::RealDir;
use densite_log::{Error, Log, LogDir, LogId, Status, Subscriber};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A log, and the database that it belongs to.
pub(crate) struct Beside {
    /// As given.
    pub(crate) db: PathBuf,
    /// Its directory.
    pub(crate) path: PathBuf,
    pub(crate) dir: LogDir,
    pub(crate) id: LogId,
}

/// The log's directory of a database file, which may be named by a link.
fn directory(db: &Path) -> Result<PathBuf, Failure> {
    let not_found = |_| densite::Error::NotFound {
        path: db.to_path_buf(),
    };
    let mut path = db.canonicalize().map_err(not_found)?.into_os_string();
    path.push("-log");
    Ok(path.into())
}

impl Beside {
    /// `None` if there is no log beside the database.
    pub(crate) fn find(db: &Path) -> Result<Option<Beside>, Failure> {
        let path = directory(db)?;
        if !path.is_dir() {
            return Ok(None);
        }
        let dir: LogDir = Arc::new(RealDir::new(&path));
        let id = densite_log::id_in(dir.clone()).map_err(|e| failure(&path, &e))?;
        Ok(id.map(|id| Beside {
            db: db.to_path_buf(),
            path,
            dir,
            id,
        }))
    }

    /// Where there must be one.
    pub(crate) fn expect(db: &Path) -> Result<Beside, Failure> {
        Beside::find(db)?.ok_or_else(|| {
            let text = format!(
                "{} has no log; SELECT densite_subscribe() or a table of densite_ingest makes one",
                db.display()
            );
            Failure::Other("no_log", 1, text, json!({ "path": db.to_string_lossy() }))
        })
    }

    pub(crate) fn read(&self) -> Result<Log, Failure> {
        Log::open_read_only(self.dir.clone(), self.id).map_err(|e| self.failed(&e))
    }

    pub(crate) fn failed(&self, e: &Error) -> Failure {
        failure(&self.path, e)
    }

    /// What the database says of the log; `None` where it cannot be read.
    pub(crate) fn applied(&self) -> Option<Applied> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags_and_vfs(&self.db, flags, crate::sqlite::VFS).ok()?;
        let position = db.query_row("SELECT log, seq FROM main.densite_applied", [], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?))
        });
        let (log, seq) = position.ok()?;
        let count = "SELECT count(*) FROM main.densite_rejects";
        let rejects: i64 = db.query_row(count, [], |row| row.get(0)).ok()?;
        Some(Applied {
            is_same: log == self.id.0,
            seq: u64::try_from(seq).ok()?,
            rejects: u64::try_from(rejects).ok()?,
        })
    }
}

/// What the database says.
pub(crate) struct Applied {
    /// It names this log.
    pub(crate) is_same: bool,
    /// The last row that is applied.
    pub(crate) seq: u64,
    /// Rows that tables refused.
    pub(crate) rejects: u64,
}

/// All figures of a log.
pub(crate) struct Figures {
    pub(crate) status: Status,
    pub(crate) subscribers: Vec<Subscriber>,
    pub(crate) applied: Option<Applied>,
    pub(crate) unapplied_bytes: Option<u64>,
}

impl Figures {
    pub(crate) fn of(beside: &Beside) -> Result<Figures, Failure> {
        let log = beside.read()?;
        let applied = beside.applied();
        let all = || -> densite_log::Result<Figures> {
            let unapplied = applied
                .as_ref()
                .map(|a| log.bytes_after(a.seq))
                .transpose()?;
            Ok(Figures {
                status: log.status()?,
                subscribers: log.subscribers()?,
                unapplied_bytes: unapplied,
                applied: None,
            })
        };
        let figures = all().map_err(|e| beside.failed(&e))?;
        Ok(Figures { applied, ..figures })
    }

    /// The one that is furthest behind, if any is behind.
    pub(crate) fn slowest(&self) -> Option<&Subscriber> {
        let behind = self.subscribers.iter().filter(|s| s.rows_behind > 0);
        behind.max_by_key(|s| s.rows_behind)
    }

    pub(crate) fn unapplied_rows(&self) -> Option<u64> {
        let applied = self.applied.as_ref()?;
        Some(self.status.last.saturating_sub(applied.seq))
    }

    pub(crate) fn json(&self, beside: &Beside) -> Value {
        let config = &self.status.config;
        let subscriber = |s: &Subscriber| {
            json!({
                "name": s.name,
                "position": s.position,
                "rows_behind": s.rows_behind,
                "bytes_behind": s.bytes_behind,
            })
        };
        json!({
            "directory": beside.path.to_string_lossy(),
            "id": beside.id.to_string(),
            "first": self.status.first,
            "last": self.status.last,
            "segments": self.status.segments,
            "bytes": self.status.bytes,
            "spare_bytes": self.status.spare_bytes,
            "applied": self.applied.as_ref().map(|a| a.seq),
            "unapplied_rows": self.unapplied_rows(),
            "unapplied_bytes": self.unapplied_bytes,
            "rejects": self.applied.as_ref().map(|a| a.rejects),
            "automatically_purge": config.automatically_purge,
            "max_unapplied_bytes": config.max_unapplied_bytes,
            "retain_bytes": config.retain_bytes,
            "subscribers": self.subscribers.iter().map(subscriber).collect::<Vec<_>>(),
            "slowest": self.slowest().map(subscriber),
        })
    }
}

/// What the log said, with the exit code that fits.
pub(crate) fn failure(path: &Path, e: &Error) -> Failure {
    let (kind, code, advice) = match e {
        Error::Damaged { .. } => (
            "damaged",
            5,
            "; densite log check lists all places, and --repair keeps what can be read",
        ),
        Error::Full(_) => ("no_space", 4, "; free some disk space and try again"),
        Error::InUse => ("locked", 3, ""),
        Error::NewerFormat { .. } => ("newer_format", 1, ""),
        Error::Missing => ("no_log", 1, ""),
        _ => ("log", 1, ""),
    };
    let text = format!("{}: {e}{advice}", path.display());
    Failure::Other(kind, code, text, json!({ "path": path.to_string_lossy() }))
}

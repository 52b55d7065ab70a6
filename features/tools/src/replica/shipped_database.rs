//! A database file, as it is shipped: a connection takes restore points, and a handle reads bytes.
//!
//! The handle takes no lock. So a writer never waits for a copy, except while the connection
//! checkpoints, or takes SHARED for a moment in a rollback mode.

use super::first_pages::first_pages;
use super::shipped_log;
use crate::db::{Access, Through, from_sqlite};
use crate::error::{Error, Result};
use crate::form::{self, Form};
use crate::target::{self, Target};
use densite_log::{Hold, Image};
use densite_replica::{Error as Wrong, HandleSource, Source};
use densite_sqlite::{Api, Code, Connection};
use densite_store::{CommitId, Handle, Written};
use std::path::Path;
use std::time::Duration;

/// How long a restore point waits for a lock.
const BUSY: Duration = Duration::from_millis(200);

/// See the module's documentation.
pub(super) struct Database {
    api: Api,
    target: Target,
    connection: Connection,
    handle: Handle,
    /// The log as of the last restore point.
    image: Option<Image>,
}

impl Database {
    /// Opens a compressed database.
    ///
    /// # Errors
    /// [`Error::Setting`] for a plain one; those of opening.
    pub(super) fn open(api: Api, path: &Path) -> Result<Database> {
        let target = target::resolve(path)?;
        match form::form(api, &target)? {
            Form::Compressed => {}
            Form::Plain => {
                return Err(Error::Setting(format!(
                    "{}: a plain SQLite file is not replicated; compress it first (densite compress)",
                    path.display()
                )));
            }
            Form::Empty => {
                return Err(Error::NotADatabase {
                    path: path.to_path_buf(),
                    empty: true,
                });
            }
        }
        let connection = Through::Densite.connect(api, &target, Access::Write, BUSY)?;
        // Checkpoints of this connection make the WAL and then the file durable.
        let settings = connection.exec("PRAGMA synchronous=NORMAL; PRAGMA cache_size=-64");
        settings.map_err(|e| from_sqlite(path, e))?;
        let file = Through::Host.file(api, &target, Access::Read)?;
        let handle = form::open_store(&target, file);
        let handle = handle.map_err(|e| Error::from_store(path, "read", e))?;
        shipped_log::find_end(&target.path)?;
        Ok(Database {
            api,
            image: None,
            target,
            connection,
            handle,
        })
    }

    /// The path of the file, without symbolic links.
    pub(super) fn path(&self) -> &Path {
        &self.target.path
    }

    /// Opens the file again if another one has its name now, after a vacuum or a conversion.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub(super) fn follow_name(&mut self) -> Result<()> {
        if target::still_there(&self.target).is_err() {
            let given = self.target.given.clone();
            *self = Database::open(self.api, &given)?;
        }
        Ok(())
    }
}

/// An error of the database, which is not that of the place it is shipped to.
fn wrong(e: &densite_sqlite::Error) -> Wrong {
    Wrong::source(e.message.clone(), e.code.primary() == Code::FULL)
}

impl Source for Database {
    fn restore_point(&mut self) -> densite_replica::Result<Option<CommitId>> {
        self.image = None;
        let held = shipped_log::hold(&self.target.path)?;
        let point = match densite_vfs::restore_point(&self.connection) {
            Ok(mark) => Ok(mark),
            // A writer has the database; it is tried again.
            Err(e) if e.code.primary() == Code::BUSY => Ok(None),
            Err(e) => Err(wrong(&e)),
        };
        let image = held.map(Hold::settle).transpose()?.flatten();
        // After an error its segments are not held any longer.
        self.image = image.filter(|_| point.is_ok());
        point
    }

    fn take_log(&mut self) -> Option<Image> {
        self.image.take()
    }

    fn newest(&mut self) -> densite_replica::Result<Option<CommitId>> {
        HandleSource(&mut self.handle).newest()
    }

    fn written(&mut self, from: &CommitId, to: &CommitId) -> densite_replica::Result<Written> {
        HandleSource(&mut self.handle).written(from, to)
    }

    fn image_len(&mut self, mark: &CommitId) -> densite_replica::Result<Option<u64>> {
        HandleSource(&mut self.handle).image_len(mark)
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> densite_replica::Result<usize> {
        HandleSource(&mut self.handle).read(buf, offset)
    }

    fn check_stored(&mut self, first: u32) -> densite_replica::Result<Option<u32>> {
        let checked = HandleSource(&mut self.handle).check_stored(first);
        checked.map_err(|e| match e {
            Wrong::SourceDamaged(what) => {
                Wrong::SourceDamaged(format!("{}: {what}", self.target.given.display()))
            }
            e => e,
        })
    }

    fn first_places(&mut self, most: u64) -> densite_replica::Result<Vec<(u64, u64)>> {
        let pages = first_pages(&self.connection, &mut self.handle)?;
        Ok(self.handle.first_places(&pages, most)?)
    }

    fn is_kept(&mut self, mark: &CommitId) -> densite_replica::Result<bool> {
        HandleSource(&mut self.handle).is_kept(mark)
    }
}

/// The time of the system in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now: Duration| {
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    })
}

//! The database to convert: recovered, locked and readable as one state.
//!
//! Two ways, both of which let SQLite itself roll back a hot journal and empty the WAL first:
//!
//! - **alone** (to replace the file): EXCLUSIVE on the file, taken by raw locks, so that no other
//!   connection has it and none can come. In WAL mode every connection holds SHARED while open, so
//!   this waits for idle ones too. After locking, journal and WAL are looked at again: someone may
//!   have written between our recovery and our lock, and then it starts over.
//! - **beside others** (to write another file): a connection of ours holds the state still. In
//!   rollback mode SHARED is enough: no process changes the file while one reader holds it. In WAL mode
//!   the write lock (BEGIN IMMEDIATE) keeps the WAL as it is; what a reader's old snapshot kept in
//!   it is laid over the file ([`crate::wal`]).

mod recovered;
mod state;

use crate::db::{Access, Through, from_sqlite};
use crate::error::{Error, Result};
use crate::header::{HEADER_LEN, Header};
use crate::holders::holders;
use crate::lock;
use crate::pages::Pages;
use crate::paths::{beside, len_or_zero};
use crate::target::{Target, still_there};
use crate::wal::Wal;
use densite_disk::{File, OpenMode, RealFile};
use densite_sqlite::{Api, Code, Connection, HostFile, ffi};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use recovered::{is_recovered, open_reading};
use recovered::{not_a_database, read_state, recover};
pub(crate) use state::State;

/// Between two tries for a lock: longer than others take to see that the file is not open now.
pub(crate) const PAUSE_MS: i32 = 100;
/// How long one try waits: our VFS waits on its own, for a connection that closes.
pub(crate) const STEP: Duration = Duration::ZERO;

/// A database held still.
pub(crate) struct Source {
    // Closed before the connection that keeps the state still, unless somebody else reads it still.
    state: Arc<State>,
    _held: Option<Connection>,
    /// Nothing but the promise of a read-only place keeps the state still.
    on_trust: bool,
}

impl Source {
    /// Holds it for this process alone, until dropped.
    pub(crate) fn alone(
        api: Api,
        through: Through,
        target: &Target,
        wait: Duration,
    ) -> Result<Source> {
        let deadline = Instant::now() + wait;
        loop {
            // A short wait each time: who has the file open while another replaces it is in that
            // one's way.
            let file = match recover(api, through, target, Access::Write, STEP) {
                Ok(db) => {
                    drop(db);
                    Some(through.file(api, &target.path, Access::Write)?)
                }
                Err(Error::Locked { .. }) => None,
                Err(e) => return Err(e),
            };
            if let Some(file) = file {
                let locked = [ffi::LOCK_SHARED, ffi::LOCK_RESERVED, ffi::LOCK_EXCLUSIVE]
                    .into_iter()
                    .try_for_each(|level| file.lock(level));
                match locked {
                    Ok(()) if is_recovered(&target.path)? => {
                        still_there(target)?;
                        return Source::new(target, file, None, None);
                    }
                    Ok(()) | Err(Code::BUSY) => {}
                    Err(code) => return Err(from_sqlite(&target.path, code.into())),
                }
                // The lock must not stay half taken; the holders are asked for after ours are gone.
                let closed = file.close();
                closed.map_err(|code| from_sqlite(&target.path, code.into()))?;
            }
            if Instant::now() >= deadline {
                return Err(Error::Locked {
                    path: target.given.clone(),
                    by: holders(&target.path),
                });
            }
            api.sleep_ms(PAUSE_MS);
        }
    }

    /// Holds its state still beside other connections, until dropped.
    pub(crate) fn shared(
        api: Api,
        through: Through,
        target: &Target,
        wait: Duration,
    ) -> Result<Source> {
        let failed = |e| from_sqlite(&target.path, e);
        let (db, access) = open_reading(api, through, target, wait)?;
        let file = through.file(api, &target.path, Access::Read)?;
        let wal_path = beside(&target.path, "-wal");
        if access == Access::Immutable {
            lock::shared(api, &file, target, wait)?;
            let mut source = Source::new(target, file, None, Some(db))?;
            source.on_trust = true;
            return Ok(source);
        }
        if !header_of(&file, target)?.wal {
            db.exec("BEGIN").map_err(failed)?;
            read_state(&db, target)?;
            return Source::new(target, file, None, Some(db));
        }
        let writable = db.is_readonly(c"main") == Some(false);
        db.exec(if writable { "BEGIN IMMEDIATE" } else { "BEGIN" })
            .map_err(failed)?;
        read_state(&db, target)?;
        if len_or_zero(&wal_path) == 0 {
            return Source::new(target, file, None, Some(db));
        }
        if !writable {
            // A reader cannot keep the WAL as it is, and the file alone is not the whole state.
            return Err(Error::Permission {
                path: target.given.clone(),
                doing: "bring its WAL into it".into(),
            });
        }
        let header = header_of(&file, target)?;
        let wal_file = RealFile::open(&wal_path, OpenMode::Read)
            .map_err(|e| Error::from_disk(&wal_path, "read", &e))?;
        let overlay = Wal::read(&wal_file, &wal_path, header.page_size)?.map(|wal| (wal, wal_file));
        Source::new(target, file, overlay, Some(db))
    }

    fn new(
        target: &Target,
        file: HostFile,
        overlay: Option<(Wal, RealFile)>,
        held: Option<Connection>,
    ) -> Result<Source> {
        let header = header_of(&file, target)?;
        let len = match &overlay {
            Some((wal, _)) => u64::from(wal.page_count) * u64::from(header.page_size),
            None => File::len(&file).map_err(|e| Error::from_disk(&target.path, "read", &e))?,
        };
        let mut state = State {
            file,
            overlay,
            target: target.clone(),
            len,
            header,
        };
        let mut start = [0u8; HEADER_LEN];
        state.read(&mut start, 0)?;
        state.header = Header::parse(&start).ok_or_else(|| not_a_database(target))?;
        Ok(Source {
            state: Arc::new(state),
            _held: held,
            on_trust: false,
        })
    }

    /// The state itself, for other threads. It is to be let go before the source is.
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state)
    }

    /// Makes the file, which another has replaced, harmless: held alone it says from now on that it
    /// keeps its transactions in a rollback journal. A connection that was opened before and begins
    /// only now has the old file; in WAL mode it would mix what it writes with the WAL of the new
    /// file, for that has the old one's name. With a journal SQLite sees that its file was moved,
    /// and refuses to write.
    pub(crate) fn retire(&self) -> Result<()> {
        if !self.state.header.wal {
            return Ok(());
        }
        let file = &self.state.file;
        let done = file
            .write(&[1, 1], 18)
            .and_then(|()| file.sync_with(ffi::SYNC_NORMAL));
        done.map_err(|code| from_sqlite(&self.state.target.path, code.into()))
    }

    /// Whether the state that was read was one state, where that could not be made sure of
    /// beforehand.
    pub(crate) fn confirm(&self) -> Result<()> {
        let target = &self.state.target;
        if self.on_trust && !is_recovered(&target.path)? {
            return Err(Error::Locked {
                path: target.given.clone(),
                by: holders(&target.path),
            });
        }
        Ok(())
    }

    /// What its first page says.
    pub(crate) fn header(&self) -> Header {
        self.state.header
    }
}

impl Pages for Source {
    fn len(&self) -> u64 {
        self.state.len
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.state.read(buf, offset)
    }
}

fn header_of(file: &HostFile, target: &Target) -> Result<Header> {
    let mut start = [0u8; HEADER_LEN];
    let n = file
        .read_at(&mut start, 0)
        .map_err(|e| Error::from_disk(&target.given, "read", &e))?;
    start
        .get(..n)
        .and_then(Header::parse)
        .ok_or_else(|| not_a_database(target))
}

//! The database to convert: recovered, locked and readable as one state.
//!
//! Two ways, both of which let SQLite itself roll back a hot journal and empty the WAL first:
//!
//! - **alone** (to replace the file): EXCLUSIVE on the file, taken by raw locks, so that no other
//!   connection has it and none can come. In WAL mode every connection holds SHARED while open, so this
//!   waits for idle ones too. After locking, journal and WAL are looked at again: someone may have
//!   written between our recovery and our lock, and then it starts over.
//! - **beside others** (to write another file): a connection of ours holds the state still. In rollback
//!   mode SHARED is enough: nobody changes the file while one reader holds it. In WAL mode the write
//!   lock (BEGIN IMMEDIATE) keeps the WAL as it is; what a reader's old snapshot kept in it is laid
//!   over the file ([`crate::wal`]).

use crate::db::{Access, Through, from_sqlite};
use crate::error::{Error, Result};
use crate::header::{HEADER_LEN, Header};
use crate::holders::holders;
use crate::info::lock_shared;
use crate::pages::Pages;
use crate::paths::{Target, beside, len_or_zero};
use crate::wal::Wal;
use densite_disk::{File, OpenMode, RealFile};
use densite_sqlite::{Api, Code, Connection, HostFile, ffi};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// What is read of a database that is held still: by several threads, one at a time.
pub(crate) struct State {
    file: HostFile,
    overlay: Option<(Wal, RealFile)>,
    target: Target,
    len: u64,
    header: Header,
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
            // A short wait each time: who has the file open while another replaces it is in that one's way.
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
                    Ok(()) if is_settled(&target.path)? => {
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
            lock_shared(api, &file, target, wait)?;
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

    /// Makes the file, which another has replaced, harmless: held alone it says from now on that it keeps its transactions in a
    /// rollback journal. A connection that was opened before and begins only now has the old file; in WAL mode it would mix what it writes
    /// with the WAL of the new file, for that has the old one's name. With a journal SQLite sees that its file was moved, and refuses to
    /// write.
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

    /// Whether the state that was read was one state, where that could not be made sure of beforehand.
    pub(crate) fn confirm(&self) -> Result<()> {
        let target = &self.state.target;
        if self.on_trust && !is_settled(&target.path)? {
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

impl State {
    /// Logical length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// What its first page says.
    pub(crate) fn header(&self) -> Header {
        self.header
    }

    /// What it is the state of.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The same by another open file, so that two threads can read at once; `None` where it is more than a file. The lock is the first
    /// one's.
    pub(crate) fn again(&self, api: Api, through: Through) -> Result<Option<State>> {
        if self.overlay.is_some() {
            return Ok(None);
        }
        Ok(Some(State {
            file: through.file(api, &self.target.path, Access::Read)?,
            overlay: None,
            target: self.target.clone(),
            len: self.len,
            header: self.header,
        }))
    }

    fn read_file(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let n = self
            .file
            .read_at(buf, offset)
            .map_err(|e| self.read_error(&e))?;
        if let Some(rest) = buf.get_mut(n..) {
            rest.fill(0);
        }
        Ok(())
    }

    /// Our VFS tells damage by SQLite's code.
    fn read_error(&self, e: &densite_disk::Error) -> Error {
        match e.code.map(|c| Code(c).primary()) {
            Some(Code::CORRUPT) => Error::Damaged {
                path: self.target.given.clone(),
                what: densite_vfs::take_last_error()
                    .unwrap_or_else(|| "a page cannot be read (densite check tells which)".into()),
            },
            _ => Error::from_disk(&self.target.given, "read", e),
        }
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

impl State {
    /// Fills `buf` from `offset`; what lies past the end is zeros.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.read_file(buf, offset)?;
        let Some((wal, file)) = &self.overlay else {
            return Ok(());
        };
        let size = u64::from(self.header.page_size);
        let end = offset + buf.len() as u64;
        let mut page_start = offset - offset % size;
        while page_start < end {
            let page = u32::try_from(page_start / size + 1).unwrap_or(u32::MAX);
            if let Some(at) = wal.find(page) {
                // The part of the page that lies in the buffer.
                let from = page_start.max(offset);
                let to = (page_start + size).min(end);
                let range = usize::try_from(from - offset).unwrap_or(0)
                    ..usize::try_from(to - offset).unwrap_or(0);
                if let Some(part) = buf.get_mut(range) {
                    let path = beside(&self.target.path, "-wal");
                    let got = file
                        .read_at(part, at + (from - page_start))
                        .map_err(|e| Error::from_disk(&path, "read", &e))?;
                    if got < part.len() {
                        return Err(Error::Damaged {
                            path,
                            what: "it became shorter while it was read".into(),
                        });
                    }
                }
            }
            page_start += size;
        }
        Ok(())
    }
}

/// Opens a connection for reading what is there, recovered; and tells how.
///
/// Where nothing may be written, SQLite cannot open a database in WAL mode, for it wants shared memory
/// beside it. If there is no WAL and no hot journal, the file alone is the whole state.
pub(crate) fn open_reading(
    api: Api,
    through: Through,
    target: &Target,
    wait: Duration,
) -> Result<(Connection, Access)> {
    let mut refused = None;
    for access in [Access::Write, Access::Read, Access::Immutable] {
        if access == Access::Immutable && !is_settled(&target.path).unwrap_or(false) {
            break;
        }
        match recover(api, through, target, access, wait) {
            Ok(db) => return Ok((db, access)),
            Err(e @ Error::Permission { .. }) => refused = refused.or(Some(e)),
            Err(e) => return Err(e),
        }
    }
    Err(refused.unwrap_or_else(|| not_a_database(target)))
}

/// Has SQLite roll back a hot journal and bring the WAL into the file as far as others allow.
fn recover(
    api: Api,
    through: Through,
    target: &Target,
    access: Access,
    wait: Duration,
) -> Result<Connection> {
    let ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
    let db = through.connect(api, &target.path, access, ms)?;
    read_state(&db, target)?;
    if access == Access::Write && len_or_zero(&beside(&target.path, "-wal")) > 0 {
        match db.checkpoint(None, ffi::CHECKPOINT_TRUNCATE) {
            // Others are in the way: what that means is the caller's to decide.
            Err(e) if e.is_busy() => {}
            other => {
                other.map_err(|e| from_sqlite(&target.path, e))?;
            }
        }
    }
    Ok(db)
}

/// Makes SQLite look at the file; the schema is not read, for it may need extensions that are not here.
fn read_state(db: &Connection, target: &Target) -> Result<()> {
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

/// Whether nothing waits beside the file to be brought into it. A journal whose first byte is zero is cold.
fn is_settled(db: &Path) -> Result<bool> {
    if len_or_zero(&beside(db, "-wal")) > 0 {
        return Ok(false);
    }
    let journal = beside(db, "-journal");
    if len_or_zero(&journal) == 0 {
        return Ok(true);
    }
    let failed = |e| Error::from_disk(&journal, "read", &e);
    let mut first = [0u8];
    let file = RealFile::open(&journal, OpenMode::Read).map_err(failed)?;
    Ok(file.read_at(&mut first, 0).map_err(failed)? == 0 || first == [0])
}

/// Refuses a file that is not that of the name any more: who waited for the lock of another vacuum or conversion has the old one.
pub(crate) fn still_there(target: &Target) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let now = std::fs::metadata(&target.path);
    if now.is_ok_and(|now| (now.dev(), now.ino()) == target.inode) {
        return Ok(());
    }
    Err(Error::Io {
        path: target.given.clone(),
        doing: "replace".into(),
        message: "it was replaced or renamed meanwhile; try again".into(),
    })
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

fn not_a_database(target: &Target) -> Error {
    Error::NotADatabase {
        path: target.given.clone(),
        empty: target.len == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_waits_beside_a_database() {
        let dir = tempfile::tempdir().expect("a directory");
        let db = dir.path().join("a.db");
        let settled = |suffix: &str, bytes: &[u8]| {
            let path = beside(&db, suffix);
            fs::write(&path, bytes).expect("write");
            let answer = is_settled(&db).expect("an answer");
            fs::remove_file(&path).expect("remove");
            answer
        };
        assert!(is_settled(&db).expect("an answer"));
        assert!(settled("-wal", b""));
        assert!(!settled("-wal", b"x"));
        assert!(settled("-journal", b""));
        assert!(settled("-journal", &[0; 600]), "a finished PERSIST journal");
        assert!(!settled("-journal", &[0xd9; 600]), "a hot journal");
        assert!(settled("-shm", b"x"));
    }
}

//! The database to convert: recovered, locked and readable as one state, as bytes. SQLite itself
//! rolls back a hot journal and empties the WAL first; then there are two ways, [`Source::alone`] and
//! [`Source::shared`]. The bytes of a state are the file with the pages of its WAL laid over it.

mod recovered;

pub(crate) use recovered::{is_recovered, open_reading};

use crate::db::{Access, Through, from_sqlite};
use crate::error::{Error, Result};
use crate::holders::holders;
use crate::target::{Target, beside, len_or_zero, still_there};
use crate::wal::Wal;
use crate::{lock, schema};
use densite_disk::wait::Retry;
use densite_disk::{File, OpenMode, RealFile};
use densite_sqlite::{self as sqlite, Api, Code, Connection, HostFile, ffi};
use densite_sqlite_format::header::{ROLLBACK_MODE, VERSIONS};
use densite_sqlite_format::{Freelist, HEADER_LEN, Header, PageSet, freelist};
use recovered::{no_foreign, not_a_database, read_state, recover};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The pause between two attempts to take a lock. Other processes need less time to see that this
/// process closed the file.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
/// How long one attempt waits. Our VFS itself waits for a connection that is closing.
pub(crate) const STEP: Duration = Duration::ZERO;

/// A database whose state is kept unchanged.
pub(crate) struct Source {
    // Closed before the connection that keeps the state unchanged, unless another thread still
    // reads it.
    state: Arc<State>,
    held: Option<Connection>,
    /// Set if nothing but a read-only location keeps the state unchanged.
    on_trust: bool,
}

impl Source {
    /// Holds the database for this process alone, until dropped.
    ///
    /// This is for replacing the file. Raw locks take EXCLUSIVE, so no other connection has the
    /// file open or can open it. In WAL mode every open connection holds SHARED, so this waits for
    /// idle connections too. After locking, it checks journal and WAL again: another connection can
    /// write between the recovery and the lock. Then it starts again.
    pub(crate) fn alone(
        api: Api,
        through: Through,
        target: &Target,
        wait: Duration,
    ) -> Result<Source> {
        let retry = Retry::within(wait).every(PAUSE);
        no_foreign(target, through)?;
        loop {
            // Each attempt is short: a process that has the file open is in the way of another one
            // that replaces it.
            let file = match recover(api, through, target, Access::Write, STEP) {
                Ok(db) => {
                    drop(db);
                    Some(through.file(api, target, Access::Write)?)
                }
                Err(Error::Locked { .. }) => None,
                Err(e) => return Err(e),
            };
            if let Some(file) = file {
                let locked = [ffi::LOCK_SHARED, ffi::LOCK_RESERVED, ffi::LOCK_EXCLUSIVE]
                    .into_iter()
                    .try_for_each(|level| file.lock(level));
                match locked {
                    Ok(()) if is_recovered(&target.path, through)? => {
                        still_there(target)?;
                        return Source::new((target, through), file, None, None);
                    }
                    Ok(()) | Err(Code::BUSY) => {}
                    Err(code) => return Err(from_sqlite(&target.path, code.into())),
                }
                // The lock must not stay half taken. The list of holders is read after our locks
                // are released.
                let closed = file.close();
                closed.map_err(|code| from_sqlite(&target.path, code.into()))?;
            }
            if !retry.again() {
                return Err(Error::Locked {
                    path: target.given.clone(),
                    by: holders(&target.path),
                });
            }
        }
    }

    /// Keeps the state unchanged beside other connections, until dropped.
    ///
    /// This is for writing another file. In rollback mode SHARED is enough: no process changes the
    /// file while a reader holds it. In WAL mode it is a reader's snapshot, so writers go on: no
    /// checkpoint writes a page of a later commit into the file, and the WAL does not begin again
    /// before all of it is in the file. If it is not, its pages are laid over the file
    /// ([`crate::wal`]).
    pub(crate) fn shared(
        api: Api,
        through: Through,
        target: &Target,
        wait: Duration,
    ) -> Result<Source> {
        let (db, access) = open_reading(api, through, target, wait)?;
        let file = through.file(api, target, Access::Read)?;
        let wal_path = beside(&target.path, through.companions().wal);
        if access == Access::Immutable {
            lock::shared(&file, target, wait)?;
            let mut source = Source::new((target, through), file, None, Some(db))?;
            source.on_trust = true;
            return Ok(source);
        }
        db.exec("BEGIN").map_err(|e| from_sqlite(&target.path, e))?;
        read_state(&db, target)?;
        if !header_of(&file, target)?.wal || len_or_zero(&wal_path) == 0 {
            return Source::new((target, through), file, None, Some(db));
        }
        if db.is_readonly(c"main") != Some(false) {
            // A read-only connection cannot keep the WAL unchanged, and the file alone is not the
            // whole state.
            return Err(Error::Permission {
                path: target.given.clone(),
                doing: "bring its WAL into it".into(),
            });
        }
        if is_in_file(api, through, target, &db, wait)? {
            return Source::new((target, through), file, None, Some(db));
        }
        let header = header_of(&file, target)?;
        let wal_file = RealFile::open(&wal_path, OpenMode::Read)
            .map_err(|e| Error::from_disk(&wal_path, "read", &e))?;
        let overlay = Wal::read(&wal_file, &wal_path, header.page_size)?.map(|wal| (wal, wal_file));
        Source::new((target, through), file, overlay, Some(db))
    }

    fn new(
        (target, through): (&Target, Through),
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
            through,
            len,
            header,
        };
        let mut start = [0u8; HEADER_LEN];
        state.read(&mut start, 0)?;
        state.header = Header::parse(&start).ok_or_else(|| not_a_database(target))?;
        Ok(Source {
            state: Arc::new(state),
            held,
            on_trust: false,
        })
    }

    /// The state itself, for other threads. They must drop it before the source is dropped.
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state)
    }

    /// The root pages of the b-trees in this state, as far as SQLite can read its schema. Only for
    /// a state that was kept with [`Source::shared`].
    pub(crate) fn roots(&self) -> Vec<u32> {
        let roots = self.held.as_ref().map(schema::roots);
        roots.and_then(sqlite::Result::ok).unwrap_or_default()
    }

    /// Makes this file, which another file has replaced, safe for late writers: its header now says
    /// rollback journal instead of WAL. The caller holds it alone. A connection that opened it
    /// before and starts to write only now has the old file. In WAL mode it would add to the WAL of
    /// the new file, because that WAL has the same name. With a journal, SQLite sees that its file
    /// was moved and refuses to write.
    pub(crate) fn retire(&self) -> Result<()> {
        if !self.state.header.wal {
            return Ok(());
        }
        let file = &self.state.file;
        let done = file
            .write(&ROLLBACK_MODE, VERSIONS.start as u64)
            .and_then(|()| file.sync_with(ffi::SYNC_NORMAL));
        done.map_err(|code| from_sqlite(&self.state.target.path, code.into()))
    }

    /// Checks that the state that was read was one state, where locks alone do not ensure it: for a
    /// database in a read-only location, and for pages of a WAL.
    pub(crate) fn confirm(&self) -> Result<()> {
        let target = &self.state.target;
        // The snapshot keeps the WAL from beginning again, unless it began between two looks.
        let is_same_wal = match &self.state.overlay {
            Some((wal, file)) => {
                let path = beside(&target.path, self.state.through.companions().wal);
                wal.is_same(file, &path)?
            }
            None => true,
        };
        let is_left_alone = !self.on_trust || is_recovered(&target.path, self.state.through)?;
        if !is_same_wal || !is_left_alone {
            return Err(Error::Locked {
                path: target.given.clone(),
                by: holders(&target.path),
            });
        }
        Ok(())
    }

    /// The header in its first page.
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

/// Whether the file alone is the state of `db`, which has a snapshot, as no later commit gets into
/// the file meanwhile. Otherwise the rest of the state is in the WAL, and stays there.
fn is_in_file(
    api: Api,
    through: Through,
    target: &Target,
    db: &Connection,
    wait: Duration,
) -> Result<bool> {
    let failed = |e| from_sqlite(&target.path, e);
    let mode = db
        .query_string("PRAGMA main.locking_mode")
        .map_err(failed)?;
    if mode.as_deref() == Some("exclusive") {
        // No other connection can open the database, or write to it.
        return Ok(false);
    }
    let other = through.connect(api, target, Access::Write, wait)?;
    // Before it has read something, it does not know that there is a WAL.
    read_state(&other, target)?;
    let retry = Retry::within(wait);
    loop {
        match other.checkpoint(None, ffi::CHECKPOINT_PASSIVE) {
            Ok(done) => {
                let frames = done.wal_frames;
                return Ok(frames >= 0 && frames == done.checkpointed);
            }
            // Another checkpoint runs.
            Err(e) if e.is_busy() && retry.again() => {}
            Err(e) if e.is_busy() => return Err(failed(e)),
            // There is something to be written into the file, and it cannot be.
            Err(_) => return Ok(false),
        }
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

/// The logical bytes of a database, which do not change while this value exists.
pub(crate) trait Pages {
    /// Logical length in bytes.
    fn len(&self) -> u64;
    /// Fills `buf` from `offset`, with zeros past the end.
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()>;
}

impl Pages for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        for (i, byte) in buf.iter_mut().enumerate() {
            *byte = start
                .checked_add(i)
                .and_then(|at| self.get(at))
                .copied()
                .unwrap_or(0);
        }
        Ok(())
    }
}

/// Parses the header in the first page of the database `path`.
pub(crate) fn header(pages: &mut dyn Pages, path: &Path) -> Result<Header> {
    let mut start = [0u8; HEADER_LEN];
    pages.read(&mut start, 0)?;
    Header::parse(&start).ok_or_else(|| Error::Damaged {
        path: path.to_path_buf(),
        what: "its first page is not the header page of a database".into(),
    })
}

/// The freelist; `None` if it is malformed.
pub(crate) fn freelist(pages: &mut dyn Pages, header: &Header) -> Result<Option<Freelist>> {
    let count = header.pages_in(pages.len());
    freelist::list(count, header, |page, buf| {
        pages.read(buf, header.offset_of(page))
    })
}

/// The leaves of the freelist; none if it is malformed.
pub(crate) fn free_leaves(pages: &mut dyn Pages, header: &Header) -> Result<PageSet> {
    Ok(freelist(pages, header)?.map_or_else(PageSet::default, |list| list.leaves))
}

/// The state of a database that is kept unchanged. Several threads can read it, one at a time.
pub(crate) struct State {
    file: HostFile,
    overlay: Option<(Wal, RealFile)>,
    target: Target,
    through: Through,
    len: u64,
    header: Header,
}

impl State {
    /// Logical length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The header in its first page.
    pub(crate) fn header(&self) -> Header {
        self.header
    }

    /// The database of this state.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the file alone is the whole state.
    pub(crate) fn is_file_alone(&self) -> bool {
        self.overlay.is_none()
    }

    /// The same state through another open file, so two threads can read at once; `None` if a WAL
    /// is laid over the file. The lock stays with the first file.
    pub(crate) fn again(&self, api: Api, through: Through) -> Result<Option<State>> {
        if self.overlay.is_some() {
            return Ok(None);
        }
        Ok(Some(State {
            file: through.file(api, &self.target, Access::Read)?,
            overlay: None,
            target: self.target.clone(),
            through,
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

    /// Converts a read error. Our VFS reports damage with SQLite's code.
    fn read_error(&self, e: &densite_disk::Error) -> Error {
        match e.code.map(|c| Code(c).primary()) {
            Some(Code::CORRUPT) => Error::Damaged {
                path: self.target.given.clone(),
                what: densite_vfs::last_damage()
                    .or_else(densite_vfs::take_last_error)
                    .unwrap_or_else(|| "a page cannot be read (densite check tells which)".into()),
            },
            _ => Error::from_disk(&self.target.given, "read", e),
        }
    }

    /// Fills `buf` from `offset`, with zeros past the end.
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
                    let path = beside(&self.target.path, self.through.companions().wal);
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

//! A thin VFS over another one that writes several frames of a WAL at once.
//!
//! SQLite writes each frame by two calls: 24 bytes and a page. A large transaction spends more time
//! on those calls than on copying the pages. So frames are collected here and written some 60 KiB
//! at a time. Everything else goes to the VFS below unchanged. Pages of a checkpoint, and with
//! [`WalProgress`] the WAL, are synced piece by piece while they are written ([`pieces`]).
//! docs/decisions/ingest-pruning.md (Coalesced writes) says why other connections do not notice.

mod pieces;
mod wal_progress;

pub use wal_progress::WalProgress;

use crate::filename::FileName;
use crate::host::HostVfs;
use crate::vfs::{Above, Opened, Registered, Vfs, peek, register_vfs, registered};
use crate::{Api, Code, Connection, HostFile, Result, ffi};
use densite_disk::sync::{Mutex, MutexGuard};
use densite_sqlite_format::wal::{self, FRAME_HEADER_LEN, Frame, HEADER_LEN};
use densite_sqlite_format::wal_index::WRITE_LOCK;
use pieces::Pieces;
use std::ffi::{CStr, CString, c_void};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// The state that the database and the WAL of one connection share.
type Shared = Arc<Joint>;

type Done = std::result::Result<(), Code>;

/// The most that is collected, in bytes. SQLite's unix VFS uses only the low 17 bits of a length,
/// and SQLite itself never writes more at once.
const MOST: usize = 1 << 16;

#[derive(Default)]
struct Joint {
    frames: Mutex<Frames>,
    wal_progress: Arc<WalProgress>,
}

impl Joint {
    fn lock(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock()
    }
}

/// Densite's own VFS makes a state of the database of each sync, and writes fewer bytes. So one
/// sync at the end is enough for it.
const OURS: &str = "densite";

struct CoalescedVfs {
    host: HostVfs,
}

/// The name of a VFS that coalesces writes over the VFS of this name, or over the default one. It
/// is registered if needed. `None` if another build of this library has registered that name.
///
/// It is for connections that SQLite itself opens with it: no other VFS may be above it.
///
/// # Errors
/// If there is no such VFS; SQLite's.
pub fn coalesced_vfs(api: Api, over: Option<&CStr>) -> Result<Option<CString>> {
    let missing = || crate::Error::new(Code::ERROR, "there is no such VFS");
    let host = HostVfs::find(api, over).ok_or_else(missing)?;
    let name = CString::new(format!("densite-coalesced/{}", host.name())).unwrap_or_default();
    match registered::<CoalescedVfs>(api, &name) {
        Registered::Ours { .. } => {}
        Registered::Foreign(_) => return Ok(None),
        Registered::No => {
            register_vfs(api, &name, CoalescedVfs { host }, false)?;
        }
    }
    Ok(Some(name))
}

/// The WAL progress of a connection that coalesces writes; `None` for other connections.
pub fn wal_progress(connection: &Connection) -> Option<Arc<WalProgress>> {
    let file = connection.file(c"main").ok()?;
    // SAFETY: an open file of this connection, which no other thread uses during the call.
    unsafe { peek::<MainFile, _>(file, |main| main.shared().wal_progress.clone()) }
}

impl Vfs for CoalescedVfs {
    type File = MainFile;
    type Companion = WalFile;

    fn host(&self) -> HostVfs {
        self.host
    }

    fn open(
        &self,
        name: Option<FileName<'_>>,
        flags: i32,
    ) -> std::result::Result<Opened<MainFile, WalFile>, Code> {
        let Some(name) = name else {
            return Ok(Opened::Host);
        };
        if flags & ffi::OPEN_MAIN_DB != 0 {
            // SAFETY: SQLite keeps a main database's name until after its xClose.
            let (host, flags) = unsafe { self.host.open(Some(name), flags) }?;
            return Ok(Opened::File {
                file: MainFile::new(host, self.host.name() != OURS),
                flags,
            });
        }
        if flags & ffi::OPEN_WAL == 0 {
            return Ok(Opened::Host);
        }
        // SAFETY: the name of a WAL that SQLite itself opens, since this VFS is only for such
        // connections. So it leads to the database's open file. `peek` checks that the file is one
        // of ours.
        let shared: Option<Shared> = unsafe {
            let main = (self.host.api().raw().database_file_object)(name.as_ptr());
            peek::<MainFile, _>(main, MainFile::shared)
        };
        let Some(shared) = shared else {
            return Ok(Opened::Host);
        };
        // SAFETY: SQLite keeps a WAL's name until after its xClose.
        let (host, flags) = unsafe { self.host.open(Some(name), flags) }?;
        Ok(Opened::Companion {
            file: WalFile::new(host, shared),
            flags,
        })
    }
}

/// The database's file: its locks show when a transaction of the WAL is over.
struct MainFile {
    host: HostFile,
    shared: Shared,
    /// `None` if a checkpoint is synced all at once.
    pieces: Option<Pieces>,
}

impl MainFile {
    fn new(host: HostFile, in_pieces: bool) -> MainFile {
        MainFile {
            host,
            shared: Shared::default(),
            pieces: in_pieces.then(Pieces::default),
        }
    }

    /// The state that it shares with its WAL.
    fn shared(&self) -> Shared {
        self.shared.clone()
    }
}

impl Above for MainFile {
    fn host(&self) -> &HostFile {
        &self.host
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Done {
        self.host.write(buf, offset)?;
        if let Some(pieces) = &mut self.pieces
            && pieces.wrote(buf.len())
        {
            let begun = Instant::now();
            self.host.sync_with(ffi::SYNC_NORMAL | ffi::SYNC_DATAONLY)?;
            pieces.synced(begun.elapsed());
        }
        Ok(())
    }

    unsafe fn file_control(&mut self, op: i32, arg: *mut c_void) -> Code {
        if let (Some(pieces), ffi::FCNTL_CKPT_START | ffi::FCNTL_CKPT_DONE) = (&mut self.pieces, op)
        {
            pieces.checkpoint(op == ffi::FCNTL_CKPT_START);
        }
        // SAFETY: the argument of the same operation, as the caller guarantees.
        unsafe { self.host.file_control(op, arg) }
    }

    fn shm_lock(&mut self, offset: i32, n: i32, flags: i32) -> Done {
        let ends = ffi::SHM_UNLOCK | ffi::SHM_EXCLUSIVE;
        if flags & ends == ends && (offset..offset.saturating_add(n)).contains(&WRITE_LOCK) {
            self.shared.lock().clear();
        }
        self.host.shm_lock(offset, n, flags)
    }

    fn shm_unmap(&mut self, delete: bool) -> Done {
        self.shared.lock().clear();
        self.host.shm_unmap(delete)
    }
}

/// The WAL, whose frames are collected.
struct WalFile {
    host: HostFile,
    shared: Shared,
}

impl WalFile {
    fn new(host: HostFile, shared: Shared) -> WalFile {
        // A WAL that was open before can have had another page size.
        *shared.lock() = Frames::default();
        WalFile { host, shared }
    }

    fn flush(&self) -> Done {
        self.flush_these(&mut self.shared.lock())
    }

    /// Writes the collected frames. Keeps them if that fails.
    fn flush_these(&self, frames: &mut Frames) -> Done {
        if let Some((bytes, at)) = frames.pending() {
            self.host.write(bytes, at)?;
            self.shared.wal_progress.rise(bytes.len());
            frames.clear();
        }
        Ok(())
    }
}

impl Above for WalFile {
    fn host(&self) -> &HostFile {
        &self.host
    }

    /// A WAL has no shared memory of its own.
    fn has_shm(&mut self) -> bool {
        false
    }

    /// Drops the collected frames: they are not committed.
    fn close(&mut self) -> Done {
        self.shared.lock().clear();
        self.host.close()
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> std::result::Result<usize, Code> {
        let mut frames = self.shared.lock();
        match frames.read(buf, offset) {
            Read::Answered => return Ok(buf.len()),
            Read::File => {}
            Read::FlushFirst => self.flush_these(&mut frames)?,
        }
        drop(frames);
        self.host.read(buf, offset)?;
        Ok(buf.len())
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Done {
        let mut frames = self.shared.lock();
        self.shared.wal_progress.reach(offset, buf.len());
        if offset > 0 && !frames.knows_pages() {
            // The WAL existed already: its header gives the page size.
            let mut header = [0; HEADER_LEN];
            if self.host.read(&mut header, 0).is_ok() {
                frames.learn(&header);
            }
        }
        let mut what = frames.write(buf, offset);
        if what == Write::FlushFirst {
            self.flush_these(&mut frames)?;
            what = frames.write(buf, offset);
        }
        if what == Write::Collected {
            return Ok(());
        }
        self.host.write(buf, offset)?;
        if offset == 0 {
            frames.learn(buf);
        }
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Done {
        self.flush()?;
        self.host.truncate(len)
    }

    fn sync(&mut self, flags: i32) -> Done {
        self.flush()?;
        self.host.sync_with(flags)
    }

    fn file_size(&mut self) -> std::result::Result<u64, Code> {
        self.flush()?;
        self.host.file_size()
    }
}

/// Collected frames; see the module's documentation. At most [`MOST`] bytes: whole frames, or whole frames
/// and a header whose page follows.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    /// Their offset in the file.
    at: u64,
    /// The page size in bytes; 0 if unknown.
    page: usize,
    /// The last item is a header without its page.
    wants_page: bool,
}

/// What to do with a write.
#[derive(Debug, PartialEq, Eq)]
enum Write {
    /// Nothing: it is collected.
    Collected,
    /// Write it to the file.
    Through,
    /// Write the collected frames to the file first, then ask again.
    FlushFirst,
}

/// What to do with a read.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    /// Nothing: it is answered.
    Answered,
    /// Read it from the file.
    File,
    /// Write the collected frames to the file first, then read from the file.
    FlushFirst,
}

impl Frames {
    /// Whether the page size is known.
    fn knows_pages(&self) -> bool {
        self.page != 0
    }

    /// Takes the page size from the WAL's own header.
    fn learn(&mut self, header: &[u8]) {
        self.page = wal::page_size(header).unwrap_or(0);
    }

    /// The collected bytes and their offset; `None` if there are none.
    fn pending(&self) -> Option<(&[u8], u64)> {
        (!self.bytes.is_empty()).then_some((self.bytes.as_slice(), self.at))
    }

    /// Drops the collected bytes: they are in the file, or no longer needed.
    fn clear(&mut self) {
        self.bytes.clear();
        self.wants_page = false;
    }

    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    fn meets(&self, offset: u64, len: usize) -> bool {
        offset < self.end() && self.at < offset.saturating_add(len as u64)
    }

    /// The range of these bytes within the collected ones, if all of them are collected.
    fn place(&self, offset: u64, len: usize) -> Option<Range<usize>> {
        let from = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        let to = from.checked_add(len)?;
        (to <= self.bytes.len()).then_some(from..to)
    }

    /// Whether a write is the header of a frame; if so, whether that frame commits.
    fn header(&self, buf: &[u8], offset: u64) -> Option<bool> {
        let frame = (FRAME_HEADER_LEN + self.page) as u64;
        let behind = offset.checked_sub(HEADER_LEN as u64)?;
        if self.page == 0 || buf.len() != FRAME_HEADER_LEN || behind % frame != 0 {
            return None;
        }
        Frame::parse(buf).map(|frame| frame.commit != 0)
    }

    /// Decides about a write to the WAL and collects it if possible.
    fn write(&mut self, buf: &[u8], offset: u64) -> Write {
        let through = |this: &Self| match this.bytes.is_empty() {
            true => Write::Through,
            false => Write::FlushFirst,
        };
        let header = self.header(buf, offset);
        if header == Some(true) || offset < HEADER_LEN as u64 {
            return through(self);
        }
        // A frame that SQLite writes again before it is in the file.
        if let Some(place) = self.place(offset, buf.len()) {
            if let Some(old) = self.bytes.get_mut(place) {
                old.copy_from_slice(buf);
            }
            return Write::Collected;
        }
        let follows = !self.bytes.is_empty() && offset == self.end();
        if follows && self.wants_page && buf.len() == self.page {
            self.bytes.extend_from_slice(buf);
            self.wants_page = false;
            return Write::Collected;
        }
        let fits = |len: usize| len + FRAME_HEADER_LEN + self.page <= MOST;
        if header.is_some() && !self.wants_page && fits(self.bytes.len()) {
            if self.bytes.is_empty() {
                self.at = offset;
            }
            if self.bytes.is_empty() || follows {
                self.bytes.extend_from_slice(buf);
                self.wants_page = true;
                return Write::Collected;
            }
        }
        match header.is_none() && !self.meets(offset, buf.len()) {
            true => Write::Through,
            false => through(self),
        }
    }

    /// Decides about a read of the WAL and answers it if possible.
    fn read(&self, buf: &mut [u8], offset: u64) -> Read {
        if self.bytes.is_empty() || !self.meets(offset, buf.len()) {
            return Read::File;
        }
        match self
            .place(offset, buf.len())
            .and_then(|p| self.bytes.get(p))
        {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Read::Answered
            }
            None => Read::FlushFirst,
        }
    }
}

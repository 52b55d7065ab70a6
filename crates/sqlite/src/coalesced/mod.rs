//! A thin VFS over another one that writes several frames of a WAL at once.
//!
//! SQLite writes each frame by two calls: 24 bytes and a page. A transaction of ten thousands of
//! pages spends more time on those calls than on copying the pages. So frames are collected here
//! and written some 60 KiB at a time. Everything else goes to the VFS below unchanged.
//!
//! **Why it is not visible.** Checked against `walFrames`, `walRewriteChecksums`,
//! `walIndexWriteHdr`, `sqlite3WalUndo` and `walCheckpoint` of SQLite's `wal.c`:
//!
//! - Other connections read a frame only when the header of the WAL's index names it. `walFrames`
//!   writes that header after all frames of a transaction. The last frame commits: its header has
//!   the size of the database in bytes 4 to 7, which are 0 in all others. Before that frame's
//!   header, all collected frames are written. That header and its page are never collected. So at
//!   COMMIT nothing is collected when the index changes, and a write error is that of xWrite, which
//!   fails the transaction.
//! - If a page was written twice, `walRewriteChecksums` then corrects the headers in place, from
//!   the first such frame to the committing one. Its last write is the committing header: the rule
//!   above applies again.
//! - Frames of an uncommitted transaction are read only by its own connection, through this VFS.
//! - Frames of a rolled back transaction are useless, and another connection writes its own in
//!   their place. So the collected frames are dropped before the writer's lock, or the shared
//!   memory, is released. The database's file sees both.
//! - Collected frames are written before the file is synced, truncated, or asked for its length.
//! - A failed write keeps the collected frames. The next call tries again, and no commit happens
//!   before they are written.
//!
//! **What is visible**: less waiting. A sync of a hundred MiB at once blocks everyone's syncs. So a
//! checkpoint's pages are synced piece by piece while they are written ([`pieces`]), and a thread
//! of the caller can do the same for the WAL ([`WalProgress`]). These syncs come in addition to
//! SQLite's.

mod frames;
mod main_file;
mod pieces;
mod wal_file;
mod wal_progress;

use crate::filename::FileName;
use crate::host::HostVfs;
use crate::vfs::{Opened, Registered, Vfs, peek, register_vfs, registered};
use crate::{Api, Code, Connection, Result, ffi};
use densite_disk::sync::{Mutex, MutexGuard};
use frames::Frames;
use main_file::MainFile;
use std::ffi::{CStr, CString};
use std::sync::Arc;
use wal_file::WalFile;
pub use wal_progress::WalProgress;

/// The state that the database and the WAL of one connection share.
type Shared = Arc<Joint>;

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

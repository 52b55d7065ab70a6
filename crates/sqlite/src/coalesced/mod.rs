//! A thin VFS over another that writes the frames of a WAL together.
//!
//! SQLite writes each frame by two calls, 24 bytes and a page. A connection that writes ten thousands of pages in a transaction spends more on those calls than on copying the pages.
//! Here frames are collected and written some 60 KiB at a time; everything else goes to the VFS below as it is.
//!
//! **What nobody can notice.** Checked against `walFrames`, `walRewriteChecksums`, `walIndexWriteHdr`, `sqlite3WalUndo` and `walCheckpoint` of SQLite's `wal.c`:
//!
//! - Others read a frame only when the header of the WAL's index promises it. `walFrames` writes that header after all frames of a transaction, the last of which says by its header (the size of the
//!   database, bytes 4 to 7, is 0 in all others) that it commits. Before such a frame's header is written all that was collected is written, and it and its page are written at once. So at COMMIT nothing is
//!   collected when the index is changed, and an error of writing is that of xWrite, which fails the transaction.
//! - When a page was written twice `walRewriteChecksums` then mends the headers in place, from the first such frame to the committing one. Its last write is the committing header again: the rule above.
//! - Frames of a transaction that is not committed are read by its own connection alone, which reads them through here.
//! - Frames that a rollback leaves are of no use, and another connection writes its own in their place. So what is collected is forgotten before the lock of the writer is given back (or the shared
//!   memory), which is seen at the database's file.
//! - What is synced, cut, or asked for its length has been written before.
//! - A write that fails keeps what was collected: it is tried again by whatever comes next, and nothing is committed before it is done.
//!
//! **What others do notice**, less: a hundred MiB that are synced at once stop everybody's syncs. So a checkpoint's pages are synced a piece at a time while they are written ([`pieces`]), and a
//! thread of the caller's can do the same for the WAL ([`WalProgress`]). These are syncs in addition to SQLite's.

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

/// What database and WAL of one connection share.
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

/// Densite's own VFS makes a state of the database's of each sync, and writes fewer bytes: a sync at the end will do.
const OURS: &str = "densite";

struct CoalescedVfs {
    host: HostVfs,
}

/// The name of a VFS that coalesces writes, over the one of this name or the default one; registered when it is not yet. `None` when another build of this library has that name.
///
/// For connections that are opened with it by SQLite itself: no other VFS may lie over it.
///
/// # Errors
/// There is no such VFS; SQLite's.
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

/// What was written to the WAL of a connection that coalesces writes; `None` for others.
pub fn wal_progress(connection: &Connection) -> Option<Arc<WalProgress>> {
    let file = connection.file(c"main").ok()?;
    // SAFETY: an open file of this connection, which is ours alone during the call.
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
        // SAFETY: the name of a WAL that SQLite itself opens (this VFS is for such connections only): then it leads to the database's open file, of which only `peek` decides whose it is.
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

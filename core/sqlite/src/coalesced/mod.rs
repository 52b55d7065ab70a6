//! A thin VFS over another one that writes several frames of a WAL at once.
//!
//! SQLite writes each frame by two calls: 24 bytes and a page. A large transaction spends more time
//! on those calls than on copying the pages. So frames are collected here and written some 60 KiB
//! at a time. Everything else goes to the VFS below unchanged. Pages of a checkpoint, and with
//! [`WalProgress`] the WAL, are synced piece by piece while they are written ([`pieces`]).
//! docs/decisions/ingest-pruning.md (Coalesced writes) says why other connections do not notice.

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

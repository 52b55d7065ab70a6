//! The database's file: its locks show when a transaction of the WAL is over.

use super::Shared;
use super::pieces::Pieces;
use crate::vfs::Above;
use crate::{Code, HostFile, ffi};
use densite_sqlite_format::wal_index::WRITE_LOCK;
use std::ffi::c_void;
use std::time::Instant;

type Done = Result<(), Code>;

pub(super) struct MainFile {
    host: HostFile,
    shared: Shared,
    /// `None` if a checkpoint is synced all at once.
    pieces: Option<Pieces>,
}

impl MainFile {
    pub(super) fn new(host: HostFile, in_pieces: bool) -> MainFile {
        MainFile {
            host,
            shared: Shared::default(),
            pieces: in_pieces.then(Pieces::default),
        }
    }

    /// The state that it shares with its WAL.
    pub(super) fn shared(&self) -> Shared {
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

//! A host's file as a file of the disk contract.

use super::HostFile;
use crate::{Code, ffi};
use densite_disk as disk;
use std::ffi::{c_int, c_void};

/// The most bytes in one read or write of the host: SQLite's largest page, which is the most that
/// SQLite itself asks for. SQLite's unix VFS uses only the low 17 bits of a length.
const CHUNK: usize = 1 << 16;

/// How often a read at a moving end of file is tried again.
const SHORT_READ_TRIES: u32 = 16;

/// A SQLite code as an error of the disk contract.
fn disk_error(op: disk::Op, code: Code) -> disk::Error {
    let kind = match code.primary() {
        Code::FULL => disk::ErrorKind::Full,
        Code::PERM | Code::READONLY => disk::ErrorKind::Permission,
        _ => disk::ErrorKind::Io,
    };
    disk::Error {
        kind,
        op,
        code: Some(code.0),
    }
}

impl HostFile {
    /// The error of a write. SQLite's VFSs return SQLITE_FULL only for a full disk, and an I/O error
    /// for a quota or a limit on the length of files. For all of these the caller can do the same.
    fn write_error(&self, op: disk::Op, code: Code) -> disk::Error {
        let error = disk_error(op, code);
        if error.kind != disk::ErrorKind::Io {
            return error;
        }
        let mut errno: c_int = 0;
        // SAFETY: this operation takes a pointer to an `int`.
        let known = unsafe {
            self.file_control(ffi::FCNTL_LAST_ERRNO, (&raw mut errno).cast::<c_void>()) == Code::OK
        };
        let system = std::io::Error::from_raw_os_error(errno);
        if known && disk::Error::from_io(op, &system).kind == disk::ErrorKind::Full {
            let kind = disk::ErrorKind::Full;
            return disk::Error { kind, ..error };
        }
        error
    }
}

impl disk::File for HostFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> disk::Result<usize> {
        let fail = |code| disk_error(disk::Op::Read, code);
        let mut done = 0;
        for chunk in buf.chunks_mut(CHUNK) {
            let at = offset + done as u64;
            let mut want = chunk.len();
            let mut tries = 0;
            // The host reports only that a read was short. The file's length shows how short. The
            // file can grow or shrink in between, so bytes count only when they are read in full.
            while want > 0 {
                let Some(part) = chunk.get_mut(..want) else {
                    break;
                };
                match self.read(part, at) {
                    Ok(()) => break,
                    Err(Code::IOERR_SHORT_READ) => {
                        let left = self.file_size().map_err(fail)?.saturating_sub(at);
                        want = usize::try_from(left).unwrap_or(0).min(chunk.len());
                        tries += 1;
                        if tries > SHORT_READ_TRIES {
                            return Err(fail(Code::IOERR_READ));
                        }
                    }
                    Err(code) => return Err(fail(code)),
                }
            }
            done += want;
            if want < chunk.len() {
                break;
            }
        }
        Ok(done)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> disk::Result<()> {
        let mut at = offset;
        for chunk in buf.chunks(CHUNK) {
            self.write(chunk, at)
                .map_err(|code| self.write_error(disk::Op::Write, code))?;
            at += chunk.len() as u64;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> disk::Result<()> {
        let fail = |code| self.write_error(disk::Op::Truncate, code);
        self.truncate(len).map_err(fail)?;
        // xTruncate need not grow a file, so this writes a byte at the end.
        if self.file_size().map_err(fail)? < len {
            self.write(&[0], len - 1).map_err(fail)?;
        }
        Ok(())
    }

    fn sync(&self, kind: disk::SyncKind) -> disk::Result<()> {
        let strength = if self.0.lock().full_sync {
            ffi::SYNC_FULL
        } else {
            ffi::SYNC_NORMAL
        };
        let flags = match kind {
            disk::SyncKind::Data => strength | ffi::SYNC_DATAONLY,
            disk::SyncKind::Full => strength,
        };
        self.sync_with(flags)
            .map_err(|code| disk_error(disk::Op::Sync, code))
    }

    fn len(&self) -> disk::Result<u64> {
        self.file_size()
            .map_err(|code| disk_error(disk::Op::Len, code))
    }
}

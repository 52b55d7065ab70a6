//! The VFS itself. Time, randomness and sleeping are the host's.

use super::machine::State;
use super::open_file::{OpenFile, code, parent};
use densite_disk::{File, OpenMode};
use densite_sqlite::{Code, FileName, HostVfs, Opened, Vfs, ffi};
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// The longest path in bytes, including its end.
pub(super) const PATH_MAX: i32 = 512;

/// See the module.
pub(super) struct Simulated {
    pub(super) host: HostVfs,
    pub(super) state: Arc<State>,
}

fn text(path: &CStr) -> Result<&str, Code> {
    path.to_str().map_err(|_| Code::CANTOPEN)
}

impl Vfs for Simulated {
    type File = OpenFile;
    type Companion = OpenFile;

    fn host(&self) -> HostVfs {
        self.host
    }

    fn open(
        &self,
        name: Option<FileName<'_>>,
        flags: i32,
    ) -> Result<Opened<OpenFile, OpenFile>, Code> {
        let path = name.map(|name| text(name.path())).transpose()?;
        let file = OpenFile::open(&self.state, path, flags)?;
        Ok(Opened::File { file, flags })
    }

    fn delete(&self, path: &CStr, sync_dir: bool) -> Result<(), Code> {
        let (disk, path) = (&self.state.machine().disk, text(path)?);
        disk.remove(path).map_err(|e| code(&e))?;
        match sync_dir {
            true => disk
                .sync_dir(parent(path))
                .map_err(|_| Code::IOERR_DIR_FSYNC),
            false => Ok(()),
        }
    }

    /// An empty file does not count as existing, as in SQLite's unix VFS.
    fn access(&self, path: &CStr, flags: i32) -> Result<bool, Code> {
        let (disk, path) = (&self.state.machine().disk, text(path)?);
        let failed = |_| Code::IOERR_ACCESS;
        let exists = disk.exists(path).map_err(failed)?;
        if !exists || flags != ffi::ACCESS_EXISTS {
            return Ok(exists);
        }
        let file = disk.open(path, OpenMode::Read).map_err(failed)?;
        Ok(file.len().map_err(failed)? > 0)
    }

    fn longest_own_path(&self) -> i32 {
        PATH_MAX
    }

    /// Paths start at the root. There is no current directory, and there are no links.
    fn full_pathname(&self, path: &CStr) -> Result<Option<CString>, Code> {
        let full = format!("/{}", text(path)?.trim_start_matches('/'));
        match full.len() < PATH_MAX as usize {
            true => Ok(CString::new(full).ok()),
            false => Err(Code::CANTOPEN),
        }
    }
}

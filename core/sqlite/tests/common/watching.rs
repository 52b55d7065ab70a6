//! A VFS over the host's in which a test wraps some files.

use densite_sqlite::{Above, Code, FileName, HostFile, HostVfs, Opened, Vfs, ffi, register_vfs};
use std::ffi::CStr;

struct Watching<F> {
    host: HostVfs,
    which: i32,
    make: Box<dyn Fn(HostFile) -> F + Send + Sync>,
}

/// Registers it over the default VFS. `make` wraps the host's files that are opened with the flag
/// `which` (`OPEN_MAIN_DB` or `OPEN_WAL`).
pub(crate) fn watch<F: Above>(
    name: &CStr,
    which: i32,
    make: impl Fn(HostFile) -> F + Send + Sync + 'static,
) {
    let api = super::api();
    let vfs = Watching {
        host: HostVfs::find(api, None).expect("a default VFS"),
        which,
        make: Box::new(make),
    };
    register_vfs(api, name, vfs, false).expect("registers");
}

impl<F: Above> Vfs for Watching<F> {
    type File = F;
    type Companion = F;

    fn host(&self) -> HostVfs {
        self.host
    }

    fn open(&self, name: Option<FileName<'_>>, flags: i32) -> Result<Opened<F, F>, Code> {
        if flags & self.which == 0 {
            return Ok(Opened::Host);
        }
        // SAFETY: SQLite keeps the name of a main database or a WAL until after its xClose.
        let (host, flags) = unsafe { self.host.open(name, flags) }?;
        let file = (self.make)(host);
        Ok(match self.which {
            ffi::OPEN_MAIN_DB => Opened::File { file, flags },
            _ => Opened::Companion { file, flags },
        })
    }
}

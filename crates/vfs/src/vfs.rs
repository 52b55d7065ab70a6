//! The VFS: which files go through the store and which to the host as they are.

use crate::absent;
use crate::last_error::report;
use crate::main_file::MainFile;
use crate::pause;
use crate::settings::Settings;
use crate::wal_file::{self, WalFile};
use densite_sqlite::{Api, Code, FileName, HostVfs, Opened, Registered, Result, Vfs, ffi};
use std::ffi::CStr;

/// The name under which the VFS is registered as a rule.
pub const NAME: &CStr = c"densite";

/// The VFS over a host's.
pub(crate) struct DensiteVfs {
    name: String,
    host: HostVfs,
}

/// Registers the VFS under `name` over the host's VFS `host`, or its default one. It stays
/// registered for ever. Registering again under the same name changes nothing but, when
/// `make_default` is set, which one is the default.
///
/// # Errors
/// When there is no such host VFS, or when SQLite refuses.
pub fn register(api: Api, name: &CStr, host: Option<&CStr>, make_default: bool) -> Result<()> {
    match densite_sqlite::registered::<DensiteVfs>(api, name) {
        // Another build of Densite in this process came first: that one stays.
        Registered::Ours { vfs, .. } | Registered::Foreign(vfs) => {
            return if make_default {
                densite_sqlite::make_default(vfs)
            } else {
                Ok(())
            };
        }
        Registered::No => {}
    }
    let below = HostVfs::find(api, host).ok_or_else(|| {
        let wanted = host.map_or("the default".into(), CStr::to_string_lossy);
        densite_sqlite::Error::new(
            Code::ERROR,
            format!("there is no VFS {wanted:?} to build on"),
        )
    })?;
    let vfs = DensiteVfs {
        name: name.to_string_lossy().into_owned(),
        host: below,
    };
    densite_sqlite::register_vfs(api, name, vfs, make_default)?;
    Ok(())
}

/// The host's VFS below the one registered as [`NAME`]; `None` when that one is not
/// registered, or not by this build.
pub fn host_vfs(api: Api) -> Option<HostVfs> {
    match densite_sqlite::registered::<DensiteVfs>(api, NAME) {
        Registered::Ours { host, .. } => Some(host),
        Registered::Foreign(_) | Registered::No => None,
    }
}

impl Vfs for DensiteVfs {
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
        // Journals, temporary files and the WALs of others are the host's own, in SQLite's own memory.
        let Some(name) = name.filter(|_| flags & (ffi::OPEN_MAIN_DB | ffi::OPEN_WAL) != 0) else {
            return Ok(Opened::Host);
        };
        if flags & ffi::OPEN_WAL != 0 {
            let Some(preencoded) = wal_file::preencoded_of(&name.path().to_string_lossy()) else {
                return Ok(Opened::Host);
            };
            // SAFETY: SQLite keeps a WAL's name until after its xClose.
            let (host, flags) = unsafe { self.host.open(Some(name), flags) }?;
            let file = WalFile::new(host, preencoded);
            return Ok(Opened::Companion { file, flags });
        }
        let api = self.host.api();
        let path = name.path().to_string_lossy();
        let settings = match Settings::from_name(name, &self.name) {
            Ok(settings) => settings,
            Err(message) => {
                let message = format!("{path}: {message}");
                report(api, Code::CANTOPEN, &message);
                return Ok(Opened::File {
                    file: MainFile::refused(api, message),
                    flags,
                });
            }
        };
        // SAFETY: SQLite keeps a main database's name until after its xClose.
        let (file, flags) = unsafe { self.host.open(Some(name), flags) }?;
        pause::at("host-opened");
        // SAFETY: as above.
        let file = unsafe { MainFile::new(&self.name, self.host, file, name, flags, settings) };
        Ok(Opened::File { file, flags })
    }

    fn access(&self, path: &CStr, flags: i32) -> std::result::Result<bool, Code> {
        let host = || self.host.access(path, flags);
        if flags == ffi::ACCESS_EXISTS {
            absent::exists(path, host)
        } else {
            host()
        }
    }
}

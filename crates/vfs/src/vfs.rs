//! The VFS: which files go through the store and which to the host as they are.

use crate::absent;
use crate::identity::Identity;
use crate::last_error::report;
use crate::main_file::{MainFile, OpenedBy};
use crate::open_files::OpenFile;
use crate::settings::Settings;
use crate::wal_file::{WalFile, database_of};
use crate::worker;
use densite_sqlite::{Api, Code, FileName, HostVfs, Opened, Registered, Result, Vfs, ffi};
use std::ffi::CStr;

/// The name under which the VFS is registered as a rule.
pub const NAME: &CStr = c"densite";

type OpenedFile = std::result::Result<Opened<MainFile, WalFile>, Code>;

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

impl DensiteVfs {
    /// Opens a main database.
    fn open_main(&self, name: FileName<'_>, flags: i32) -> OpenedFile {
        let settings = match Settings::from_name(name, &self.name) {
            Ok(settings) => settings,
            Err(message) => {
                let message = format!("{}: {message}", name.path().to_string_lossy());
                report(self.host.api(), Code::CANTOPEN, &message);
                // SAFETY: SQLite keeps a main database's name until after its xClose.
                let file = unsafe { MainFile::refused(self.host, name, message) };
                return Ok(Opened::File { file, flags });
            }
        };
        let by = OpenedBy::Connection {
            vfs: &self.name,
            when_idle: worker::session,
        };
        // SAFETY: as above.
        let (file, flags) = unsafe { MainFile::open(self.host, name, flags, settings, by) }?;
        Ok(Opened::File { file, flags })
    }

    /// Opens a WAL: of a database that the store has open its pages are noted, any other is the
    /// host's own.
    fn open_wal(&self, name: FileName<'_>, flags: i32) -> OpenedFile {
        let database = database_of(name.path());
        let open_file = database
            .and_then(|path| Identity::at(self.host, &path))
            .and_then(|identity| OpenFile::find(&identity));
        let Some(preencoded) = open_file.and_then(|file| file.preencoded()) else {
            return Ok(Opened::Host);
        };
        // SAFETY: SQLite keeps a WAL's name until after its xClose.
        let (host, flags) = unsafe { self.host.open(Some(name), flags) }?;
        let file = WalFile::new(host, preencoded);
        Ok(Opened::Companion { file, flags })
    }
}

impl Vfs for DensiteVfs {
    type File = MainFile;
    type Companion = WalFile;

    fn host(&self) -> HostVfs {
        self.host
    }

    fn open(&self, name: Option<FileName<'_>>, flags: i32) -> OpenedFile {
        match name {
            Some(name) if flags & ffi::OPEN_MAIN_DB != 0 => self.open_main(name, flags),
            Some(name) if flags & ffi::OPEN_WAL != 0 => self.open_wal(name, flags),
            // Journals and temporary files are the host's own, in SQLite's own memory.
            _ => Ok(Opened::Host),
        }
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

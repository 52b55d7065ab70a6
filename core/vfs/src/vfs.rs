//! The VFS: decides which files go through the store and which directly to the host.

use crate::absent;
use crate::companion_file::CompanionFile;
use crate::companions::{Named, Which, owner, unowned};
use crate::identity::Identity;
use crate::last_error::{report, report_not_opened};
use crate::main_file::{MainFile, OpenedBy};
use crate::open_files::OpenFile;
use crate::path_check::has_system_files;
use crate::remote::{RemoteFile, is_replica, is_url, shown_url};
use crate::settings::Settings;
use crate::worker;
use densite_sqlite::{
    Api, Code, Companions, FileName, HostVfs, Opened, Registered, Result, Vfs, ffi,
};
use densite_store::{PreEncoded, Readahead};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

/// The usual name of the VFS.
pub const NAME: &CStr = c"densite";

/// The longest URL in bytes. Presigned ones have up to 2,000.
const URL_MAX: i32 = 8192;
/// How much shorter than that SQLite lets the name of a database be: "-journal".
const BESIDE: usize = 8;

/// The kinds of files whose names are those of a database with an ending.
const BESIDE_A_DATABASE: i32 = ffi::OPEN_MAIN_JOURNAL | ffi::OPEN_WAL | ffi::OPEN_SUPER_JOURNAL;

/// The endings of what SQLite looks for beside a database.
const BESIDE_REPLICA: [&str; 2] = [Companions::PLAIN.journal, Companions::PLAIN.wal];

type OpenedFile = std::result::Result<Opened<MainFile, CompanionFile>, Code>;

/// The VFS over a host's VFS.
pub(crate) struct DensiteVfs {
    name: String,
    host: HostVfs,
}

/// Registers the VFS under `name` over the host's VFS `host`, or over the default one. It stays
/// registered for ever. Registering the same name again only makes it the default, if
/// `make_default` is set.
///
/// # Errors
/// If there is no such host VFS, or if SQLite refuses.
pub fn register(api: Api, name: &CStr, host: Option<&CStr>, make_default: bool) -> Result<()> {
    match densite_sqlite::registered::<DensiteVfs>(api, name) {
        // If another build of Densite in this process was first, its VFS stays.
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
            format!("there is no VFS {wanted:?} to build on; register it first, or name one that PRAGMA vfs_list shows"),
        )
    })?;
    let vfs = DensiteVfs {
        name: name.to_string_lossy().into_owned(),
        host: without_ciphers(below),
    };
    densite_sqlite::register_vfs(api, name, vfs, make_default)?;
    Ok(())
}

/// Whether another copy of this library has registered the VFS.
pub(crate) fn is_of_another_copy(api: Api) -> bool {
    let found = densite_sqlite::registered::<DensiteVfs>(api, NAME);
    matches!(found, Registered::Foreign(_))
}

/// The VFS that reads and writes the bytes of files as they are. SQLite3 Multiple Ciphers encrypts
/// in a VFS above it. Above that one, Densite would hide that nothing can be encrypted.
fn without_ciphers(host: HostVfs) -> HostVfs {
    let name = host.name();
    let below = name.strip_prefix("multipleciphers-");
    let below = below.and_then(|below| CString::new(below).ok());
    let below = below.and_then(|below| HostVfs::find(host.api(), Some(&below)));
    below.unwrap_or(host)
}

/// The host's VFS below the one registered as [`NAME`]. `None` if that one is not registered, or
/// was registered by another build.
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
                let path = name.path().to_string_lossy();
                let path = match is_url_path(name.path()) {
                    true => shown_url(&path).into(),
                    false => path,
                };
                let message = format!("{path}: {message}");
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
        if is_remote(name.path()) {
            return Ok(self.open_remote(name, settings, by));
        }
        // SAFETY: as above.
        let (file, flags) = unsafe { MainFile::open(self.host, name, flags, settings, by) }?;
        Ok(Opened::File { file, flags })
    }

    /// Opens a remote main database. An error is reported like a wrong setting: after opening.
    fn open_remote(
        &self,
        name: FileName<'_>,
        mut settings: Settings,
        by: OpenedBy<'_>,
    ) -> Opened<MainFile, CompanionFile> {
        if settings.options.readahead == Readahead::Auto {
            settings.options.readahead = Readahead::Near;
        }
        let file = match RemoteFile::open(self.host.api(), name.path(), &settings.remote) {
            // SAFETY: SQLite keeps a main database's name until after its xClose.
            Ok(remote) => unsafe { MainFile::remote(self.host, name, remote, settings, by) },
            Err(message) => {
                report(self.host.api(), Code::CANTOPEN, &message);
                // SAFETY: as above.
                unsafe { MainFile::refused(self.host, name, message) }
            }
        };
        let flags = ffi::OPEN_MAIN_DB | ffi::OPEN_READONLY;
        Opened::File { file, flags }
    }

    /// Opens a journal or a WAL under its right name. If the store has the database of a WAL open,
    /// the WAL's pages are noted; otherwise the host opens the file itself.
    fn open_beside(&self, name: FileName<'_>, flags: i32) -> OpenedFile {
        let Some((named, which)) = owner(name.path()) else {
            return self.open_unowned(name, flags);
        };
        // SAFETY: SQLite closes a journal or WAL before its database.
        let Some(now) = (unsafe { named.until_closed(which) }) else {
            return Ok(Opened::Host);
        };
        let preencoded = match which {
            Which::Wal => self.preencoded(&named),
            Which::Journal => None,
        };
        if preencoded.is_none() {
            return Ok(Opened::HostAs(now));
        }
        // SAFETY: as above.
        let (host, flags) = unsafe { self.host.open(Some(now), flags) }?;
        let file = CompanionFile::new(host, preencoded);
        Ok(Opened::Companion { file, flags })
    }

    /// Opens a super-journal, or the journal of a database that it lists.
    fn open_unowned(&self, name: FileName<'_>, flags: i32) -> OpenedFile {
        let Some(own) = unowned(self.host, name.path()) else {
            return Ok(Opened::Host);
        };
        let (host, flags) = (self.host.open_path(&own, &[], flags)).map_err(|e| e.code)?;
        let file = CompanionFile::new(host, None);
        Ok(Opened::Companion { file, flags })
    }

    /// Where the pages of this database's WAL are noted, if the store has the database open.
    fn preencoded(&self, named: &Named) -> Option<Arc<PreEncoded>> {
        let identity = Identity::at(self.host, named.database()?.path())?;
        OpenFile::find(&identity)?.preencoded()
    }

    /// Calls `host` with the right name of a file beside a database; with any other path as it is.
    fn renamed<T>(&self, path: &CStr, host: impl FnOnce(&CStr) -> T) -> T {
        if let Some((named, which)) = owner(path) {
            return host(named.now(which).map_or(path, FileName::path));
        }
        match unowned(self.host, path) {
            Some(own) => host(&own),
            None => host(path),
        }
    }
}

fn is_url_path(path: &CStr) -> bool {
    path.to_str().is_ok_and(is_url)
}

/// Whether a path is that of a remote database, or of a file beside one: a URL, or the directory of
/// a replica, whose full path ends with a slash.
fn is_remote(path: &CStr) -> bool {
    let is_of_replica = |path: &str| {
        let beside = BESIDE_REPLICA.iter().find_map(|end| path.strip_suffix(end));
        is_replica(beside.unwrap_or(path))
    };
    (path.to_str()).is_ok_and(|path| is_url(path) || is_of_replica(path))
}

/// The full path of the directory of a replica, with a slash at its end; `None` if the path has none
/// there, or leads to a file. The host drops that slash.
fn replica_dir(host: HostVfs, path: &CStr) -> Option<CString> {
    if !path.to_bytes().ends_with(b"/") || !has_system_files(host) {
        return None;
    }
    let mut full = host.full_pathname(path).ok()?.into_bytes();
    if std::fs::metadata(OsStr::from_bytes(&full)).is_ok_and(|found| !found.is_dir()) {
        return None;
    }
    if !full.ends_with(b"/") {
        full.push(b'/');
    }
    CString::new(full).ok()
}

impl Vfs for DensiteVfs {
    type File = MainFile;
    type Companion = CompanionFile;

    fn host(&self) -> HostVfs {
        self.host
    }

    fn open(&self, name: Option<FileName<'_>>, flags: i32) -> OpenedFile {
        let opened = match name {
            Some(name) if flags & ffi::OPEN_MAIN_DB != 0 => self.open_main(name, flags),
            Some(name) if flags & BESIDE_A_DATABASE != 0 => self.open_beside(name, flags),
            // The host opens temporary files itself, in SQLite's memory.
            _ => Ok(Opened::Host),
        };
        opened.inspect_err(|code| self.not_opened(name.map(FileName::path), *code))
    }

    fn not_opened(&self, path: Option<&CStr>, code: Code) {
        let path = path.map_or("a temporary file".into(), CStr::to_string_lossy);
        report_not_opened(self.host, &path, code);
    }

    fn longest_own_path(&self) -> i32 {
        URL_MAX
    }

    fn full_pathname(&self, path: &CStr) -> std::result::Result<Option<CString>, Code> {
        if is_url_path(path) && path.count_bytes() > URL_MAX as usize - BESIDE {
            let url = shown_url(&path.to_string_lossy());
            let message = format!(
                "{url}: the URL is longer than {} bytes",
                URL_MAX as usize - BESIDE
            );
            report(self.host.api(), Code::CANTOPEN, &message);
            return Err(Code::CANTOPEN);
        }
        match is_url_path(path) {
            true => Ok(Some(path.into())),
            false => Ok(replica_dir(self.host, path)),
        }
    }

    fn delete(&self, path: &CStr, sync_dir: bool) -> std::result::Result<(), Code> {
        self.renamed(path, |path| self.host.delete(path, sync_dir))
    }

    fn access(&self, path: &CStr, flags: i32) -> std::result::Result<bool, Code> {
        if is_remote(path) {
            // Nothing is beside a remote database.
            return Ok(false);
        }
        let host = || self.renamed(path, |path| self.host.access(path, flags));
        if flags == ffi::ACCESS_EXISTS {
            absent::exists(path, host)
        } else {
            host()
        }
    }
}

//! The database file that a verb works on.

use crate::error::{Error, Result, url_in};
use crate::paths::utf8;
use densite_disk::{File as _, Rights};
use densite_sqlite::Api;
use densite_vfs::{RemoteFile, shown_url};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The permission bits of a copy of a remote file, before the umask.
const REMOTE_MODE: u32 = 0o666;

/// The file itself, after symbolic links, with its properties that are known without opening it. Or
/// a remote file, which is open.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The path as the caller gave it, for messages. A URL is without its secrets.
    pub(crate) given: PathBuf,
    /// The absolute path without symbolic links, which is opened and replaced. For a remote file as
    /// `given`.
    pub(crate) path: PathBuf,
    /// Length in bytes.
    pub(crate) len: u64,
    /// Number of its names (hard links).
    pub(crate) links: u64,
    /// The identity of the file while it exists: device and inode.
    pub(crate) inode: (u64, u64),
    /// Its owner, group and mode.
    pub(crate) rights: Rights,
    /// Set for a remote file.
    pub(crate) remote: Option<RemoteTarget>,
}

/// A remote file.
#[derive(Clone)]
pub(crate) struct RemoteTarget {
    /// The whole URL, which can have secrets.
    url: String,
    pub(crate) file: RemoteFile,
}

/// Without the URL, which can have secrets.
impl std::fmt::Debug for RemoteTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteTarget").finish_non_exhaustive()
    }
}

impl Target {
    /// The name by which SQLite opens it.
    pub(crate) fn name(&self) -> Result<&str> {
        match &self.remote {
            Some(remote) => Ok(&remote.url),
            None => utf8(&self.path),
        }
    }

    /// Length in bytes of the file now.
    pub(crate) fn len_now(&self) -> u64 {
        match self.remote {
            Some(_) => self.len,
            None => crate::paths::len_or_zero(&self.path),
        }
    }
}

/// Resolves a database to read, which is an existing regular file, a `file:` URI of one, or a URL.
pub(crate) fn resolve_to_read(api: Api, given: &Path) -> Result<Target> {
    if let Some(path) = crate::uri::path_in(given) {
        return resolve_to_read(api, &path);
    }
    let Some(url) = remote_in(given) else {
        return resolve(given);
    };
    let shown = match url_in(given) {
        Some(url) => PathBuf::from(shown_url(url)),
        None => given.to_path_buf(),
    };
    let file = RemoteFile::at(api, url).map_err(|message| Error::Remote {
        path: shown.clone(),
        message,
    })?;
    let len = file
        .host_file()
        .len()
        .map_err(|e| Error::from_disk(&shown, "read", &e))?;
    Ok(Target {
        given: shown.clone(),
        path: shown,
        len,
        links: 1,
        inode: (0, 0),
        rights: Rights::own(REMOTE_MODE),
        remote: Some(RemoteTarget {
            url: url.to_owned(),
            file,
        }),
    })
}

/// The name of a database that is only read: a URL, or a directory that has a replica, with a slash
/// at its end.
pub(crate) fn remote_in(given: &Path) -> Option<&str> {
    url_in(given).or_else(|| {
        let name = given
            .to_str()
            .filter(|name| densite_vfs::is_replica(name))?;
        given.join("head").is_file().then_some(name)
    })
}

/// Resolves the path of a database, which must be an existing regular file.
pub(crate) fn resolve(given: &Path) -> Result<Target> {
    if let Some(url) = url_in(given) {
        return Err(Error::Setting(format!(
            "{}: a remote database can only be read; densite decompress and VACUUM INTO copy it to this machine",
            shown_url(url)
        )));
    }
    let path = std::fs::canonicalize(given).map_err(|e| Error::from_std(given, "reach it", &e))?;
    // No symbolic link remains in it, unless another process created one just now.
    let meta =
        std::fs::symlink_metadata(&path).map_err(|e| Error::from_std(given, "look at it", &e))?;
    if meta.is_dir() {
        return Err(Error::IsDirectory {
            path: given.to_path_buf(),
        });
    }
    if !meta.is_file() {
        return Err(Error::NotADatabase {
            path: given.to_path_buf(),
            empty: false,
        });
    }
    Ok(Target {
        given: given.to_path_buf(),
        path,
        len: meta.len(),
        links: meta.nlink(),
        inode: (meta.dev(), meta.ino()),
        rights: Rights::of_meta(&meta),
        remote: None,
    })
}

/// Refuses a destination that is the source itself, by this or another name.
///
/// # Errors
/// [`Error::Setting`].
pub(crate) fn must_be_another(source: &Target, dst: &Path) -> Result<()> {
    if source.remote.is_none() && resolve(dst).is_ok_and(|dst| dst.inode == source.inode) {
        return Err(Error::Setting(format!(
            "{}: this is the source itself, which was not changed; name another file",
            dst.display()
        )));
    }
    Ok(())
}

/// Returns an error if the path now leads to another file. A process that waited for the lock of
/// another vacuum or conversion has the old file.
pub(crate) fn still_there(target: &Target) -> Result<()> {
    let now = std::fs::symlink_metadata(&target.path);
    match now.is_ok_and(|now| (now.dev(), now.ino()) == target.inode) {
        true => Ok(()),
        false => Err(replaced_meanwhile(target)),
    }
}

/// The error for a file that was replaced while a verb worked on it.
pub(crate) fn replaced_meanwhile(target: &Target) -> Error {
    Error::Io {
        path: target.given.clone(),
        doing: "replace".into(),
        message: "it was replaced or renamed meanwhile; try again".into(),
    }
}

//! The database file that a verb works on, and names: of the files beside it (its journal, WAL,
//! shared memory, and temporary copies), and the path in a `file:` URI.

use crate::error::{Error, Result, parent_of, url_in};
use densite_disk::{File as _, Rights};
use densite_sqlite::{Api, Companions, SHM};
use densite_vfs::{RemoteFile, shown_url};
use std::ffi::{OsStr, OsString};
use std::iter::once;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The permission bits of a copy of a remote file, before the umask.
const REMOTE_MODE: u32 = 0o666;

/// The text between the name of a database and the random part in the name of an unfinished copy.
pub(crate) const TEMP_MARK: &str = "-densite-tmp-";

/// What the name of a log adds to that of its database.
pub(crate) const LOG: &str = "-log";

/// Endings of the files that SQLite can leave beside a database of either form.
pub(crate) const COMPANIONS: [&str; 5] = Companions::ALL;

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
            None => len_or_zero(&self.path),
        }
    }
}

/// Resolves a database to read, which is an existing regular file, a `file:` URI of one, or a URL.
pub(crate) fn resolve_to_read(api: Api, given: &Path) -> Result<Target> {
    if let Some(path) = path_in(given) {
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

/// The path as text. SQLite requires UTF-8.
pub(crate) fn utf8(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        Error::Setting(format!(
            "{}: SQLite needs file names in UTF-8; rename it first",
            path.display()
        ))
    })
}

/// The name that SQLite gives to a file beside the database: its name with `suffix` appended.
pub(crate) fn beside(db: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(db.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns an error if the destination exists, or if the journal, the WAL or the log of an earlier
/// database is beside it. SQLite and ingest would take that file for the new database's own.
pub(crate) fn must_be_free(dst: &Path) -> Result<()> {
    is_no_companion(dst)?;
    let beside = (COMPANIONS.iter().copied().chain(once(LOG))).map(|end| beside(dst, end));
    for path in once(dst.to_path_buf()).chain(beside) {
        match std::fs::symlink_metadata(&path) {
            Ok(_) => return Err(Error::Exists { path }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::from_std(&path, "look at it", &e)),
        }
    }
    let dir = parent_of(dst);
    match std::fs::metadata(&dir) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(Error::Io {
            path: dst.to_path_buf(),
            doing: "create".into(),
            message: format!("{} is not a directory", dir.display()),
        }),
        Err(e) => Err(Error::from_std(&dir, "look at it", &e)),
    }
}

/// Returns an error if SQLite uses the name for a file beside an existing database, which it would
/// remove.
pub(crate) fn is_no_companion(dst: &Path) -> Result<()> {
    for suffix in COMPANIONS {
        let db = dst.as_os_str().as_bytes().strip_suffix(suffix.as_bytes());
        let db = db.map(|db| Path::new(OsStr::from_bytes(db)));
        if let Some(db) = db.filter(|db| db.is_file()) {
            return Err(Error::Setting(format!(
                "{}: SQLite uses this name for a file beside {}; choose another name",
                dst.display(),
                db.display()
            )));
        }
    }
    Ok(())
}

/// The files and the directory of a log that belong to a database and exist, itself first: a copy
/// needs all of them, except the shared memory.
pub(crate) fn belonging(db: &Path, companions: Companions) -> Vec<PathBuf> {
    let Companions { journal, wal } = companions;
    let ends = ["", journal, wal, SHM, "-log"];
    let all = ends.into_iter().map(|end| beside(db, end));
    all.filter(|path| path.exists()).collect()
}

/// Length of a file in bytes; 0 if it does not exist.
pub(crate) fn len_or_zero(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |m| m.len())
}

/// Copies that interrupted runs (a kill, a power cut) left beside a database. They are only
/// reported, because a copy can belong to a run that still works.
pub(crate) fn leftovers(db: &Path) -> Vec<PathBuf> {
    let Some(name) = db.file_name() else {
        return Vec::new();
    };
    let mut prefix = name.to_os_string();
    prefix.push(TEMP_MARK);
    let prefix = prefix.to_string_lossy().into_owned();
    let Ok(entries) = std::fs::read_dir(parent_of(db)) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with(&prefix))
        .map(|e| e.path())
        .collect();
    found.sort();
    found
}

/// The path of a `file:` URI; `None` for other names, and for a file that has this very name.
pub(crate) fn path_in(given: &Path) -> Option<PathBuf> {
    let uri = given.to_str()?.strip_prefix("file:")?;
    if given.exists() {
        return None;
    }
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    // file:///path and file://localhost/path.
    let path = match uri.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => uri,
    };
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_uris() {
        for (uri, path) in [
            ("file:a.db", "a.db"),
            ("file:/x/a%20b.db?level=9#f", "/x/a b.db"),
            ("file:///x/a.db?vfs=densite", "/x/a.db"),
            ("file://localhost/x/a.db", "/x/a.db"),
            ("file:100%.db", "100%.db"),
        ] {
            assert_eq!(path_in(Path::new(uri)), Some(path.into()), "{uri}");
        }
        assert_eq!(path_in(Path::new("a.db")), None);
    }
}

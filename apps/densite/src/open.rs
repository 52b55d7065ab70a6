//! Opening a database.

use crate::register::register;
use crate::{Error, FileError, Result, setting, uri};
use rusqlite::{Connection, OpenFlags};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a statement waits for a lock, unless the caller sets another time.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time that SQLite's milliseconds can hold, 24 days.
const BUSY_TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// Opens a database through Densite. A missing file is created as a Densite file. A plain SQLite
/// file stays plain.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("app.db");
/// let con = densite::open(&path)?;
/// con.execute_batch("CREATE TABLE vote(user INTEGER, article INTEGER)")?;
/// con.execute("INSERT INTO vote VALUES (?1, ?2)", (1, 2))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`OpenOptions::open`].
pub fn open(path: impl AsRef<Path>) -> Result<Connection> {
    OpenOptions::new().open(path)
}

/// The codec of new pages. Pages with any codec can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Codec {
    /// The best codec for each page.
    #[default]
    Auto,
    /// The typed codec if it can encode the page, otherwise zstd.
    Typed,
    /// zstd, with a dictionary if one was trained.
    Zstd,
    /// Not compressed.
    Raw,
}

impl Codec {
    fn name(self) -> &'static str {
        match self {
            Codec::Auto => "auto",
            Codec::Typed => "typed",
            Codec::Zstd => "zstd",
            Codec::Raw => "raw",
        }
    }
}

/// How to open a database.
///
/// An option that is not set has Densite's or SQLite's default. Foreign keys are off, as in SQLite.
///
/// ```
/// use std::time::Duration;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("app.db");
/// let con = densite::OpenOptions::new()
///     .level(9)
///     .decoded_cache_mib(256)
///     .busy_timeout(Duration::from_secs(30))
///     .open(&path)?;
/// # con.execute_batch("CREATE TABLE t(a)")?;
/// # drop(con);
/// let reader = densite::OpenOptions::new().read_only(true).open(&path)?;
/// assert!(reader.execute_batch("DROP TABLE t").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "options do nothing until `open` is called"]
pub struct OpenOptions {
    level: Option<i32>,
    threads: Option<usize>,
    decoded_cache_mib: Option<usize>,
    codec: Codec,
    read_only: bool,
    create: bool,
    busy_timeout: Duration,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            level: None,
            threads: None,
            decoded_cache_mib: None,
            codec: Codec::Auto,
            read_only: false,
            create: true,
            busy_timeout: BUSY_TIMEOUT,
        }
    }
}

impl OpenOptions {
    /// The defaults.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// The zstd level of new pages, -7 to 22. The default is 3.
    pub fn level(mut self, level: i32) -> OpenOptions {
        self.level = Some(level);
        self
    }

    /// The number of background threads that encode and decode, 0 to 256. The default is one less
    /// than the cores, at least 1.
    pub fn threads(mut self, threads: usize) -> OpenOptions {
        self.threads = Some(threads);
        self
    }

    /// The size of the cache of decoded pages, in MiB, for this file in this process. By default
    /// all files of the process together take up to an eighth of the memory that is available.
    pub fn decoded_cache_mib(mut self, mib: usize) -> OpenOptions {
        self.decoded_cache_mib = Some(mib);
        self
    }

    /// The codec of new pages.
    pub fn codec(mut self, codec: Codec) -> OpenOptions {
        self.codec = codec;
        self
    }

    /// Whether the connection can only read. If so, it creates no file. The default is no.
    pub fn read_only(mut self, read_only: bool) -> OpenOptions {
        self.read_only = read_only;
        self
    }

    /// Whether a missing file is created. The default is yes.
    pub fn create(mut self, create: bool) -> OpenOptions {
        self.create = create;
        self
    }

    /// How long a statement waits for another connection's lock; 0 does not wait. The default is 5
    /// seconds.
    pub fn busy_timeout(mut self, timeout: Duration) -> OpenOptions {
        self.busy_timeout = timeout;
        self
    }

    /// Opens the database. The path is a file name, not a URI, so no character has a special
    /// meaning. Or it is the URL of a remote database (`https://`, `http://`, `s3://`), which can
    /// only be read.
    ///
    /// # Errors
    /// [`Error::Setting`] if a setting is out of range; [`Error::File`] if the path leads to no
    /// file; [`Error::Open`] for other errors of SQLite or Densite.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Connection> {
        let path = path.as_ref();
        let mut uri = uri::of_path(self.name(path)?);
        self.add_settings(&mut uri)?;
        register()?;
        // Clears a message of an earlier call that succeeded after all.
        let _ = densite_vfs::take_last_error();
        let opened = Connection::open_with_flags(&uri, self.flags()).and_then(|con| {
            con.busy_timeout(self.busy_timeout.min(BUSY_TIMEOUT_MAX))?;
            // SQLite's own default; the linked library was built with another one.
            con.pragma_update(None, "foreign_keys", false)?;
            Ok(con)
        });
        opened.map_err(|source| refused(path, &uri, source))
    }

    /// The path as text, if it can lead to a database.
    fn name<'p>(&self, path: &'p Path) -> Result<&'p str> {
        let setting = |what: &str| {
            let shown = path.to_string_lossy().escape_debug().to_string();
            Err(Error::Setting(format!("the path \"{shown}\" {what}")))
        };
        let Some(name) = path.to_str() else {
            return setting("is not UTF-8; rename the file or its folder");
        };
        if name.is_empty() || name == ":memory:" {
            return setting(
                "is not a file name; for a database in memory use rusqlite::Connection::open_in_memory",
            );
        }
        if name.contains('\0') {
            return setting("contains a NUL, which file names cannot contain; remove it");
        }
        if densite_vfs::is_url(name) || densite_vfs::is_replica(name) {
            return Ok(name);
        }
        let missing = |path: PathBuf| Err(FileError::NotFound { path }.into());
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Err(FileError::IsDirectory {
                path: path.to_path_buf(),
            }
            .into()),
            Ok(_) => Ok(name),
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Ok(name),
            Err(_) => match path.parent() {
                Some(dir) if !dir.as_os_str().is_empty() && !dir.is_dir() => {
                    missing(dir.to_path_buf())
                }
                _ if !self.create || self.read_only => missing(path.to_path_buf()),
                _ => Ok(name),
            },
        }
    }

    fn add_settings(&self, uri: &mut String) -> Result<()> {
        let level = self.level.map(setting::level).transpose()?;
        let threads = self.threads.map(setting::threads).transpose()?;
        let cache = self.decoded_cache_mib.map(setting::cache_mib).transpose()?;
        let settings = [
            ("level", level.map(|n| n.to_string())),
            ("threads", threads.map(|n| n.to_string())),
            ("decoded_cache", cache.map(|n| n.to_string())),
            (
                "codec",
                (self.codec != Codec::Auto).then(|| self.codec.name().to_owned()),
            ),
        ];
        for (name, value) in settings {
            if let Some(value) = value {
                // Writing to a string cannot fail.
                let _ = write!(uri, "&{name}={value}");
            }
        }
        Ok(())
    }

    fn flags(&self) -> OpenFlags {
        let access = match (self.read_only, self.create) {
            (true, _) => OpenFlags::SQLITE_OPEN_READ_ONLY,
            (false, true) => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            (false, false) => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        access | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX
    }
}

/// An error that names the path once instead of the URI.
fn refused(path: &Path, uri: &str, source: rusqlite::Error) -> Error {
    let url = path.to_str().filter(|path| densite_vfs::is_url(path));
    let (path, source) = match url.map(densite_vfs::shown_url) {
        Some(shown) => (PathBuf::from(&shown), without_uri(source, uri, &shown)),
        None => (path.to_path_buf(), source),
    };
    let said = source.to_string();
    let said = said.strip_suffix(&format!(": {uri}")).unwrap_or(&said);
    let own = said.strip_prefix(&format!("{}: ", path.display()));
    let of_vfs = || {
        let said = densite_vfs::take_last_error()?;
        let own = said.strip_prefix(&format!("{}: ", path.display()));
        Some(own.map_or(said.clone(), str::to_owned))
    };
    let message = match own.map(str::to_owned).or_else(of_vfs) {
        Some(message) => message,
        None => {
            format!("{said}; check the path, and the owner and mode of the file and its directory")
        }
    };
    Error::Open {
        path,
        message,
        source,
    }
}

/// Replaces the URI, which can have secrets, in an error of SQLite.
fn without_uri(source: rusqlite::Error, uri: &str, shown: &str) -> rusqlite::Error {
    match source {
        rusqlite::Error::SqliteFailure(code, Some(message)) => {
            rusqlite::Error::SqliteFailure(code, Some(message.replace(uri, shown)))
        }
        other => other,
    }
}

//! Databases of web servers and object storage: a file of the host that is read by ranges.
//!
//! Such a file is one version of a remote file and never changes. So SQLite takes no locks on it,
//! and there can be no journal and no WAL beside it. A URL or a path that ends with a slash is that
//! of a replica (`following.rs`): there, each transaction begins with the newest state.

mod following;
mod prefix;

use following::Following;
pub use prefix::{bucket, folders};

use crate::followed::Followed;
use crate::last_error::report;
use crate::settings::RemoteSettings;
use densite_disk::{File, hash, sync::Mutex};
use densite_remote::{Client, Counters, Problem, Remote, RemoteOptions};
use densite_sqlite::{Api, Code, HostFile, PerProcess, VfsFile, ffi, file_of};
use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;

static CLIENT: PerProcess<Client> = PerProcess::new();

/// Whether a name is a URL of a remote database.
pub fn is_url(name: &str) -> bool {
    densite_remote::is_url(name)
}

/// Whether a name is that of a replica, which is followed: a URL or a directory with a slash at its
/// end.
pub fn is_replica(name: &str) -> bool {
    name.ends_with('/')
}

/// A URL for messages, without what can be secret: its query, user and password.
pub fn shown_url(url: &str) -> String {
    densite_remote::shown(url)
}

/// The requests and bytes that reading the open remote files of this process has taken.
pub fn remote_cost() -> (u64, u64) {
    let Counters {
        requests, bytes, ..
    } = CLIENT.get().counters();
    (requests, bytes)
}

/// Writes a file to a URL of object storage. `progress` is called with the bytes that were sent,
/// and stops the work by returning false.
///
/// # Errors
/// A sentence with the URL, without secrets.
pub fn upload(
    file: &dyn File,
    url: &str,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(), String> {
    densite_remote::upload(CLIENT.get(), file, url, &RemoteOptions::default(), progress)
        .map_err(|e| e.to_string())
}

/// What a remote file is.
#[derive(Clone)]
enum Body {
    /// One version of one file.
    File {
        remote: Arc<Remote>,
        /// Of the full URL: URLs of two files can differ in the query alone.
        url_hash: u64,
    },
    /// A replica that is followed.
    Replica(Arc<Following>),
}

/// An open remote file.
#[derive(Clone)]
pub struct RemoteFile {
    api: Api,
    body: Body,
    /// Why the newest read failed.
    failure: Arc<Mutex<Option<String>>>,
}

impl RemoteFile {
    /// Opens the newest version of the file at a URL, or of a replica, with the default settings.
    ///
    /// # Errors
    /// A sentence with the URL, without secrets.
    pub fn at(api: Api, url: &str) -> Result<RemoteFile, String> {
        match CString::new(url) {
            Ok(url) => RemoteFile::open(api, &url, &RemoteSettings::default()),
            Err(_) => Err(format!("{}: a URL has no zero bytes", shown_url(url))),
        }
    }

    /// Opens the newest version of the file at a URL.
    ///
    /// # Errors
    /// A sentence with the URL.
    pub(crate) fn open(
        api: Api,
        url: &CStr,
        settings: &RemoteSettings,
    ) -> Result<RemoteFile, String> {
        let defaults = RemoteOptions::default();
        let options = RemoteOptions {
            ca_file: settings.ca_file.clone(),
            timeout: settings.timeout.unwrap_or(defaults.timeout),
            cache_dir: settings.cache_dir.clone(),
            cache_bytes: settings.cache_bytes.unwrap_or(defaults.cache_bytes),
        };
        let text = url.to_string_lossy();
        let body = if is_replica(&text) {
            Body::Replica(Arc::new(Following::open(&text, &options)?))
        } else {
            let remote = CLIENT.get().open(&text, &options);
            Body::File {
                remote: remote.map_err(|e| e.to_string())?,
                url_hash: hash::xxh3_64(url.to_bytes()),
            }
        };
        Ok(RemoteFile {
            api,
            body,
            failure: Arc::default(),
        })
    }

    /// Whether the file changes: it is a replica that is followed.
    pub(crate) fn is_followed(&self) -> bool {
        matches!(self.body, Body::Replica(_))
    }

    /// What a connection to a replica reads; `None` for another file.
    pub(crate) fn followed(&self) -> Option<Followed> {
        match &self.body {
            Body::Replica(following) => Some(following.followed()),
            Body::File { .. } => None,
        }
    }

    /// Whether a transaction began with another state than the one before it.
    pub(crate) fn take_moved(&self) -> bool {
        match &self.body {
            Body::Replica(following) => following.take_moved(),
            Body::File { .. } => false,
        }
    }

    /// The stored bytes, as a file of the host. The reason for an error is taken with
    /// [`take_last_error`](crate::take_last_error).
    pub fn host_file(&self) -> HostFile {
        file_of(self.api, self.clone())
    }

    /// Equal for two connections that read the same version of a file.
    pub fn identity(&self) -> String {
        match &self.body {
            Body::File { remote, url_hash } => format!("{url_hash:016x} {}", remote.version()),
            Body::Replica(following) => following.identity(),
        }
    }

    /// The URL, without secrets.
    pub(crate) fn url(&self) -> &str {
        match &self.body {
            Body::File { remote, .. } => remote.url(),
            Body::Replica(following) => following.url(),
        }
    }

    /// What reading has cost, by name. For a replica, what its state is.
    pub fn figures(&self) -> Vec<(&'static str, u64)> {
        let remote = match &self.body {
            Body::File { remote, .. } => remote,
            Body::Replica(following) => {
                let (n, time_ms) = following.snapshot().point();
                return vec![("replica_restore_point", n), ("replica_time_ms", time_ms)];
            }
        };
        let Counters {
            requests,
            bytes,
            hits,
            disk_hits,
            slowest,
            ..
        } = remote.counters();
        let slowest = u64::try_from(slowest.as_micros()).unwrap_or(u64::MAX);
        vec![
            ("remote_requests", requests),
            ("remote_bytes", bytes),
            ("remote_cache_hits", hits),
            ("remote_disk_hits", disk_hits),
            ("remote_slowest_micros", slowest),
        ]
    }

    /// Why the newest read failed, if that was not taken yet. The store knows only a code.
    pub(crate) fn take_failure(&self) -> Option<String> {
        self.failure.lock().take()
    }

    fn fail(&self, error: &densite_remote::Error) -> Code {
        let code = match error.problem() {
            Problem::Refused(_) => Code::PERM,
            _ => Code::IOERR_READ,
        };
        self.note(code, error.to_string())
    }

    /// Reports a failure, and keeps it for the message of the store's error.
    fn note(&self, code: Code, message: String) -> Code {
        report(self.api, code, &message);
        *self.failure.lock() = Some(message);
        code
    }
}

impl VfsFile for RemoteFile {
    fn close(&mut self) -> Result<(), Code> {
        Ok(())
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Code> {
        match &self.body {
            Body::File { remote, .. } => remote.read_at(buf, offset).map_err(|e| self.fail(&e)),
            Body::Replica(following) => following
                .read_at(buf, offset)
                .map_err(|message| self.note(Code::IOERR_READ, message)),
        }
    }

    fn write(&mut self, _buf: &[u8], _offset: u64) -> Result<(), Code> {
        Err(Code::READONLY)
    }

    fn truncate(&mut self, _len: u64) -> Result<(), Code> {
        Err(Code::READONLY)
    }

    fn sync(&mut self, _flags: i32) -> Result<(), Code> {
        Ok(())
    }

    fn file_size(&mut self) -> Result<u64, Code> {
        Ok(match &self.body {
            Body::File { remote, .. } => remote.len(),
            Body::Replica(following) => following.snapshot().image_len(),
        })
    }

    fn lock(&mut self, level: i32) -> Result<(), Code> {
        match &self.body {
            Body::File { .. } => Ok(()),
            Body::Replica(following) if level == ffi::LOCK_SHARED => following
                .begin()
                .map_err(|message| self.note(Code::IOERR_LOCK, message)),
            Body::Replica(_) => Err(Code::READONLY),
        }
    }

    fn unlock(&mut self, _level: i32) -> Result<(), Code> {
        Ok(())
    }

    fn check_reserved(&mut self) -> Result<bool, Code> {
        Ok(false)
    }

    unsafe fn file_control(&mut self, _op: i32, _arg: *mut c_void) -> Code {
        Code::NOTFOUND
    }

    fn device_characteristics(&mut self) -> i32 {
        match self.is_followed() {
            true => 0,
            false => ffi::IOCAP_IMMUTABLE,
        }
    }
}

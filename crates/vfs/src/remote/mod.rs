//! Databases of web servers and object storage: a file of the host that is read by ranges.
//!
//! Such a file is one version of a remote file and never changes. So SQLite takes no locks on it,
//! and there can be no journal and no WAL beside it.

mod replica;

pub use replica::bucket;

use crate::last_error::report;
use crate::settings::RemoteSettings;
use densite_disk::{File, hash, sync::Mutex};
use densite_remote::{Client, Counters, Options, Problem, Remote};
use densite_sqlite::{Api, Code, HostFile, PerProcess, VfsFile, ffi, file_of};
use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;

static CLIENT: PerProcess<Client> = PerProcess::new();

/// Whether a name is a URL of a remote database.
pub fn is_url(name: &str) -> bool {
    densite_remote::is_url(name)
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
    densite_remote::upload(CLIENT.get(), file, url, &Options::default(), progress)
        .map_err(|e| e.to_string())
}

/// An open remote file.
#[derive(Clone)]
pub struct RemoteFile {
    api: Api,
    remote: Arc<Remote>,
    /// Of the full URL: URLs of two files can differ in the query alone.
    url_hash: u64,
    /// Why the newest read failed.
    failure: Arc<Mutex<Option<String>>>,
}

impl RemoteFile {
    /// Opens the newest version of the file at a URL, with the default settings.
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
        let defaults = Options::default();
        let options = Options {
            ca_file: settings.ca_file.clone(),
            timeout: settings.timeout.unwrap_or(defaults.timeout),
            cache_dir: settings.cache_dir.clone(),
            cache_bytes: settings.cache_bytes.unwrap_or(defaults.cache_bytes),
        };
        let remote = CLIENT.get().open(&url.to_string_lossy(), &options);
        Ok(RemoteFile {
            api,
            remote: remote.map_err(|e| e.to_string())?,
            url_hash: hash::xxh3_64(url.to_bytes()),
            failure: Arc::default(),
        })
    }

    /// The stored bytes, as a file of the host. The reason for an error is taken with
    /// [`take_last_error`](crate::take_last_error).
    pub fn host_file(&self) -> HostFile {
        file_of(self.api, self.clone())
    }

    /// Equal for two connections that read the same version of a file.
    pub fn identity(&self) -> String {
        format!("{:016x} {}", self.url_hash, self.remote.version())
    }

    /// The URL, without secrets.
    pub(crate) fn url(&self) -> &str {
        self.remote.url()
    }

    /// What reading has cost, by name.
    pub fn figures(&self) -> [(&'static str, u64); 5] {
        let Counters {
            requests,
            bytes,
            hits,
            disk_hits,
            slowest,
            ..
        } = self.remote.counters();
        let slowest = u64::try_from(slowest.as_micros()).unwrap_or(u64::MAX);
        [
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
        report(self.api, code, &error.to_string());
        *self.failure.lock() = Some(error.to_string());
        code
    }
}

impl VfsFile for RemoteFile {
    fn close(&mut self) -> Result<(), Code> {
        Ok(())
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Code> {
        self.remote.read_at(buf, offset).map_err(|e| self.fail(&e))
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
        Ok(self.remote.len())
    }

    fn lock(&mut self, _level: i32) -> Result<(), Code> {
        Ok(())
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
        ffi::IOCAP_IMMUTABLE
    }
}

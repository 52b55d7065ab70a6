//! In place of remote databases, where Densite is built without the feature `remote`: their URLs
//! are refused.

use crate::followed::Followed;
use crate::settings::RemoteSettings;
use densite_disk::File;
use densite_sqlite::{Api, HostFile};
use std::convert::Infallible;
use std::ffi::CStr;

/// Whether a name is a URL of a remote database.
pub fn is_url(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["https://", "http://", "s3://"]
        .iter()
        .any(|scheme| name.starts_with(scheme))
}

/// Whether a name is that of a replica: a URL or a directory with a slash at its end.
pub fn is_replica(name: &str) -> bool {
    name.ends_with('/')
}

/// A URL for messages, without its query, which can be secret.
pub fn shown_url(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// The requests and bytes of no remote file.
pub fn remote_cost() -> (u64, u64) {
    (0, 0)
}

/// Refuses a URL.
///
/// # Errors
/// Always: a sentence with the URL.
pub fn upload(_: &dyn File, url: &str, _: &mut dyn FnMut(u64) -> bool) -> Result<(), String> {
    Err(without_remote(url))
}

/// The error for a URL.
pub fn without_remote(url: &str) -> String {
    format!(
        "{}: this build of Densite has no remote files; build it with the feature remote",
        shown_url(url)
    )
}

/// No remote file can be open.
#[derive(Clone)]
pub struct RemoteFile(Infallible);

impl RemoteFile {
    /// Refuses a URL.
    ///
    /// # Errors
    /// Always: a sentence with the URL.
    pub fn at(_: Api, url: &str) -> Result<RemoteFile, String> {
        Err(without_remote(url))
    }

    pub(crate) fn open(api: Api, url: &CStr, _: &RemoteSettings) -> Result<RemoteFile, String> {
        RemoteFile::at(api, &url.to_string_lossy())
    }

    /// The file, if there could be one.
    pub fn host_file(&self) -> HostFile {
        match self.0 {}
    }

    /// The version of the file.
    pub fn identity(&self) -> String {
        match self.0 {}
    }

    pub(crate) fn take_failure(&self) -> Option<String> {
        match self.0 {}
    }

    pub(crate) fn url(&self) -> &str {
        match self.0 {}
    }

    pub(crate) fn is_followed(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn followed(&self) -> Option<Followed> {
        match self.0 {}
    }

    pub(crate) fn take_moved(&self) -> bool {
        match self.0 {}
    }

    /// What reading has cost.
    pub fn figures(&self) -> Vec<(&'static str, u64)> {
        match self.0 {}
    }
}

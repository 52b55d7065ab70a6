//! HTTP clients, which files with the same options share.
//!
//! A client takes several hundred KiB for certificates and connections, and a process can have many
//! files open.

use crate::error::Problem;
use crate::location::Location;
use crate::remote_options::RemoteOptions;
use crate::service::deepest;
use crate::tls;
use densite_disk::sync::Mutex;
use reqwest::redirect::{Action, Attempt, Policy};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most redirects that are followed.
const REDIRECTS: usize = 10;
/// So many clients are kept.
const CLIENTS: usize = 8;

/// Variables that name files of certificates.
const CERTIFICATES: [&str; 3] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "AWS_CA_BUNDLE"];
/// Variables that name proxies.
const PROXIES: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// What a client depends on.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    is_plain: bool,
    timeout: Duration,
    proxies: [Option<OsString>; PROXIES.len()],
    /// The files of certificates that the user names, as they are now.
    certificates: Vec<(PathBuf, Vec<Stamp>)>,
}

/// What tells one state of a file from another: device, inode, length, and time of its last change
/// in seconds and nanoseconds.
type Stamp = (u64, u64, u64, i64, i64);

/// The clients of a process, the newest last.
#[derive(Debug, Default)]
pub(crate) struct WebClients(Mutex<Vec<(Key, reqwest::Client)>>);

impl WebClients {
    /// The client for a file. Files share it that have the same options, and the same certificates.
    ///
    /// # Errors
    /// Those of certificates and settings.
    pub(crate) fn of(
        &self,
        location: &Location,
        options: &RemoteOptions,
    ) -> Result<reqwest::Client, Problem> {
        let is_plain = matches!(location, Location::Web(url) if url.scheme() == "http");
        let named = CERTIFICATES.iter().filter_map(std::env::var_os);
        let named = named.map(PathBuf::from).chain(options.ca_file.clone());
        let key = Key {
            is_plain,
            timeout: options.timeout,
            proxies: PROXIES.map(std::env::var_os),
            certificates: named.map(|path| (path.clone(), stamps(&path))).collect(),
        };
        let mut clients = self.0.lock();
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == key) {
            return Ok(client.clone());
        }
        let client = web_client(is_plain, options)?;
        if clients.len() == CLIENTS {
            clients.remove(0);
        }
        clients.push((key, client.clone()));
        Ok(client)
    }
}

/// The state of a file, or of each file in a directory; none if there is none.
fn stamps(path: &Path) -> Vec<Stamp> {
    let stamp = |path: &Path| {
        let meta = std::fs::metadata(path).ok()?;
        let changed = (meta.mtime(), meta.mtime_nsec());
        Some((meta.dev(), meta.ino(), meta.len(), changed.0, changed.1))
    };
    let mut stamps: Vec<Stamp> = stamp(path).into_iter().collect();
    if let Ok(entries) = std::fs::read_dir(path) {
        let files = entries.flatten().filter_map(|entry| stamp(&entry.path()));
        stamps.extend(files);
        stamps.sort_unstable();
    }
    stamps
}

/// A client that trusts the certificates of these options.
fn web_client(is_plain: bool, options: &RemoteOptions) -> Result<reqwest::Client, Problem> {
    let tls = tls::config(options.ca_file.as_deref(), !is_plain)?;
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(options.timeout)
        .redirect(Policy::custom(redirect))
        .build()
        .map_err(|e| Problem::Setting(deepest(&e)))
}

/// Follows redirects, but not from TLS to a connection that anybody can change.
fn redirect(attempt: Attempt<'_>) -> Action {
    let is_tls = |url: &url::Url| url.scheme() == "https";
    if attempt.previous().len() > REDIRECTS {
        return attempt.error("too many redirects");
    }
    match attempt.previous().iter().any(is_tls) && !is_tls(attempt.url()) {
        true => attempt.error("a redirect from https to http"),
        false => attempt.follow(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_of_certificates_has_another_stamp() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("ca.pem");
        assert_eq!(stamps(&file), []);
        std::fs::write(&file, "one").expect("written");
        let (of_file, of_dir) = (stamps(&file), stamps(dir.path()));
        assert_eq!((of_file.len(), of_dir.len()), (1, 2));
        assert_eq!(stamps(&file), of_file);
        std::fs::write(&file, "other").expect("written");
        assert_ne!(stamps(&file), of_file);
        assert_ne!(stamps(dir.path()), of_dir);
    }
}

//! HTTP clients, which files with the same options share.
//!
//! A client takes several hundred KiB for certificates and connections, and a process can have many
//! files open.

use crate::error::Problem;
use crate::location::Location;
use crate::options::Options;
use crate::service::deepest;
use crate::tls;
use densite_disk::sync::Mutex;
use reqwest::redirect::{Action, Attempt, Policy};
use std::ffi::OsString;
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
}

/// The clients of a process, the newest last.
#[derive(Debug, Default)]
pub(crate) struct WebClients(Mutex<Vec<(Key, reqwest::Client)>>);

impl WebClients {
    /// The client for a file. A file of certificates can have changed, so with one the client is of
    /// this file alone.
    ///
    /// # Errors
    /// Those of certificates and settings.
    pub(crate) fn of(
        &self,
        location: &Location,
        options: &Options,
    ) -> Result<reqwest::Client, Problem> {
        let is_plain = matches!(location, Location::Web(url) if url.scheme() == "http");
        let is_set = |name: &&str| std::env::var_os(name).is_some();
        if options.ca_file.is_some() || CERTIFICATES.iter().any(is_set) {
            return web_client(is_plain, options);
        }
        let key = Key {
            is_plain,
            timeout: options.timeout,
            proxies: PROXIES.map(std::env::var_os),
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

/// A client that trusts the certificates of these options.
fn web_client(is_plain: bool, options: &Options) -> Result<reqwest::Client, Problem> {
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

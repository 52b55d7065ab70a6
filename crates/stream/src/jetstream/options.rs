//! What a caller says about the server and the stream.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Where a stream is, and how it is made if it is missing.
#[derive(Clone)]
pub struct Options {
    /// The servers of one cluster, such as `nats://host:4222`. An address can have a user and a
    /// password, or a token. With the scheme `tls`, or if the
    /// server demands it, the connection uses TLS.
    pub servers: Vec<String>,
    /// The name of the stream on the server.
    pub stream: String,
    /// A file of credentials, as NATS's own tools write it.
    pub credentials: Option<PathBuf>,
    /// User and password.
    pub user: Option<(String, String)>,
    /// A file in PEM with certificates that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Files in PEM with the client's certificate and its key.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// The monitoring ports of all servers, such as `http://host:8222`. Clients cannot see the sync
    /// interval otherwise.
    pub monitors: Vec<String>,
    /// How many replicas a new stream has: 1, 3 or 5.
    pub replicas: usize,
    /// Whether [`Stream::trim`](crate::Stream::trim) can remove messages from a new stream. The
    /// server never allows it for a stream that was made without it.
    pub can_be_trimmed: bool,
    /// Whether the stream is made if it is missing. Otherwise that is an error.
    pub create: bool,
    /// How long one call waits for the server.
    pub timeout: Duration,
}

impl Options {
    /// A stream of one server, with one replica.
    #[must_use]
    pub fn new(server: impl Into<String>, stream: impl Into<String>) -> Options {
        Options {
            servers: vec![server.into()],
            stream: stream.into(),
            credentials: None,
            user: None,
            ca_file: None,
            client_certificate: None,
            monitors: Vec::new(),
            replicas: 1,
            can_be_trimmed: false,
            create: true,
            timeout: Duration::from_secs(10),
        }
    }

    /// The addresses of the servers for messages: without users and passwords.
    pub(super) fn shown_servers(&self) -> String {
        let shown = |server: &String| match server.rsplit_once('@') {
            Some((before, host)) => {
                let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
                format!("{scheme}://{host}")
            }
            None => server.clone(),
        };
        self.servers
            .iter()
            .map(shown)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("servers", &self.shown_servers())
            .field("stream", &self.stream)
            .field("credentials", &self.credentials)
            .field("user", &self.user.as_ref().map(|(user, _)| user))
            .field("ca_file", &self.ca_file)
            .field("client_certificate", &self.client_certificate)
            .field("monitors", &self.monitors)
            .field("replicas", &self.replicas)
            .field("can_be_trimmed", &self.can_be_trimmed)
            .field("create", &self.create)
            .field("timeout", &self.timeout)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let options = Options {
            user: Some(("u".into(), "secret".into())),
            ..Options::new("nats://u:sec@ret@host:4222", "S")
        };
        assert_eq!(options.shown_servers(), "nats://host:4222");
        let shown = format!("{options:?}");
        assert!(
            shown.contains("host:4222") && !shown.contains("ret"),
            "{shown}"
        );
    }
}

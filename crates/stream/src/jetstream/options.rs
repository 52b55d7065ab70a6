//! What a caller says about the server and the stream.

use std::path::PathBuf;
use std::time::Duration;

/// Where a stream is, and how it is made if it is missing.
#[derive(Debug, Clone)]
pub struct Options {
    /// The servers of one cluster, such as `nats://host:4222`. With the scheme `tls`, or if the
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
            timeout: Duration::from_secs(10),
        }
    }
}

//! What a caller says about the server and the stream.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Where a stream is, and how it is made if it is missing.
#[derive(Clone)]
pub struct JetStreamOptions {
    /// The servers of one cluster, such as `nats://host:4222`. The first address can have a user and
    /// a password, or a token, in front of `@`. With the scheme `tls`, or if the server demands it,
    /// the connection uses TLS.
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

impl JetStreamOptions {
    /// A stream of one server, with one replica.
    #[must_use]
    pub fn new(server: impl Into<String>, stream: impl Into<String>) -> JetStreamOptions {
        JetStreamOptions {
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

    /// The addresses of the servers, without users, passwords and tokens.
    pub(super) fn addresses(&self) -> Vec<String> {
        let parts = self.servers.iter().map(|server| parts(server));
        parts
            .map(|(scheme, _, host)| format!("{scheme}{host}"))
            .collect()
    }

    /// The same, for messages.
    pub(super) fn shown_servers(&self) -> String {
        self.addresses().join(", ")
    }

    /// How the client says who it is, if that is no file: as the option says, or the first address
    /// that has something in front of `@`. The client's library does not read it from there.
    pub(super) fn login(&self) -> Option<Login> {
        if let Some((user, password)) = &self.user {
            return Some(Login::User(user.clone(), password.clone()));
        }
        let login = self.servers.iter().find_map(|server| parts(server).1)?;
        Some(match login.split_once(':') {
            Some((user, password)) => Login::User(decoded(user), decoded(password)),
            None => Login::Token(decoded(login)),
        })
    }
}

/// See [`JetStreamOptions::login`].
#[derive(PartialEq, Eq)]
pub(super) enum Login {
    /// User and password.
    User(String, String),
    Token(String),
}

/// The scheme with its separator, what is in front of `@`, and the host of an address.
fn parts(server: &str) -> (&str, Option<&str>, &str) {
    let at = server.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = server.split_at(at);
    match rest.rsplit_once('@') {
        Some((login, host)) => (scheme, Some(login), host),
        None => (scheme, None, rest),
    }
}

/// A part of an address whose characters can be written as `%40`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = match code {
            Some(_) => behind.get(2..).unwrap_or_default(),
            None => behind,
        };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

impl fmt::Debug for JetStreamOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JetStreamOptions")
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
    fn an_address_says_who_the_client_is() {
        let login = |server: &str| JetStreamOptions::new(server, "S").login();
        let user = |name: &str, password: &str| Some(Login::User(name.into(), password.into()));
        assert!(login("nats://host:4222").is_none());
        assert!(login("nats://u:p@host:4222") == user("u", "p"));
        assert!(login("tls://u:sec@ret@host") == user("u", "sec@ret"));
        assert!(login("tls://u%40v:100%25%@host") == user("u@v", "100%%"));
        assert!(login("nats://token@host") == Some(Login::Token("token".into())));
        let options = JetStreamOptions::new("tls://u:sec@ret@host:1", "S");
        assert_eq!(options.addresses(), ["tls://host:1"]);
        let options = JetStreamOptions {
            user: Some(("given".into(), "p".into())),
            ..options
        };
        assert!(options.login() == user("given", "p"));
    }

    #[test]
    fn passwords_are_not_shown() {
        let options = JetStreamOptions {
            user: Some(("u".into(), "secret".into())),
            ..JetStreamOptions::new("nats://u:sec@ret@host:4222", "S")
        };
        assert_eq!(options.shown_servers(), "nats://host:4222");
        let shown = format!("{options:?}");
        assert!(
            shown.contains("host:4222") && !shown.contains("ret"),
            "{shown}"
        );
    }
}

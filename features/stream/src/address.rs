//! Streams by their address.

use crate::{Error, Name, Result, Stream};
use std::path::PathBuf;
use std::sync::Arc;

/// What a member says about its server, beside the address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// A file of credentials, as NATS's own tools write it.
    pub credentials: Option<PathBuf>,
    /// A file in PEM with certificates that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Files in PEM with the client's certificate and its key.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// The monitoring ports of all servers, such as `http://host:8222`.
    pub monitors: Vec<String>,
    /// How many replicas a new stream has; `None`: one.
    pub replicas: Option<usize>,
}

/// The address of a stream: `nats://host:4222/STREAM` or `tls://…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// On servers of NATS: several hosts of one cluster have commas between them.
    Nats {
        /// Such as `nats://host:4222`.
        servers: Vec<String>,
        /// The name of the stream, and of the database in it.
        stream: Name,
    },
    /// Of a kind that only tests have: the scheme, and what follows it.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    Added(String, String),
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`Error::Refused`] says how an address looks.
    pub fn parse(text: &str) -> Result<Address> {
        let refused = |why: &str| {
            Error::Refused(format!(
                "{}: {why}; the address of a stream is nats://host:4222/STREAM or tls://host:4222/STREAM",
                without_password(text)
            ))
        };
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(refused("it has no scheme"));
        };
        match scheme {
            "file" => Err(refused(
                "a directory cannot keep a stream: start a NATS server with JetStream, also for one machine",
            )),
            "nats" | "tls" => {
                let Some((hosts, stream)) = rest.split_once('/') else {
                    return Err(refused("the name of the stream is missing"));
                };
                if hosts.is_empty() || hosts.split(',').any(str::is_empty) {
                    return Err(refused("the host is missing"));
                }
                let stream = stream.parse().map_err(|_| {
                    refused("the name of a stream has 1 to 64 letters, digits, '-' or '_'")
                })?;
                let servers = hosts.split(',').map(|host| format!("{scheme}://{host}"));
                Ok(Address::Nats {
                    servers: servers.collect(),
                    stream,
                })
            }
            #[cfg(feature = "testing")]
            scheme if crate::testing::added(scheme).is_some() => {
                Ok(Address::Added(scheme.to_owned(), rest.to_owned()))
            }
            _ => Err(refused("its scheme is unknown")),
        }
    }

    /// Opens the stream, and makes it if it is missing. Blocks while it connects.
    ///
    /// # Errors
    /// As `JetStream::open`.
    pub fn open(&self, access: &Access) -> Result<Arc<dyn Stream>> {
        self.opened(access, true)
    }

    /// Opens the stream, which exists. Blocks while it connects.
    ///
    /// # Errors
    /// As [`Address::open`]; [`Error::Refused`] if there is none.
    pub fn find(&self, access: &Access) -> Result<Arc<dyn Stream>> {
        self.opened(access, false)
    }

    fn opened(&self, access: &Access, create: bool) -> Result<Arc<dyn Stream>> {
        match self {
            Address::Nats { servers, stream } => nats(servers, stream, access, create),
            #[cfg(feature = "testing")]
            Address::Added(scheme, rest) => match crate::testing::added(scheme) {
                Some(opens) => opens(rest, create),
                None => Err(Error::Refused(format!("no test opens {scheme}://{rest}"))),
            },
        }
    }
}

/// An address for messages: without user and password.
#[must_use]
pub fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    if scheme == "file" {
        return address.to_owned();
    }
    let (hosts, path) = rest.split_at(rest.rfind('/').unwrap_or(rest.len()));
    let host = |host: &str| {
        host.rsplit_once('@')
            .map_or(host, |(_, host)| host)
            .to_owned()
    };
    let hosts: Vec<String> = hosts.split(',').map(host).collect();
    format!("{scheme}://{}{path}", hosts.join(","))
}

#[cfg(feature = "nats")]
fn nats(
    servers: &[String],
    stream: &Name,
    access: &Access,
    create: bool,
) -> Result<Arc<dyn Stream>> {
    let mut options = crate::JetStreamOptions::new("", stream.as_str());
    options.servers = servers.to_vec();
    options.credentials.clone_from(&access.credentials);
    options.ca_file.clone_from(&access.ca_file);
    options
        .client_certificate
        .clone_from(&access.client_certificate);
    options.monitors.clone_from(&access.monitors);
    options.replicas = access.replicas.unwrap_or(1);
    // A server never takes back that nothing can be removed.
    options.can_be_trimmed = true;
    options.create = create;
    Ok(Arc::new(crate::JetStream::open(options, stream)?))
}

#[cfg(not(feature = "nats"))]
fn nats(_: &[String], _: &Name, _: &Access, _: bool) -> Result<Arc<dyn Stream>> {
    Err(Error::Refused(
        "this build of Densite has no client for NATS; use one with the feature nats".into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_servers_and_a_stream() {
        let nats = |servers: &[&str], stream: &str| Address::Nats {
            servers: servers.iter().map(|s| (*s).to_owned()).collect(),
            stream: stream.parse().expect("a name"),
        };
        for (text, expected) in [
            (
                "nats://host:4222/ORDERS",
                nats(&["nats://host:4222"], "ORDERS"),
            ),
            (
                "tls://u:p@a,b:4223/s_1",
                nats(&["tls://u:p@a", "tls://b:4223"], "s_1"),
            ),
        ] {
            assert_eq!(Address::parse(text), Ok(expected), "{text}");
        }
        for (text, word) in [
            ("host:4222/ORDERS", "no scheme"),
            ("nats://host:4222", "stream is missing"),
            ("nats:///ORDERS", "host is missing"),
            ("nats://a,,b/ORDERS", "host is missing"),
            ("nats://host/a.b", "letters"),
            ("nats://u:secret@host/a.b", "nats://host/a.b"),
            ("file:///srv/stream", "start a NATS server"),
            ("file://srv/stream", "nats://host:4222/STREAM"),
            ("directory:///srv/stream", "unknown"),
            ("kafka://host/ORDERS", "unknown"),
        ] {
            match Address::parse(text) {
                Err(Error::Refused(said)) => {
                    assert!(
                        said.contains(word) && !said.contains("secret"),
                        "{text}: {said}"
                    );
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn messages_show_no_password() {
        let shown = without_password("nats://u:p@s@a:1,v:q@b/S");
        assert_eq!(shown, "nats://a:1,b/S");
        assert_eq!(without_password("file:///a@b/c"), "file:///a@b/c");
    }
}

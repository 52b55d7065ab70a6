//! The connection to the servers, and the requests about one stream.

use super::options::{JetStreamOptions, Login};
use super::problem::{chain, is_missing, judged};
use super::{settings, tls};
use crate::{Error, Extent, Identity, Message, Name, Result, Seen};
use async_nats::connection::State;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{Info, LastRawMessageErrorKind, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, Event};
use densite_disk::sync::Mutex;
use std::sync::Arc;
use tokio::sync::watch;

/// The oldest server that is supported: the oldest one that is tested.
const OLDEST: (i64, i64, i64) = (2, 12, 0);

/// Bytes of a message that the client's headers need, with room for names.
const HEADERS: usize = 1024;

/// The origin of a message whose subject names no valid origin. It comes without its contents.
const NO_NAME: &str = "-";

/// A connected client, and the stream that it was opened for.
pub(super) struct Connection {
    pub(super) context: Context,
    pub(super) stream: Stream<()>,
    /// The servers, for messages.
    servers: String,
    /// The stream's name.
    pub(super) name: String,
    pub(super) database: Name,
    pub(super) identity: Identity,
    /// How often the client connected. Consumers do not survive a restart of the server.
    pub(super) connected: watch::Receiver<u64>,
    /// What reading has shown.
    pub(super) seen: Mutex<Seen>,
}

impl Connection {
    /// Connects, and makes the stream if it is missing.
    pub(super) async fn open(options: &JetStreamOptions, database: Name) -> Result<Connection> {
        let (count, connected) = watch::channel(0);
        let context = connect(options, count).await?;
        let failed = |e: &(dyn std::error::Error + 'static)| match context
            .client()
            .server_info()
            .jetstream
        {
            true if is_missing(e) => Error::Refused(format!(
                "there is no stream {} on {}",
                options.stream,
                options.shown_servers()
            )),
            true => judged(
                &format!("the stream {} cannot be opened", options.stream),
                e,
            ),
            false => Error::Refused(without_jetstream(&options.shown_servers())),
        };
        let info = match options.create {
            true => {
                let wanted = settings::new(options, &database);
                let created = context.get_or_create_stream(wanted).await;
                created.map_err(|e| failed(&e))?.cached_info().clone()
            }
            false => {
                let found = context.get_stream(&options.stream).await;
                let found = found.map_err(|e| match e.kind() {
                    GetStreamErrorKind::JetStream(said) => failed(&said),
                    _ => failed(&e),
                });
                found?.cached_info().clone()
            }
        };
        settings::check(&info.config, &database)?;
        let identity = identity(&info);
        let name = options.stream.clone();
        let stream = context.get_stream_no_info(&name).await;
        let stream = stream.map_err(|e| judged("the name of the stream", &e))?;
        Ok(Connection {
            servers: options.shown_servers(),
            context,
            stream,
            name,
            database,
            identity,
            connected,
            seen: Mutex::default(),
        })
    }

    /// What the server knows of the stream.
    ///
    /// # Errors
    /// [`Error::IdentityChanged`] if it is not the one that was opened.
    pub(super) async fn info(&self) -> Result<Info> {
        let info = self
            .stream
            .get_info()
            .await
            .map_err(|e| self.failed("the stream", &e))?;
        let found = identity(&info);
        if found != self.identity {
            return Err(self.changed(Some(found)));
        }
        Ok(info)
    }

    /// The error for a request about the stream.
    pub(super) fn failed(&self, asked: &str, e: &(dyn std::error::Error + 'static)) -> Error {
        if is_missing(e) {
            return self.changed(None);
        }
        let client = self.context.client();
        let is_connected = client.connection_state() == State::Connected;
        match judged(asked, e) {
            // Another server of the cluster can have it, or this one soon.
            Error::TryAgain(_) if is_connected && !client.server_info().jetstream => {
                Error::TryAgain(without_jetstream(&self.servers))
            }
            Error::TryAgain(why) if !is_connected => Error::TryAgain(format!(
                "the NATS server {} cannot be reached: {why}",
                self.servers
            )),
            judged => judged,
        }
    }

    fn changed(&self, found: Option<Identity>) -> Error {
        Error::IdentityChanged {
            expected: self.identity,
            found,
        }
    }

    /// The largest message that the server and the stream take, bytes.
    pub(super) async fn max_payload(&self) -> Result<usize> {
        let limit = self.info().await?.config.max_message_size;
        let server = self.context.client().server_info().max_payload;
        let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
        Ok(limit
            .map_or(server, |limit| limit.min(server))
            .saturating_sub(HEADERS))
    }

    /// The last message of an origin, as the leader of the stream has it.
    pub(super) async fn last_of(&self, origin: &Name) -> Result<Option<Message>> {
        let subject = settings::subject(&self.database, origin.as_str());
        let found = self.stream.get_last_raw_message_by_subject(&subject).await;
        self.found(found)
    }

    /// One message, as the leader of the stream has it.
    pub(super) async fn message(&self, sequence: u64) -> Result<Option<Message>> {
        self.found(self.stream.get_raw_message(sequence).await)
    }

    fn found(
        &self,
        found: std::result::Result<
            jetstream::message::StreamMessage,
            jetstream::stream::LastRawMessageError,
        >,
    ) -> Result<Option<Message>> {
        match found {
            Ok(found) => {
                let (time, bytes) = (found.time.unix_timestamp_nanos(), found.payload);
                let message = self.parsed(&found.subject, found.sequence, time, bytes.into());
                message.map(Some)
            }
            Err(e) => match e.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(None),
                LastRawMessageErrorKind::JetStream(said) => {
                    Err(self.failed("a message of the stream", &said))
                }
                _ => Err(self.failed("a message of the stream", &e)),
            },
        }
    }

    /// A message from what the server sent.
    pub(super) fn parsed(
        &self,
        subject: &str,
        sequence: u64,
        time_ns: i128,
        bytes: Vec<u8>,
    ) -> Result<Message> {
        let origin = subject.rsplit('.').next().unwrap_or_default();
        let (origin, bytes) = match origin.parse() {
            Ok(origin) => (origin, bytes),
            // Another program published it: no member has such a name.
            Err(_) => (NO_NAME.parse()?, Vec::new()),
        };
        Ok(Message {
            sequence,
            origin,
            time_ns: u64::try_from(time_ns).unwrap_or(0),
            bytes,
        })
    }
}

fn without_jetstream(servers: &str) -> String {
    format!("the NATS server {servers} has no JetStream: start it with -js")
}

/// Connects to one of the servers.
async fn connect(options: &JetStreamOptions, count: watch::Sender<u64>) -> Result<Context> {
    let wanted = options.shown_servers();
    let count = Arc::new(count);
    let mut connect = ConnectOptions::new()
        .name("densite")
        .connection_timeout(options.timeout)
        .request_timeout(Some(options.timeout))
        .tls_client_config(tls::config(options)?)
        .event_callback(move |event| {
            if matches!(event, Event::Connected) {
                count.send_modify(|count| *count += 1);
            }
            async {}
        });
    if let Some(path) = &options.credentials {
        connect = connect
            .credentials_file(path)
            .await
            .map_err(|e| Error::Refused(format!("the credentials in {}: {e}", path.display())))?;
    }
    connect = match options.login() {
        Some(Login::User(user, password)) => connect.user_and_password(user, password),
        Some(Login::Token(token)) => connect.token(token),
        None => connect,
    };
    let client = connect.connect(options.addresses()).await.map_err(|e| {
        use async_nats::ConnectErrorKind as Kind;
        let text = format!("no connection to {wanted}: {}", chain(&e));
        match e.kind() {
            Kind::ServerParse | Kind::Authentication | Kind::AuthorizationViolation => {
                Error::Refused(text)
            }
            _ => Error::TryAgain(text),
        }
    })?;
    let (major, minor, patch) = OLDEST;
    if !client.is_server_compatible(major, minor, patch) {
        return Err(Error::Refused(format!(
            "the NATS server {wanted} has version {}: install {major}.{minor} or newer",
            client.server_info().version
        )));
    }
    let mut context = jetstream::new(client);
    context.set_timeout(options.timeout);
    Ok(context)
}

/// The identity of a stream: a hash of its name and of the time when it was made.
fn identity(info: &Info) -> Identity {
    let made = info.created.unix_timestamp_nanos();
    let text = format!("{}\n{made}", info.config.name);
    Identity(densite_disk::hash::xxh3_128(text.as_bytes()).to_le_bytes())
}

/// Which messages the server has.
pub(super) fn extent(info: &Info) -> Extent {
    let last = info.state.last_sequence;
    let first = match info.state.messages {
        0 => last + 1,
        _ => info.state.first_sequence,
    };
    Extent { first, last }
}

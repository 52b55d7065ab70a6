//! The arguments of `densite join`, `densite leave` and `densite trim`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    /// The database: the first one of the stream, a copy of a member, or an empty file
    pub(crate) db: PathBuf,
    /// nats://HOST:4222/STREAM or tls://HOST:4222/STREAM
    pub(crate) address: String,
    /// The name of this member in the stream [default: that of the machine, and random letters]
    #[arg(long, value_name = "NAME")]
    pub(crate) origin: Option<String>,
    /// The file of credentials for the server
    #[arg(long, value_name = "FILE")]
    pub(crate) credentials: Option<PathBuf>,
    /// Certificates in PEM that are trusted beside the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The certificate of this client, in PEM
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(crate) client_certificate: Option<PathBuf>,
    /// The key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    pub(crate) client_key: Option<PathBuf>,
    /// The monitoring port of a server, such as http://HOST:8222, where its sync interval is read;
    /// once for each server of a cluster
    #[arg(long, value_name = "URL")]
    pub(crate) monitor: Vec<String>,
    /// How many servers keep each message of a new stream, 1 to 5 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) replicas: Option<u8>,
    /// The server loses nothing that it has acknowledged, although its sync interval is not known
    /// or not always
    #[arg(long)]
    pub(crate) trust_server: bool,
    /// This database is the member itself, moved to another place: the original is gone
    #[arg(long, conflicts_with = "discard")]
    pub(crate) moved: bool,
    /// Give up the rows in the log of this copy: the original sends them
    #[arg(long)]
    pub(crate) discard: bool,
    /// The stream lost messages that this member has applied: read what it has from its beginning
    #[arg(long)]
    pub(crate) after_loss: bool,
    /// The members differ, and this one is right: it goes on
    #[arg(long)]
    pub(crate) right: bool,
    /// Stay, apply and send rows until Ctrl-C, and print a line when trouble begins or ends
    #[arg(long)]
    pub(crate) stay: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LeaveArgs {
    /// The database, a member of a stream
    pub(crate) db: PathBuf,
    /// Leave also if the stream lacks rows or cannot be told: the others never get these rows
    #[arg(long)]
    pub(crate) force: bool,
    /// Another member, whose database is gone, has left; DB stays a member
    #[arg(long, value_name = "NAME", conflicts_with = "force")]
    pub(crate) member: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TrimArgs {
    /// The database, a member of the stream
    pub(crate) db: PathBuf,
    /// Keep this many messages, from which older copies of members can join
    #[arg(long, value_name = "MESSAGES", default_value_t = 0)]
    pub(crate) keep: u32,
}

//! Where the stream of a test is, and what happens to it there.

use densite_testing::{CutProxy, Nats};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name of the stream on a server.
const STREAM: &str = "APP";

/// See the module.
pub(crate) struct Place {
    kind: Kind,
    /// Where [`Place::copy`] puts a copy.
    copied: PathBuf,
}

enum Kind {
    Directory(PathBuf),
    /// A server, and the proxy in front of it.
    Nats(Mutex<Nats>, CutProxy),
}

impl Place {
    pub(crate) fn directory(own: &Path) -> Place {
        densite_directory_stream::register();
        Place {
            kind: Kind::Directory(own.join("stream")),
            copied: own.join("copied"),
        }
    }

    /// `None`: the server is not installed.
    pub(crate) fn nats(own: &Path, settings: &str) -> Option<Place> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nats-server");
        let server = own.join("server");
        std::fs::create_dir(&server).expect("a folder");
        let nats = Nats::start(&dir, &server, settings)?;
        let proxy = CutProxy::start(nats.port());
        Some(Place {
            kind: Kind::Nats(Mutex::new(nats), proxy),
            copied: own.join("copied"),
        })
    }

    pub(crate) fn address(&self) -> String {
        match &self.kind {
            Kind::Directory(path) => format!("directory://{}", path.display()),
            Kind::Nats(_, proxy) => format!("nats://127.0.0.1:{}/{STREAM}", proxy.port()),
        }
    }

    /// The stream itself, as a client without a database has it.
    pub(crate) fn stream(&self) -> std::sync::Arc<dyn densite_stream::Stream> {
        let address = densite_stream::Address::parse(&self.address()).expect("an address");
        address.open(&Default::default()).expect("a stream")
    }

    /// Keeps a copy of everything stored.
    pub(crate) fn copy(&self) {
        match &self.kind {
            Kind::Directory(path) => copy(path, &self.copied),
            Kind::Nats(..) => self.while_stopped(|stored| copy(stored, &self.copied)),
        }
    }

    /// Puts the copy in the place of what is stored.
    pub(crate) fn put_back(&self) {
        match &self.kind {
            // As a restore of the whole directory does.
            Kind::Directory(path) => {
                std::fs::remove_dir_all(path).expect("removed");
                std::fs::rename(&self.copied, path).expect("put back");
            }
            Kind::Nats(..) => self.while_stopped(|stored| {
                std::fs::remove_dir_all(stored).expect("removed");
                copy(&self.copied, stored);
            }),
        }
    }

    /// Removes everything that is stored.
    pub(crate) fn remove(&self) {
        self.while_stopped(|stored| std::fs::remove_dir_all(stored).expect("removed"));
    }

    /// Kills the server and starts it again.
    pub(crate) fn restart(&self) {
        self.while_stopped(|_| ());
    }

    /// Changes the configuration of the server, which is started again with it.
    pub(crate) fn configure(&self, change: impl FnOnce(String) -> String) {
        self.while_stopped(|stored| {
            let file = stored.with_file_name("nats.conf");
            let text = std::fs::read_to_string(&file).expect("the configuration");
            std::fs::write(&file, change(text)).expect("the configuration");
        });
    }

    /// How many messages clients have sent to the server.
    pub(crate) fn messages_in(&self) -> u64 {
        let Kind::Nats(nats, _) = &self.kind else {
            return 0;
        };
        let monitor = nats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .monitor();
        let host = monitor.trim_start_matches("http://");
        let mut client = std::net::TcpStream::connect(host).expect("connects");
        let request = format!("GET /varz HTTP/1.0\r\nHost: {host}\r\n\r\n");
        client.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("read");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        let varz: serde_json::Value = serde_json::from_str(body).expect("JSON");
        varz["in_msgs"].as_u64().expect("a number")
    }

    /// Whether there is a server that can be killed and cut off.
    pub(crate) fn has_server(&self) -> bool {
        matches!(self.kind, Kind::Nats(..))
    }

    /// Cuts the connections to the server, if there is one.
    pub(crate) fn cut(&self) {
        if let Kind::Nats(_, proxy) = &self.kind {
            proxy.cut();
        }
    }

    /// Whether the server cannot be reached.
    pub(crate) fn set_away(&self, is_away: bool) {
        if let Kind::Nats(_, proxy) = &self.kind {
            proxy.set_away(is_away);
        }
    }

    fn while_stopped(&self, change: impl FnOnce(&Path)) {
        match &self.kind {
            Kind::Directory(path) => change(path),
            Kind::Nats(nats, _) => {
                let mut nats: MutexGuard<'_, Nats> =
                    nats.lock().unwrap_or_else(PoisonError::into_inner);
                nats.kill();
                change(&nats.store());
                nats.restart();
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(done.expect("cp").success());
}

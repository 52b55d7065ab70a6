//! A real server of NATS with JetStream on free loopback ports, which tests kill and start again.

use crate::server::{free_port, listens};
use crate::skip::{report, skip};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How often other ports are tried.
const TRIES: u32 = 5;

/// A running server, which ends with this value.
#[derive(Debug)]
pub struct Nats {
    program: PathBuf,
    own: PathBuf,
    environment: Vec<(String, String)>,
    child: Child,
    port: u16,
    monitor: u16,
}

impl Nats {
    /// Starts the server that `lab/testing/nats/setup.sh` has installed in `dir`. It syncs every
    /// message before it acknowledges it. Its files go to `own`, an empty directory; lines of
    /// `settings` are added to its configuration. `None` if it is not there: then the test is
    /// skipped.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    pub fn start(dir: &Path, own: &Path, settings: &str) -> Option<Nats> {
        let store = own.join("store");
        Nats::configured(dir, own, &[], |port, monitor| {
            format!(
                "listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{monitor}\n{settings}\n\
                 jetstream {{ store_dir: {store:?}, sync_interval: always }}\n"
            )
        })
    }

    /// As [`Nats::start`], with the whole configuration for a port and a monitoring port, and with
    /// these variables of the environment.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    pub fn configured(
        dir: &Path,
        own: &Path,
        environment: &[(&str, &str)],
        configuration: impl Fn(u16, u16) -> String,
    ) -> Option<Nats> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment: Vec<(String, String)> = environment.iter().map(owned).collect();
        let program = dir.join("bin/nats-server");
        if !program.is_file() {
            match std::fs::read_to_string(dir.join("missing")) {
                // A machine without Go cannot have it.
                Ok(why) => report(why.trim()),
                Err(_) => skip(&format!(
                    "there is no nats-server; lab/testing/nats/setup.sh {} installs it",
                    dir.display()
                )),
            }
            return None;
        }
        for _ in 0..TRIES {
            let (port, monitor) = (free_port(), free_port());
            let text = configuration(port, monitor);
            std::fs::write(own.join("nats.conf"), text).expect("the configuration");
            let mut child = spawn(&program, own, &environment);
            if listens(&mut child, port) && listens(&mut child, monitor) {
                return Some(Nats {
                    program,
                    own: own.to_owned(),
                    environment,
                    child,
                    port,
                    monitor,
                });
            }
            end(&mut child);
            // Another process can have taken a port.
        }
        let log = std::fs::read_to_string(own.join("nats.log")).unwrap_or_default();
        panic!("nats-server does not listen: {log}");
    }

    /// Its address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its port for clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address for monitoring.
    #[must_use]
    pub fn monitor(&self) -> String {
        format!("http://127.0.0.1:{}", self.monitor)
    }

    /// The directory of its messages.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.own.join("store")
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) {
        end(&mut self.child);
    }

    /// Starts it again after [`Nats::kill`], at the same ports and with the same files.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.child = spawn(&self.program, &self.own, &self.environment);
        let is_up = listens(&mut self.child, self.port);
        assert!(is_up, "nats-server does not listen again");
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn spawn(program: &Path, own: &Path, environment: &[(String, String)]) -> Child {
    let log = std::fs::File::create(own.join("nats.log")).expect("a log");
    Command::new(program)
        .arg("-c")
        .arg(own.join("nats.conf"))
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", program.display()))
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

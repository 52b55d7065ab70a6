//! Starting servers on free loopback ports.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to start.
const START_TIME: Duration = Duration::from_secs(20);

/// How often another port is tried.
const TRIES: u32 = 5;

/// A running server at a loopback port, which ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    /// Starts the program that `command` gives for a port.
    ///
    /// # Panics
    /// If it does not start.
    pub(crate) fn start(mut command: impl FnMut(u16) -> Command) -> Server {
        for _ in 0..TRIES {
            let port = free_port();
            let mut command = command(port);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let child = command.spawn();
            let mut child = child.unwrap_or_else(|e| panic!("{command:?}: {e}"));
            let listens = listens(&mut child, port);
            let server = Server { child, port };
            if listens {
                return server;
            }
            // Another process may have taken the port.
        }
        panic!("no server listens: {:?}", command(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Waits until the process listens; false if it ends.
pub(crate) fn listens(child: &mut Child, port: u16) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < START_TIME {
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

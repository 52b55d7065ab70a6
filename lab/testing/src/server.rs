//! Starting servers on free loopback ports.

use std::net::{Ipv4Addr, TcpListener};
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
///
/// An answer at the port would not do: another test's server can have taken it since, and this one
/// is about to notice.
pub(crate) fn listens(child: &mut Child, port: u16) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < START_TIME {
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        if has_listener(child.id(), port) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Whether the process has the socket that listens at the port (`proc_net_tcp`, `proc_pid_fd`).
fn has_listener(process: u32, port: u16) -> bool {
    const LISTENS: &str = "0A";
    let tables = ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/net/{name}")));
    let at = format!(":{port:04X}");
    let sockets: Vec<String> = tables
        .iter()
        .flatten()
        .flat_map(|table| table.lines())
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let is_it = fields.get(1)?.ends_with(&at) && *fields.get(3)? == LISTENS;
            is_it.then_some(format!("socket:[{}]", fields.get(9)?))
        })
        .collect();
    let files = std::fs::read_dir(format!("/proc/{process}/fd"));
    let files = files.into_iter().flatten().flatten();
    let mut links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    links.any(|link| sockets.iter().any(|socket| link.as_os_str() == &**socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_not_mistaken_for_another_at_its_port() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = other.local_addr().expect("an address").port();
        assert!(has_listener(std::process::id(), port));
        let mut child = Command::new("sleep").arg("0.2").spawn().expect("runs");
        assert!(!listens(&mut child, port));
    }
}

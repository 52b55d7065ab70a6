//! Starting servers on free loopback ports.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

/// How long a server may take to start.
const START_TIME: Duration = Duration::from_secs(20);

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

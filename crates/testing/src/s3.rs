//! A real object store for tests: moto's server on a free loopback port.

use crate::server::{free_port, listens};
use crate::skip;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// How often another port is tried.
const TRIES: u32 = 5;

/// A running object store with a bucket `bucket`, which ends with this value. It takes any
/// credentials.
#[derive(Debug)]
pub struct S3 {
    child: Child,
    port: u16,
}

impl S3 {
    /// Starts the server that `crates/testing/s3/setup.sh` has installed in `dir`. `None` if it is
    /// not there: then the test is skipped.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    pub fn start(dir: &Path) -> Option<S3> {
        let program = dir.join("env/bin/moto_server");
        if !program.is_file() {
            let dir = dir.display();
            skip(&format!(
                "there is no moto; crates/testing/s3/setup.sh {dir} installs it"
            ));
            return None;
        }
        for _ in 0..TRIES {
            let port = free_port();
            let mut child = Command::new(&program)
                .args(["-H", "127.0.0.1", "-p", &port.to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("moto starts");
            if listens(&mut child, port) {
                let store = S3 { child, port };
                store.request("PUT", "/bucket");
                return Some(store);
            }
            // Another process may have taken the port.
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("moto does not listen");
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The answer to a request without a body and without a signature: head and body.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn request(&self, method: &str, path: &str) -> String {
        let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("connected");
        let port = self.port;
        write!(
            server,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .expect("sent");
        let mut answer = Vec::new();
        server.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

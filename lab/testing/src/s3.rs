//! A real object store for tests: moto's server on a free loopback port.

use crate::server::Server;
use crate::skip;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

/// A running object store with a bucket `bucket`, which ends with this value. It takes any
/// credentials.
#[derive(Debug)]
pub struct S3(Server);

impl S3 {
    /// Starts the server that `lab/testing/s3/setup.sh` has installed in `dir`. `None` if it is
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
                "there is no moto; lab/testing/s3/setup.sh {dir} installs it"
            ));
            return None;
        }
        let server = Server::start(|port| {
            let mut command = Command::new(&program);
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
            command
        });
        let store = S3(server);
        let _ = store.request("PUT", "/bucket");
        Some(store)
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// The answer to a request without a body and without a signature: head and body.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    pub fn request(&self, method: &str, path: &str) -> String {
        self.send(method, path, "")
    }

    /// Removes an object of the bucket.
    ///
    /// # Panics
    /// If it cannot be removed.
    pub fn remove(&self, key: &str) {
        // The server asks for a signature, and does not judge it.
        let signed = "Authorization: AWS4-HMAC-SHA256 Credential=id/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n";
        let answer = self.send("DELETE", &format!("/bucket/{key}"), signed);
        assert!(answer.starts_with("HTTP/1.1 204"), "{key}: {answer}");
    }

    fn send(&self, method: &str, path: &str, headers: &str) -> String {
        let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.0.port)).expect("connected");
        let port = self.0.port;
        write!(
            server,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n{headers}Connection: close\r\n\r\n"
        )
        .expect("sent");
        let mut answer = Vec::new();
        server.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

//! A second object store, which judges signatures: versitygw on a free loopback port.

use crate::server::{free_port, listens};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// How often another port is tried.
const TRIES: u32 = 5;
const ID: &str = "demo";
const SECRET: &str = "5ec7e7-of-the-demo";

/// A running object store with a bucket `bucket`, which ends with this value.
#[derive(Debug)]
pub struct Versitygw {
    child: Child,
    port: u16,
}

impl Versitygw {
    /// Its region.
    pub const REGION: &str = "us-east-1";

    /// Starts the server that `crates/testing/versitygw/setup.sh` has installed in `dir`. Its
    /// objects go to `own`, an empty directory. `None` if it is not installed.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    pub fn start(dir: &Path, own: &Path) -> Option<Versitygw> {
        let program = dir.join("bin/versitygw");
        if !program.is_file() {
            return None;
        }
        // Its buckets are folders. What belongs to an object goes to files, because some file
        // systems have no extended attributes.
        let (objects, attributes) = (own.join("objects"), own.join("attributes"));
        for path in [&objects.join("bucket"), &attributes] {
            std::fs::create_dir_all(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
        for _ in 0..TRIES {
            let port = free_port();
            let mut child = Command::new(&program)
                .args(["--quiet", "--keep-alive", "--region", Self::REGION])
                .args(["--port", &format!("127.0.0.1:{port}"), "posix", "--sidecar"])
                .args([&attributes, &objects])
                .env("ROOT_ACCESS_KEY_ID", ID)
                .env("ROOT_SECRET_ACCESS_KEY", SECRET)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("versitygw starts");
            if listens(&mut child, port) {
                return Some(Versitygw { child, port });
            }
            // Another process may have taken the port.
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("versitygw does not listen");
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The variables of the AWS CLI for its only user, if it is reached at this port.
    #[must_use]
    pub fn environment(port: u16) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
            ("AWS_REGION", Self::REGION.into()),
            ("AWS_ACCESS_KEY_ID", ID.into()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.into()),
            // No client asks a cloud for credentials.
            ("AWS_EC2_METADATA_DISABLED", "true".into()),
        ]
    }
}

impl Drop for Versitygw {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

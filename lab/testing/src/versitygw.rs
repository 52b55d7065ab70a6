//! A second object store, which judges signatures: versitygw on a free loopback port.

use crate::server::Server;
use std::path::Path;
use std::process::Command;

const ID: &str = "demo";
const SECRET: &str = "5ec7e7-of-the-demo";

/// A running object store with a bucket `bucket`, which ends with this value.
#[derive(Debug)]
pub struct Versitygw(Server);

impl Versitygw {
    /// Its region.
    pub const REGION: &str = "us-east-1";

    /// Starts the server that `lab/testing/versitygw/setup.sh` has installed in `dir`. Its
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
        let server = Server::start(|port| {
            let mut command = Command::new(&program);
            command
                .args(["--quiet", "--keep-alive", "--region", Self::REGION])
                .args(["--port", &format!("127.0.0.1:{port}"), "posix", "--sidecar"])
                .args([&attributes, &objects])
                .env("ROOT_ACCESS_KEY_ID", ID)
                .env("ROOT_SECRET_ACCESS_KEY", SECRET);
            command
        });
        Some(Versitygw(server))
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port
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

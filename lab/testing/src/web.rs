//! A real web server for tests: nginx on free loopback ports.

use crate::server::{free_port, listens};
use crate::skip;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How often another pair of ports is tried.
const TRIES: u32 = 5;

/// A running nginx, which ends with this value.
///
/// It serves the files of a directory at `/`. `/moved/` redirects there.
#[derive(Debug)]
pub struct Nginx {
    child: Child,
    port: u16,
    tls_port: u16,
    ca_file: PathBuf,
}

impl Nginx {
    /// Starts nginx for the files of `root`; its own files go to `own`, an empty directory. `None`
    /// if nginx or openssl is not installed: then the test is skipped.
    ///
    /// # Panics
    /// If nginx does not start.
    #[must_use]
    pub fn start(root: &Path, own: &Path) -> Option<Nginx> {
        let Some(program) = find("nginx") else {
            skip("nginx is not installed: remote databases are not tested");
            return None;
        };
        if find("openssl").is_none() {
            skip("openssl is not installed: remote databases are not tested");
            return None;
        }
        certificates(own);
        for _ in 0..TRIES {
            let (port, tls_port) = (free_port(), free_port());
            write(
                &own.join("nginx.conf"),
                &configuration(root, own, port, tls_port),
            );
            let mut child = Command::new(&program)
                .arg("-p")
                .arg(own)
                .args(["-c", "nginx.conf", "-e", "error.log"])
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("nginx starts");
            if listens(&mut child, port) && listens(&mut child, tls_port) {
                return Some(Nginx {
                    child,
                    port,
                    tls_port,
                    ca_file: own.join("ca.pem"),
                });
            }
            // Another process may have taken a port.
            let _ = child.kill();
            let _ = child.wait();
        }
        let said = std::fs::read_to_string(own.join("error.log")).unwrap_or_default();
        panic!("nginx does not listen: {said}");
    }

    /// The port without TLS.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A file's URL without TLS.
    #[must_use]
    pub fn http(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }

    /// A file's URL with TLS. The certificate is for `localhost`, by an authority of its own.
    #[must_use]
    pub fn https(&self, name: &str) -> String {
        format!("https://localhost:{}/{name}", self.tls_port)
    }

    /// The certificate of that authority.
    #[must_use]
    pub fn ca_file(&self) -> &Path {
        &self.ca_file
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(root: &Path, own: &Path, port: u16, tls_port: u16) -> String {
    let mut text = String::from(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nevents {}\nhttp {\n  access_log off;\n",
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(text, "  {kind}_temp_path {}/{kind};", own.display());
    }
    let root = root.display();
    let _ = write!(
        text,
        "  default_type application/octet-stream;
  server {{
    listen 127.0.0.1:{port};
    listen 127.0.0.1:{tls_port} ssl;
    ssl_certificate server.pem;
    ssl_certificate_key server.key;
    location / {{ root {root}; }}
    location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }}
  }}
}}
"
    );
    text
}

/// Makes an authority and a certificate of it for localhost.
fn certificates(own: &Path) {
    write(
        &own.join("server.ext"),
        "subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n",
    );
    let key = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ];
    let run = |args: &[&str]| {
        let done = Command::new("openssl")
            .args(args)
            .current_dir(own)
            .output()
            .expect("openssl runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "openssl {args:?}: {said}");
    };
    let new = |rest: &[&'static str]| [&["req"], &key[..], rest].concat();
    run(&new(&[
        "-x509", "-days", "2", "-subj", "/CN=test", "-keyout", "ca.key", "-out", "ca.pem",
    ]));
    run(&new(&[
        "-subj",
        "/CN=localhost",
        "-keyout",
        "server.key",
        "-out",
        "server.csr",
    ]));
    run(&[
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
        "-extfile",
        "server.ext",
        "-out",
        "server.pem",
    ]);
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// A program, also where only an administrator looks for it.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|dir| dir.join(name))
        .find(|program| program.is_file())
}

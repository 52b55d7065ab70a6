//! The files of a server, and commands that use only servers of this machine.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use crate::connect::sibling;
use crate::result::{About as _, Failure, Result};

/// Publishes a database to a file or a URL, with these variables.
pub(crate) fn publish(from: &Path, to: &OsStr, environment: &[(&str, String)]) -> Result<()> {
    let program = sibling("densite", "make ext")?;
    let mut command = Command::new(&program);
    command.args(["publish", "--quiet"]).arg(from).arg(to);
    let done = with_environment(command, environment)
        .stdin(Stdio::null())
        .status()
        .about("run", &program)?;
    if done.success() {
        Ok(())
    } else {
        Err(Failure("densite publish failed".into()))
    }
}

/// Sets the time of a file back: a file that is younger than two seconds would be waited for.
pub(crate) fn make_older(path: &Path) -> Result<()> {
    let file = std::fs::File::options().write(true).open(path);
    let older = SystemTime::now() - Duration::from_secs(60);
    file.and_then(|file| file.set_modified(older))
        .about("set the time of", path)
}

/// The number of orders of a plain TPC-H file.
pub(crate) fn orders(plain: &Path) -> Result<u64> {
    let con = Connection::open(plain).about("open", plain)?;
    let count: i64 = con.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// The command with these variables, and without those that could send it to other servers.
pub(crate) fn with_environment(mut command: Command, environment: &[(&str, String)]) -> Command {
    for (name, _) in std::env::vars_os() {
        let upper = name.to_string_lossy().to_ascii_uppercase();
        let leads_elsewhere = ["AWS_", "LITESTREAM_", "TURBOLITE_"]
            .iter()
            .any(|prefix| upper.starts_with(prefix));
        if leads_elsewhere || upper.ends_with("_PROXY") {
            command.env_remove(&name);
        }
    }
    for (name, value) in environment {
        command.env(name, value);
    }
    command
}

/// The bytes of a file, or of all files in a folder.
pub(crate) fn size(path: &Path) -> Result<u64> {
    let known = std::fs::metadata(path).about("read", path)?;
    if !known.is_dir() {
        return Ok(known.len());
    }
    let mut sum = 0;
    for entry in std::fs::read_dir(path).about("read", path)? {
        sum += size(&entry.about("read", path)?.path())?;
    }
    Ok(sum)
}

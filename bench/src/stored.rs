//! Compresses with the command, and reads the sizes of files.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::connect::{self, Vfs};
use crate::result::{About as _, Failure, Result};

/// Disk space of a file in bytes: its allocated blocks.
pub(crate) fn allocated(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path).about("read", path)?.blocks() * 512)
}

/// Runs the `densite` command that was built with this program. Its messages are printed.
///
/// # Errors
/// If it cannot be run or does not exit with 0.
pub(crate) fn densite<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Result<Vec<u8>> {
    let program = connect::sibling("densite", "make ext")?;
    let output = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .about("run", &program)?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        let words: Vec<_> = arguments
            .iter()
            .map(|a| a.as_ref().to_string_lossy())
            .collect();
        Err(Failure(format!(
            "`densite {}` failed: {}",
            words.join(" "),
            output.status
        )))
    }
}

/// The settings of a compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// The default settings
    Default,
    /// With `--archive`
    Archive,
}

/// Compresses `source` into `target`, and replaces an earlier file.
pub(crate) fn compress(setting: Setting, source: &Path, target: &Path) -> Result<()> {
    if target.exists() {
        std::fs::remove_file(target).about("remove", target)?;
    }
    let mut arguments = vec![Path::new("compress"), Path::new("--quiet")];
    if setting == Setting::Archive {
        arguments.push(Path::new("--archive"));
    }
    arguments.extend([source, target]);
    densite(&arguments).map(|_| ())
}

/// The integers of `densite_info` for a stored database.
pub(crate) fn info(path: &Path) -> Result<BTreeMap<String, Value>> {
    connect::load_extension()?;
    let con = Vfs::Densite.open(path)?;
    let mut statement = con
        .prepare("SELECT name, value FROM densite_info('main') WHERE typeof(value) = 'integer'")?;
    let rows = statement.query_map([], |r| Ok((r.get(0)?, r.get::<_, i64>(1)?.into())))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

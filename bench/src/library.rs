//! Compresses with the library, because the command has no option for another codec.
//!
//! Only the hidden subcommand `compress-with` uses this, in a process of its own. The other
//! measures use the extension.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum;
use densite_store::CodecChoice;
use densite_tools::{ConvertOptions, Silent};

use crate::result::{About as _, Failure, Result};
use crate::work::name;

/// The codec of new frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Codec {
    /// The default: the best of all codecs for each page
    Auto,
    /// zstd, with a dictionary if one was trained
    Zstd,
}

/// Compresses `source` into the new file `target` in this process, as `densite compress` does.
///
/// # Errors
/// Those of the library.
pub(crate) fn compress(codec: Codec, source: &Path, target: &Path) -> Result<()> {
    let failed = |e: &dyn std::fmt::Display| {
        Failure(format!(
            "cannot compress {} with codec={}: {e}",
            source.display(),
            name(codec)
        ))
    };
    let api = densite_linked::api().map_err(|e| failed(&e))?;
    densite_vfs::register(api, densite_vfs::NAME, None, false).map_err(|e| failed(&e))?;
    let mut options = ConvertOptions::default();
    options.store.codec = match codec {
        Codec::Auto => CodecChoice::Auto,
        Codec::Zstd => CodecChoice::Zstd,
    };
    densite_tools::compress(api, source, Some(target), &options, &mut Silent)
        .map(|_| ())
        .map_err(|e| failed(&e))
}

/// As [`compress`], in a new process. Replaces an earlier `target`.
///
/// # Errors
/// If the process cannot start or fails. The process prints its own message.
pub(crate) fn compress_in_new_process(codec: Codec, source: &Path, target: &Path) -> Result<()> {
    if target.exists() {
        std::fs::remove_file(target).about("remove", target)?;
    }
    let me = std::env::current_exe().about("find", Path::new("this program"))?;
    let status = Command::new(&me)
        .args(["compress-with", "--codec", &name(codec)])
        .arg(source)
        .arg(target)
        .stdin(Stdio::null())
        .status()
        .about("run", &me)?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure(format!(
            "compressing {} with codec={} failed",
            source.display(),
            name(codec)
        )))
    }
}

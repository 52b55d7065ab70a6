//! Compressing by the library, where the command has no option for what is to be measured: another codec.
//!
//! Only the hidden subcommand `compress-with` comes here, in a process of its own: the other measurements use the extension.

use std::path::Path;
use std::process::{Command, Stdio};
use std::ptr::{null, null_mut};

use clap::ValueEnum;
use densite::{Api, ConvertOptions, Silent};
use densite_sqlite::EntryPoint;
use densite_store::CodecChoice;
use rusqlite::auto_extension::RawAutoExtension;
use rusqlite::ffi;

use crate::result::{About as _, Failure, Result};
use crate::work::name;

/// What new frames are coded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Codec {
    /// The default: the best of those there are
    Auto,
    /// zstd, with a dictionary where one was learned
    Zstd,
}

/// Compresses `source` into the new file `target`, as `densite compress` does, in this process.
///
/// # Errors
/// What the library says.
pub(crate) fn compress(codec: Codec, source: &Path, target: &Path) -> Result<()> {
    let failed = |e: &dyn std::fmt::Display| {
        Failure(format!(
            "cannot compress {} with codec={}: {e}",
            source.display(),
            name(codec)
        ))
    };
    // SAFETY: `prime` gives the entry point to the linked SQLite alone, which is never unloaded.
    let api = unsafe { Api::capture(prime) }.map_err(|e| failed(&e))?;
    densite_vfs::register(api, densite_vfs::NAME, None, false).map_err(|e| failed(&e))?;
    let mut options = ConvertOptions::default();
    options.store.codec = match codec {
        Codec::Auto => CodecChoice::Auto,
        Codec::Zstd => CodecChoice::Zstd,
    };
    densite::compress(api, source, Some(target), &options, &mut Silent)
        .map(|_| ())
        .map_err(|e| failed(&e))
}

/// The same in a new process, replacing an earlier `target`.
///
/// # Errors
/// If the process cannot start or fails; its message is passed on.
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

/// Has the entry point called once, by opening a connection that is closed again.
fn prime(entry: EntryPoint) {
    // SAFETY: both are the type of an extension's entry point, with the pointers to opaque types named differently; the connection is closed
    // whether or not it opened (null is allowed), and nobody else opens one meanwhile: this runs once, before any.
    unsafe {
        let entry = std::mem::transmute::<EntryPoint, RawAutoExtension>(entry);
        ffi::sqlite3_auto_extension(Some(entry));
        let mut db = null_mut();
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_MEMORY;
        ffi::sqlite3_open_v2(c":memory:".as_ptr(), &raw mut db, flags, null());
        ffi::sqlite3_close(db);
        ffi::sqlite3_cancel_auto_extension(Some(entry));
    }
}

//! Checking a database, and its statistics.

use crate::register::api;
use crate::{Checked, Info, Progress, Result, Silent};
use std::path::Path;

/// Verifies every stored page of a database, compressed or plain, and runs SQLite's integrity
/// check. Damage is part of the result, not an error.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("app.db");
/// # densite::open(&path)?.execute_batch("CREATE TABLE t(a)")?;
/// let checked = densite::check(&path)?;
/// assert!(checked.ok(), "{:?} {:?}", checked.problems, checked.integrity_check);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::File`](crate::Error::File) if the database cannot be checked at all.
pub fn check(path: impl AsRef<Path>) -> Result<Checked> {
    check_with(path, &mut Silent)
}

/// As [`check`], and reports its progress.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("app.db");
/// # densite::open(&path)?.execute_batch("CREATE TABLE t(a)")?;
/// struct Print;
/// impl densite::Progress for Print {
///     fn phase(&mut self, name: &'static str, total: u64) {
///         println!("{name}: {total} bytes");
///     }
/// }
/// assert!(densite::check_with(&path, &mut Print)?.ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`check`].
pub fn check_with(path: impl AsRef<Path>, progress: &mut dyn Progress) -> Result<Checked> {
    Ok(densite_tools::check(api()?, path.as_ref(), progress)?)
}

/// The statistics of a database, compressed or plain: sizes, pages, tables, its log.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("app.db");
/// # densite::open(&path)?.execute_batch("CREATE TABLE t(a)")?;
/// let info = densite::info(&path)?;
/// println!("{} bytes are stored in {}", info.logical_bytes, info.stored_bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::File`](crate::Error::File).
pub fn info(path: impl AsRef<Path>) -> Result<Info> {
    Ok(densite_tools::info(api()?, path.as_ref())?)
}

//! Registering Densite with the SQLite that is linked into the program.

use crate::{Error, Result};
use densite_sqlite::Api;
use std::sync::OnceLock;

/// Registers the VFS `densite`, and Densite's SQL functions for all connections that are opened
/// later.
///
/// [`open()`](crate::open()) calls it. Call it yourself before you open databases with rusqlite.
/// Calling it again does nothing.
///
/// ```
/// densite::register()?;
/// # let dir = tempfile::tempdir()?;
/// # std::env::set_current_dir(&dir)?;
/// let con = rusqlite::Connection::open("file:app.db?vfs=densite&level=9")?;
/// con.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Unsupported`] if the linked SQLite lacks a function that Densite calls.
pub fn register() -> Result<()> {
    api().map(|_| ())
}

/// The functions of the linked SQLite, after everything is registered.
pub(crate) fn api() -> Result<Api> {
    static API: OnceLock<std::result::Result<Api, densite_sqlite::Error>> = OnceLock::new();
    let known = API.get_or_init(|| {
        let api = densite_linked::api()?;
        densite_vfs::register(api, densite_vfs::NAME, None, false)?;
        // This comes first: the VFS's function can refuse a database, and its message must be the
        // newest error.
        densite_linked::for_every_connection(densite_bulk::create_functions)?;
        densite_linked::for_every_connection(densite_tools::create_functions)?;
        densite_linked::for_every_connection(densite_vfs::init)?;
        Ok(api)
    });
    known
        .clone()
        .map_err(|e| Error::Unsupported(format!("Densite cannot use this program's SQLite: {e}")))
}

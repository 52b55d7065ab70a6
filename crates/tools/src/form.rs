//! What a file is.

use crate::db::{Access, Through};
use crate::error::{Error, Result};
use crate::header::is_sqlite;
use crate::paths::{beside, len_or_zero};
use crate::target::Target;
use densite_disk::File;
use densite_sqlite::{Api, HostFile};
use densite_store::{self as store, Handle, Options, Readahead};

/// The form in which a database is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A Densite file.
    Compressed,
    /// A plain SQLite file.
    Plain,
    /// No bytes yet.
    Empty,
}

/// Tells the form of a file, or that it is no database.
pub(crate) fn form(api: Api, target: &Target) -> Result<Form> {
    let file = Through::Host.file(api, &target.path, Access::Read)?;
    let failed = |e| Error::from_disk(&target.given, "read", &e);
    let mut start = [0u8; 16];
    let n = file.read_at(&mut start, 0).map_err(failed)?;
    if is_sqlite(&start) {
        return Ok(Form::Plain);
    }
    match store::probe(&file).map_err(|e| Error::from_store(&target.given, "read", e))? {
        store::Kind::Densite => Ok(Form::Compressed),
        // A first transaction may have died: its journal or WAL decides, and SQLite reads those.
        store::Kind::Empty if n == 0 => Ok(Form::Empty),
        store::Kind::Empty | store::Kind::Other => {
            // The first page may have been half written with its old content in a journal.
            if n > 0 && len_or_zero(&beside(&target.path, "-journal")) > 0 {
                return Ok(Form::Plain);
            }
            Err(Error::NotADatabase {
                path: target.given.clone(),
                empty: false,
            })
        }
    }
}

/// Opens the store in a compressed file to look at it.
pub(crate) fn open_store(target: &Target, file: HostFile) -> store::Result<Handle> {
    let options = Options {
        read_only: true,
        // What is looked at lies here and there.
        readahead: Readahead::Off,
        ..Options::default()
    };
    let identity = format!("look:{}", target.path.display());
    Handle::open(Box::new(file), &identity, options)
}

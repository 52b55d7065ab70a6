//! Detects the form of a database file.

use crate::db::{Access, Through};
use crate::error::{Error, Result};
use crate::target::{Target, beside, len_or_zero};
use densite_disk::File;
use densite_sqlite::{Api, Companions, HostFile};
use densite_sqlite_format::header::{foreign_version, is_sqlite};
use densite_store::{self as store, Handle, Options, Readahead};

/// The form in which a database is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A Densite file.
    Compressed,
    /// A plain SQLite file.
    Plain,
    /// The file has no bytes yet.
    Empty,
}

impl Form {
    /// The VFS that reads the logical bytes of a database of this form.
    pub(crate) fn through(self) -> Through {
        match self {
            Form::Compressed => Through::Densite,
            Form::Plain | Form::Empty => Through::Host,
        }
    }
}

/// Whether a file with these first 16 bytes is a database, plain or compressed.
pub fn is_database(start: &[u8]) -> bool {
    is_sqlite(start) || start.starts_with(store::MAGIC)
}

/// Detects the form of a file; an error if it is not a database.
pub(crate) fn form(api: Api, target: &Target) -> Result<Form> {
    let file = Through::Host.file(api, target, Access::Read)?;
    let failed = |e| Error::from_disk(&target.given, "read", &e);
    let mut start = [0u8; 24];
    let n = file.read_at(&mut start, 0).map_err(failed)?;
    let is_half_written = || len_or_zero(&beside(&target.path, Companions::PLAIN.journal)) > 0;
    if is_sqlite(&start) {
        if let Some(version) = foreign_version(&start)
            && !is_half_written()
        {
            return Err(Error::OtherFormat {
                path: target.given.clone(),
                version,
            });
        }
        return Ok(Form::Plain);
    }
    match store::probe(&file).map_err(|e| Error::from_store(&target.given, "read", e))? {
        store::Kind::Densite => Ok(Form::Compressed),
        // A crash can have interrupted the first transaction. SQLite then needs the journal or WAL
        // to recover the file.
        store::Kind::Empty if n == 0 => Ok(Form::Empty),
        store::Kind::Empty | store::Kind::Other => {
            // The first page can be half written while its old content is in a journal.
            if n > 0 && is_half_written() {
                return Ok(Form::Plain);
            }
            Err(without_beginning(target, &file))
        }
    }
}

/// The error of a file that does not begin as a database does: pages of a Densite file can follow.
/// A remote file is not searched for them.
fn without_beginning(target: &Target, file: &HostFile) -> Error {
    let path = target.given.clone();
    let is_local = target.remote.is_none();
    match is_local && store::holds_pages(file).unwrap_or(false) {
        true => Error::Damaged {
            path,
            what: "its beginning is lost, but pages of a Densite file follow, which densite salvage can read".into(),
        },
        false => Error::NotADatabase { path, empty: false },
    }
}

/// Opens the store in a compressed file for reading.
pub(crate) fn open_store(target: &Target, file: HostFile) -> store::Result<Handle> {
    let options = Options {
        read_only: true,
        // The reads that follow are not sequential.
        readahead: Readahead::Off,
        ..Options::default()
    };
    let identity = match &target.remote {
        Some(remote) => format!("look:{}", remote.file.identity()),
        None => format!("look:{}", target.path.display()),
    };
    Handle::open(Box::new(file), &identity, options)
}

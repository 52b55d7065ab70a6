//! Detects the form of a database file.

use crate::db::{Access, Through};
use crate::error::{Error, Result};
use crate::header::is_sqlite;
use crate::paths::{beside, len_or_zero};
use crate::target::Target;
use densite_disk::File;
use densite_sqlite::{Api, Companions, HostFile};
use densite_store::{self as store, Handle, Options, Readahead};

/// Where the header has the version that a program must know to read the file
/// (fileformat2.html, section 1.3.3).
const READ_VERSION: usize = 19;
/// Payload fractions, which every header has behind the versions and the reserved bytes.
const FRACTIONS: [u8; 3] = [64, 32, 32];
/// SQLite's newest one. Its wal2 branch writes 3, Turso's MVCC mode 255.
const NEWEST_READ_VERSION: u8 = 2;

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

/// Detects the form of a file; an error if it is not a database.
pub(crate) fn form(api: Api, target: &Target) -> Result<Form> {
    let file = Through::Host.file(api, target, Access::Read)?;
    let failed = |e| Error::from_disk(&target.given, "read", &e);
    let mut start = [0u8; 24];
    let n = file.read_at(&mut start, 0).map_err(failed)?;
    let is_half_written = || len_or_zero(&beside(&target.path, Companions::PLAIN.journal)) > 0;
    if is_sqlite(&start) {
        let version = start[READ_VERSION];
        let is_header = start.ends_with(&FRACTIONS);
        if is_header && version > NEWEST_READ_VERSION && !is_half_written() {
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

//! The new file of a rewrite as SQLite sees it: a plain file, or the store in a compressed file.
//!
//! VACUUM INTO writes to the file through its descriptor. Nothing opens the file by name: in a
//! directory of another user, the name can already lead to another file.

use crate::copy;
use crate::db::Through;
use crate::error::{Error, Result};
use crate::first_error::FirstError;
use crate::objects::Bytes;
use crate::source::{self, Pages};
use crate::temp::Temp;
use densite_disk::{File, RealFile, SyncKind};
use densite_sqlite::Code;
use densite_sqlite_format::Header;
use densite_store::{DecodedCache, Handle, Options, Readahead};
use densite_vfs::ViewBytes;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Each page of a new file is read only once, so a larger cache has no use.
const CACHE_BYTES: usize = 1 << 20;

/// A new file in one of the two forms.
enum Content {
    Plain(RealFile),
    Stored {
        store: Box<Handle>,
        /// Bytes written since the last publish.
        unpublished: u64,
    },
}

/// A new file that SQLite writes or reads.
pub(crate) struct Output {
    path: PathBuf,
    content: Mutex<Content>,
    /// Logical length in bytes.
    len: AtomicU64,
    failed: FirstError,
}

impl Output {
    /// For writing; the file in `temp` must be empty.
    pub(crate) fn new(temp: &Temp, form: Through, options: &Options) -> Result<Output> {
        let content = match form {
            Through::Host => Content::Plain(temp.open()?),
            Through::Densite => Content::Stored {
                store: Box::new(copy::open_store(temp, options.clone(), "copy")?),
                unpublished: 0,
            },
        };
        Ok(Output::of(temp, content, 0))
    }

    /// For reading a written file.
    pub(crate) fn written(temp: &Temp, form: Through) -> Result<Output> {
        Ok(match reader(temp, form)? {
            Bytes::Plain(file, len, _) => Output::of(temp, Content::Plain(file), len),
            Bytes::Stored(store, len, _) => {
                let unpublished = 0;
                Output::of(temp, Content::Stored { store, unpublished }, len)
            }
        })
    }

    fn of(temp: &Temp, content: Content, len: u64) -> Output {
        Output {
            path: temp.path().to_path_buf(),
            content: Mutex::new(content),
            len: AtomicU64::new(len),
            failed: FirstError::default(),
        }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first error, if there was one.
    pub(crate) fn take_error(&self) -> Option<Error> {
        self.failed.take()
    }

    /// Trains on sample pages of the source. `database` is its size in bytes.
    pub(crate) fn learn(&self, samples: &[Vec<u8>], database: u64) -> Result<()> {
        let Content::Stored { store, .. } = &mut *self.content() else {
            return Ok(());
        };
        let learned = store.learn(samples, database);
        learned.map_err(|e| Error::from_store(&self.path, "write", e))
    }

    /// Makes the written file durable. `wal` says whether the database is in WAL mode, because
    /// VACUUM INTO does not keep that mode.
    pub(crate) fn finish(&self, wal: bool) -> Result<()> {
        if wal {
            self.write_at(&[2, 2], 18)?;
        }
        let len = ViewBytes::len(self);
        match &mut *self.content() {
            Content::Plain(file) => {
                let synced = file.sync(SyncKind::Full);
                synced.map_err(|e| Error::from_disk(&self.path, "sync", &e))
            }
            Content::Stored { store, .. } => {
                let done = store
                    .set_len(len)
                    .and_then(|()| store.sync(SyncKind::Full))
                    .and_then(|()| store.close_clean());
                done.map_err(|e| Error::from_store(&self.path, "write", e))
            }
        }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        match &mut *self.content() {
            Content::Plain(file) => {
                let read = file.read_at(buf, offset);
                read.map_err(|e| Error::from_disk(&self.path, "read", &e))
            }
            Content::Stored { store, .. } => {
                let read = store.read_at(buf, offset);
                read.map_err(|e| Error::from_store(&self.path, "read", e))
            }
        }
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        match &mut *self.content() {
            Content::Plain(file) => {
                let written = file.write_at(buf, offset);
                written.map_err(|e| Error::from_disk(&self.path, "write", &e))?;
            }
            Content::Stored { store, unpublished } => {
                let failed = |e| Error::from_store(&self.path, "write", e);
                store.write_at(buf, offset).map_err(failed)?;
                *unpublished += buf.len() as u64;
                if *unpublished >= copy::PUBLISH_EVERY {
                    store.publish().map_err(failed)?;
                    *unpublished = 0;
                }
            }
        }
        let end = offset + buf.len() as u64;
        self.len.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        match &mut *self.content() {
            Content::Plain(file) => {
                let set = file.set_len(len);
                set.map_err(|e| Error::from_disk(&self.path, "write", &e))?;
            }
            Content::Stored { store, .. } => {
                let set = store.set_len(len);
                set.map_err(|e| Error::from_store(&self.path, "write", e))?;
            }
        }
        self.len.store(len, Ordering::Release);
        Ok(())
    }
}

impl ViewBytes for Output {
    fn read(&self, buf: &mut [u8], offset: u64) -> std::result::Result<usize, Code> {
        self.failed.code(self.read_at(buf, offset))
    }

    fn write(&self, buf: &[u8], offset: u64) -> std::result::Result<(), Code> {
        self.failed.code(self.write_at(buf, offset))
    }

    fn truncate(&self, len: u64) -> std::result::Result<(), Code> {
        self.failed.code(self.set_len(len))
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }
}

/// Reads the pages of a finished new file, each once.
pub(crate) fn reader(temp: &Temp, form: Through) -> Result<Bytes<RealFile>> {
    let path = temp.path().to_path_buf();
    if form == Through::Host {
        let file = temp.open()?;
        let len = File::len(&file).map_err(|e| Error::from_disk(&path, "read", &e))?;
        return Ok(Bytes::Plain(file, len, path));
    }
    let options = Options {
        read_only: true,
        threads: 0,
        decoded_cache: DecodedCache::Bytes(CACHE_BYTES),
        readahead: Readahead::Off,
        ..Options::default()
    };
    let mut store = copy::open_store(temp, options, "proof")?;
    let len = store.len();
    let len = len.map_err(|e| Error::from_store(&path, "verify", e))?;
    Ok(Bytes::Stored(Box::new(store), len, path))
}

/// The header in the first page of a finished file, and its length in bytes.
pub(crate) fn shape(temp: &Temp, form: Through) -> Result<(Header, u64)> {
    let mut pages = reader(temp, form)?;
    let header = source::header(&mut pages, temp.path())?;
    Ok((header, pages.len()))
}

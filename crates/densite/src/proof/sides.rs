//! The two sides of the proof, and how each thread reads them.

use crate::db::Through;
use crate::error::{Error, Result};
use crate::objects::Bytes;
use crate::pages::Pages;
use crate::view::{Reader, View};
use densite_disk::{File, OpenMode, RealFile};
use densite_sqlite::Api;
use densite_store::{Handle, Options, Readahead};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Each page is read once: what was decoded is of no further use.
const CACHE_BYTES: usize = 1 << 20;

/// The source.
pub(crate) struct OldSide<'a> {
    pub(crate) api: Api,
    pub(crate) through: Through,
    pub(crate) view: &'a View,
    /// Its digests are of no use any more.
    pub(crate) stop: AtomicBool,
    /// VACUUM has read what it reads.
    pub(crate) alone: AtomicBool,
}

impl OldSide<'_> {
    /// Ends what reads it, SQLite included.
    pub(crate) fn give_up(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.view.stop();
    }
}

/// The copy, which nobody else has.
pub(crate) struct NewSide<'a> {
    pub(crate) api: Api,
    pub(crate) through: Through,
    pub(crate) path: &'a Path,
}

/// Where pages are read from, by each thread for itself.
pub(crate) trait Side: Sync {
    fn reader(&self) -> Result<Box<dyn Pages + '_>>;
}

impl Side for OldSide<'_> {
    fn reader(&self) -> Result<Box<dyn Pages + '_>> {
        let own = self.view.base().again(self.api, self.through)?;
        Ok(Box::new(Reader::new(self.view, own)))
    }
}

impl Side for NewSide<'_> {
    fn reader(&self) -> Result<Box<dyn Pages + '_>> {
        let file = RealFile::open(self.path, OpenMode::Read)
            .map_err(|e| Error::from_disk(self.path, "open", &e))?;
        if self.through == Through::Host {
            let len = File::len(&file).map_err(|e| Error::from_disk(self.path, "read", &e))?;
            return Ok(Box::new(Bytes::Plain(file, len, self.path.to_path_buf())));
        }
        let options = Options {
            read_only: true,
            threads: 0,
            decoded_cache_bytes: CACHE_BYTES,
            readahead: Readahead::Off,
            ..Options::default()
        };
        let failed = |e| Error::from_store(self.path, "verify", e);
        let identity = format!("proof:{}", self.path.display());
        let mut store = Handle::open(Box::new(file), &identity, options).map_err(failed)?;
        let len = store.len().map_err(failed)?;
        let copy = Bytes::<RealFile>::Stored(Box::new(store), len, self.path.to_path_buf());
        Ok(Box::new(copy))
    }
}

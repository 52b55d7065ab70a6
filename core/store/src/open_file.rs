//! A stored file as one connection has it open: the file object, the settings, and what the process
//! shares about the file.

use crate::error::{Error, Result};
use crate::options::{DecodedCache, Options};
use crate::pool::Pool;
use crate::shared::Shared;
use densite_disk::File;
use std::sync::Arc;

/// See the module's documentation.
pub(crate) struct OpenFile {
    file: Box<dyn File>,
    identity: String,
    options: Options,
    pool: Option<Arc<Pool>>,
    shared: Option<Arc<Shared>>,
    /// A sync failed.
    poisoned: bool,
    /// New frames are stored quickly, at a low level.
    hurry: bool,
}

impl OpenFile {
    /// Handles of one process with the same `identity` share what they know about the file.
    pub(crate) fn new(file: Box<dyn File>, identity: &str, options: Options) -> OpenFile {
        let pool = Pool::get(options.threads);
        OpenFile {
            file,
            identity: identity.to_owned(),
            options,
            pool,
            shared: None,
            poisoned: false,
            hurry: false,
        }
    }

    pub(crate) fn file(&self) -> &dyn File {
        &*self.file
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The background threads. `None`: everything runs on the calling thread.
    pub(crate) fn pool(&self) -> Option<&Arc<Pool>> {
        self.pool.as_ref()
    }

    /// Attaches the shared part if the file is not empty. Returns whether there is one.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn attach(&mut self) -> Result<bool> {
        if self.shared.is_none() {
            self.shared = Shared::attach(&*self.file, &self.identity, &self.options)?;
        }
        Ok(self.shared.is_some())
    }

    /// The shared part.
    ///
    /// # Errors
    /// [`Error::NotDensite`] if the file is empty.
    pub(crate) fn shared(&self) -> Result<Arc<Shared>> {
        self.shared.clone().ok_or(Error::NotDensite)
    }

    /// The shared part, if it is attached.
    pub(crate) fn known(&self) -> Option<&Arc<Shared>> {
        self.shared.as_ref()
    }

    /// # Errors
    /// [`Error::Poisoned`] after a failed sync.
    pub(crate) fn check_poison(&self) -> Result<()> {
        if self.poisoned {
            Err(Error::Poisoned)
        } else {
            Ok(())
        }
    }

    /// Notes that a sync failed: from now on every call returns [`Error::Poisoned`]. Returns the
    /// sync's error.
    pub(crate) fn poison(&mut self, e: densite_disk::Error) -> Error {
        self.poisoned = true;
        e.into()
    }

    /// Whether a sync failed.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// # Errors
    /// [`Error::Poisoned`] after a failed sync, [`Error::ReadOnly`].
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_poison()?;
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        Ok(())
    }

    /// Whether new frames are stored quickly, at a low level.
    pub(crate) fn is_in_hurry(&self) -> bool {
        self.hurry
    }

    pub(crate) fn set_hurry(&mut self, on: bool) {
        self.hurry = on;
    }

    pub(crate) fn set_level(&mut self, level: i32) {
        self.options.level = level;
    }

    pub(crate) fn set_threads(&mut self, threads: usize) {
        self.options.threads = threads;
        self.pool = Pool::get(threads);
        if let Some(s) = &self.shared {
            s.cache.let_watch(threads > 0);
        }
    }

    /// Sets the size of the cache that all handles of this process on this file share.
    pub(crate) fn set_decoded_cache(&mut self, cache: DecodedCache) {
        self.options.decoded_cache = cache;
        if let Some(s) = &self.shared {
            s.cache.set(cache);
        }
    }

    #[cfg(test)]
    pub(crate) fn set_pool(&mut self, pool: Arc<Pool>) {
        self.pool = Some(pool);
    }
}

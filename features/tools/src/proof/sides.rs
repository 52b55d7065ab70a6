//! The two sides of the proof, and how each thread reads them.

use crate::db::Through;
use crate::error::Result;
use crate::output;
use crate::source::Pages;
use crate::temp::Temp;
use crate::view::{Reader, View};
use densite_sqlite::Api;
use std::sync::atomic::{AtomicBool, Ordering};

/// The source.
pub(crate) struct OldSide<'a> {
    pub(crate) api: Api,
    pub(crate) through: Through,
    pub(crate) view: &'a View,
    /// Set when its digests are not needed any more.
    pub(crate) stop: AtomicBool,
    /// Set when VACUUM has finished reading.
    pub(crate) alone: AtomicBool,
}

impl OldSide<'_> {
    /// Stops all readers of the source, including SQLite.
    pub(crate) fn give_up(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.view.stop();
    }
}

/// The copy. No other connection has it open.
pub(crate) struct NewSide<'a> {
    pub(crate) api: Api,
    pub(crate) form: Through,
    pub(crate) temp: &'a Temp,
}

/// A source of pages. Each thread gets its own reader.
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
        Ok(Box::new(output::reader(self.temp, self.form)?))
    }
}

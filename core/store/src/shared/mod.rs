//! What all handles of a process on one file share: the newest known commit, map nodes, decoded
//! pages, dictionaries.
//!
//! Freshness (rule S5): before every read the tip block (48 bytes) is compared with the one at the
//! last refresh. If it differs, the trailers since are read and applied (`follow`). A handle that
//! publishes updates the state itself. Lock order: `writer` before `state`. A holder of `state`
//! only tries to lock `writer`. `nodes`, `dictionaries` and the cache are locked last.

mod dictionaries;
mod follow;
mod moving;
mod registry;

use crate::again::Held;
use crate::cache::Cache;
use crate::codec::Dictionary;
use crate::error::Result;
use crate::format::entry::Entry;
use crate::map::NodeCache;
use crate::map::tree::Source;
use crate::options::Options;
use crate::preencoded::PreEncoded;
use crate::recover::Found;
use crate::relearn_state::Stage;
use crate::sources::Sources;
use crate::space::chunk_tree::{self, Indexes};
use crate::state::State;
use crate::writer::Writer;
use densite_disk::File;
use densite_disk::sync::{Mutex, RwLock};
use dictionaries::Dictionaries;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module's documentation.
pub(crate) struct Shared {
    pub(crate) salt: u64,
    pub(crate) state: RwLock<State>,
    nodes: NodeCache,
    /// Indexes of the space table.
    indexes: Indexes,
    pub(crate) cache: Arc<Cache>,
    pub(crate) dictionaries: Dictionaries,
    pub(crate) writer: Mutex<Writer>,
    /// What is learned again at rest.
    pub(crate) relearning: Mutex<Stage>,
    /// Pages on their way to the WAL.
    pub(crate) preencoded: Arc<PreEncoded>,
    /// The file was overwritten with other contents. Stays set: opening the file again makes a new
    /// shared part.
    overwritten: AtomicBool,
    /// How often it could not be proved that the newest commit follows the known one.
    unproved: AtomicU64,
}

impl Shared {
    fn new(found: Found, options: &Options) -> Result<Shared> {
        let writer = Writer::new(found.slot, found.header_lost, found.state.highest())?;
        Ok(Shared {
            salt: found.salt,
            state: RwLock::new(found.state),
            nodes: NodeCache::default(),
            indexes: Indexes::default(),
            cache: Cache::with(options),
            dictionaries: Dictionaries::default(),
            writer: Mutex::new(writer),
            relearning: Mutex::default(),
            preencoded: Arc::default(),
            overwritten: AtomicBool::new(false),
            unproved: AtomicU64::new(0),
        })
    }

    /// The source to load map nodes through `file`.
    pub(crate) fn source<'a>(&'a self, file: &'a dyn File) -> Source<'a> {
        Source {
            file,
            salt: self.salt,
            cache: &self.nodes,
        }
    }

    /// The source to load the space table through `file`.
    pub(crate) fn table_source<'a>(&'a self, file: &'a dyn File) -> chunk_tree::Source<'a> {
        chunk_tree::Source {
            file,
            salt: self.salt,
            indexes: &self.indexes,
        }
    }

    /// The sources to load both through `file`.
    pub(crate) fn sources<'a>(&'a self, file: &'a dyn File) -> Sources<'a> {
        Sources {
            file,
            map: self.source(file),
            table: self.table_source(file),
        }
    }

    /// Drops the nodes of the map and the indexes of the space table, which are then read from the
    /// file again.
    pub(crate) fn forget_nodes(&self) {
        self.nodes.clear();
        self.indexes.clear();
    }

    fn is_overwritten(&self) -> bool {
        self.overwritten.load(Ordering::Acquire)
    }

    /// How often it could not be proved that the newest commit follows the known one. The file can
    /// then have other contents.
    pub(crate) fn unproved(&self) -> u64 {
        self.unproved.load(Ordering::Acquire)
    }

    /// The published entry of a page (1 is the first).
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`](crate::Error::Corrupt).
    pub(crate) fn lookup(&self, file: &dyn File, state: &State, page: u32) -> Result<Entry> {
        state.lookup(self.source(file), page)
    }

    /// A dictionary that a commit names, by its number.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`](crate::Error::Corrupt) if there is none of that number, or it is
    /// damaged.
    pub(crate) fn dictionary(
        &self,
        file: &dyn File,
        state: &State,
        id: u32,
    ) -> Result<Arc<Dictionary>> {
        self.dictionaries.of(file, self.salt, state, id)
    }

    /// The dictionaries that these frames need.
    ///
    /// # Errors
    /// As [`Shared::dictionary`].
    pub(crate) fn dictionaries_of(
        &self,
        file: &dyn File,
        held: &[Held],
    ) -> Result<HashMap<u32, Arc<Dictionary>>> {
        let mut dicts = HashMap::new();
        let state = self.state.read();
        for id in held.iter().map(|held| held.record.model) {
            if id != 0 && !dicts.contains_key(&id) {
                dicts.insert(id, self.dictionary(file, &state, id)?);
            }
        }
        Ok(dicts)
    }

    /// The extent that is being appended to.
    pub(crate) fn current_extent(&self) -> (u64, u64) {
        self.state.read().current_extent()
    }
}

//! What all handles of a process on one file share: the newest known commit, map nodes, decoded
//! pages, dictionaries.
//!
//! Freshness (rule S5): before every read the tip block (48 bytes) is compared with the one at the
//! last refresh. If it differs, the trailers since are read and applied. A handle that publishes
//! updates the state itself. A tip whose chain does not lead back to the known commit belongs to
//! other contents, which were written over the file: see `lineage`. Lock order: `writer` before
//! `state`, of which a holder only tries `writer`; `nodes`, `dictionaries`, the cache are last.

mod moving;

use crate::again::Held;
use crate::cache::Cache;
use crate::chain;
use crate::codec::{CodecId, Dictionary};
use crate::error::{Damage, Error, Result};
use crate::format::TIP_OFF;
use crate::format::entry::Entry;
use crate::format::record::{Kind, Record};
use crate::format::tip::{Tip, read_tip};
use crate::format::trailer::Trailer;
use crate::lineage::{self, Lineage};
use crate::map::NodeCache;
use crate::map::tree::Source;
use crate::options::Options;
use crate::preencoded::PreEncoded;
use crate::recover::{self, Found};
use crate::relearn_state::Stage;
use crate::sources::Sources;
use crate::space::chunk_tree::{self, Indexes};
use crate::state::State;
use crate::writer::Writer;
use densite_disk::File;
use densite_disk::sync::{Mutex, RwLock};
use densite_disk::wait::pause;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

type Registry = HashMap<(String, u64, u32), Weak<Shared>>;

/// Open files of this process, by identity, salt and process id. The salt is part of the key
/// because another file can replace one of the same name. The process id is part of it because a
/// child of fork must not use what belongs to its parent.
static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

/// The most tries to follow a tip that keeps changing, before it counts as damage.
const TRIES: u32 = 200;

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
    /// I/O; [`Error::Corrupt`].
    pub(crate) fn lookup(&self, file: &dyn File, state: &State, page: u32) -> Result<Entry> {
        state.lookup(self.source(file), page)
    }

    /// A dictionary that a commit names, by its number.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`] if there is none of that number, or it is damaged.
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

    /// The shared part of the file: the one that this process has, or a new one. `None` while the
    /// file is empty.
    pub(crate) fn attach(
        file: &dyn File,
        identity: &str,
        options: &Options,
    ) -> Result<Option<Arc<Shared>>> {
        let Some(found) = recover::find(file)? else {
            return Ok(None);
        };
        let key = (identity.to_owned(), found.salt, std::process::id());
        // In a child of fork, a thread that does not exist can hold the lock forever: do without
        // sharing then (rule S15).
        let Some(mut registry) = REGISTRY.try_lock_for(Duration::from_secs(2)) else {
            return Ok(Some(Arc::new(Shared::new(found, options)?)));
        };
        let registry = registry.get_or_insert_with(HashMap::new);
        registry.retain(|k, v| k.2 != std::process::id() || v.strong_count() > 0);
        let known = registry.get(&key).and_then(Weak::upgrade);
        if let Some(shared) = known.filter(|shared| !shared.is_overwritten()) {
            return Ok(Some(shared));
        }
        let shared = Arc::new(Shared::new(found, options)?);
        registry.insert(key, Arc::downgrade(&shared));
        Ok(Some(shared))
    }

    /// Makes sure that the state is that of the newest published commit. Returns whether it
    /// changed.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`]; [`Error::Overwritten`], which then stays.
    pub(crate) fn refresh(&self, file: &dyn File) -> Result<bool> {
        if self.is_overwritten() {
            return Err(Error::Overwritten);
        }
        let raw = read_tip(file)?;
        if self.state.read().tip_raw() == raw {
            return Ok(false);
        }
        self.catch_up(file)
    }

    #[cold]
    fn catch_up(&self, file: &dyn File) -> Result<bool> {
        let mut state = self.state.write();
        let mut problem = None;
        for attempt in 0..TRIES {
            let raw = read_tip(file)?;
            if raw == state.tip_raw() {
                return Ok(true);
            }
            match Tip::decode(&raw, self.salt) {
                Some(tip) if tip == state.tip() => {
                    state.note_tip_block(raw);
                    return Ok(true);
                }
                Some(tip) => match self.follow(file, &mut state, &tip) {
                    Ok(()) => {
                        state.note_tip_block(raw);
                        return Ok(true);
                    }
                    Err(Error::Corrupt(d)) => problem = Some(d),
                    Err(e) => {
                        self.note_overwritten(&e);
                        return Err(e);
                    }
                },
                None if recover::salt_of(file)? != Some(self.salt) => {
                    self.note_overwritten(&Error::Overwritten);
                    return Err(Error::Overwritten);
                }
                // It is being written, or damaged. If it stays so, the whole commits after the
                // known one count.
                None if attempt > 20 => {
                    while let Some((tip, trailer)) =
                        chain::next_commit(file, self.salt, &state.tip(), state.next_off())?
                    {
                        state.apply(tip, &trailer);
                    }
                    state.note_tip_block(raw);
                    return Ok(true);
                }
                None => {}
            }
            pause(Duration::from_micros(u64::from(attempt) * 20));
        }
        Err(Error::Corrupt(problem.unwrap_or_else(|| Damage {
            what: "tip".to_owned(),
            offset: TIP_OFF,
            page: None,
            problem: "it changes faster than it can be followed".to_owned(),
        })))
    }

    /// Advances to the commit of `tip`, from the known one if that is among its ancestors.
    fn follow(&self, file: &dyn File, state: &mut State, tip: &Tip) -> Result<()> {
        let mut back = Vec::new();
        let ours = state.tip();
        let met = recover::walk_back(file, self.salt, tip, &mut back, &mut |at| *at == ours)?;
        if met {
            for (tip, trailer) in back.iter().rev() {
                self.account(file, state, tip, trailer)?;
                state.apply(*tip, trailer);
            }
            return Ok(());
        }
        match lineage::of(file, self.salt, &ours, tip, &back, lineage::MAX_SINCE)? {
            Lineage::Ours(since) => {
                if let Some(mut writer) = self.writer.try_lock() {
                    writer.accounting.pass_fold(&ours, &since, file.len()?);
                }
            }
            Lineage::Another => return Err(Error::Overwritten),
            Lineage::Unknown => self.forget_contents(),
        }
        state.restart(self.salt);
        for (tip, trailer) in back.iter().rev() {
            state.apply(*tip, trailer);
        }
        Ok(())
    }

    /// Updates the accounting too, unless a writer is using it.
    fn account(&self, file: &dyn File, state: &State, tip: &Tip, trailer: &Trailer) -> Result<()> {
        let Some(mut writer) = self.writer.try_lock() else {
            return Ok(());
        };
        let sources = self.sources(file);
        if let Some(bytes) = writer.accounting.follow(&sources, state, tip, trailer)? {
            writer.durability.appended_elsewhere(bytes);
        }
        Ok(())
    }

    /// Drops everything that was read, because it may belong to other contents.
    fn forget_contents(&self) {
        self.unproved.fetch_add(1, Ordering::AcqRel);
        self.forget_nodes();
        self.cache.clear();
        self.dictionaries.clear();
        self.preencoded.forget();
    }

    fn note_overwritten(&self, error: &Error) {
        if matches!(error, Error::Overwritten) {
            self.overwritten.store(true, Ordering::Release);
        }
    }
}

/// Dictionaries by their numbers.
#[derive(Default)]
pub(crate) struct Dictionaries {
    known: Mutex<HashMap<u32, Arc<Dictionary>>>,
}

impl Dictionaries {
    /// A dictionary by its number.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`] if there is none of that number, or it is damaged.
    fn of(&self, file: &dyn File, salt: u64, state: &State, id: u32) -> Result<Arc<Dictionary>> {
        if let Some(d) = self.known.lock().get(&id) {
            return Ok(Arc::clone(d));
        }
        let damage = |offset: u64, problem: &str| {
            Error::Corrupt(Damage {
                what: format!("dictionary {id}"),
                offset,
                page: None,
                problem: problem.to_owned(),
            })
        };
        let info = state
            .dicts()
            .iter()
            .find(|d| d.id == id)
            .ok_or_else(|| damage(0, "the newest commit does not list it"))?;
        let mut bytes = vec![0; info.place.len as usize];
        let n = file.read_at(&mut bytes, info.place.off)?;
        let record = bytes
            .get(..n)
            .and_then(|b| Record::open(b, salt, info.place.off));
        let (record, _, payload) =
            record.ok_or_else(|| damage(info.place.off, "checksum mismatch"))?;
        if record.kind != Kind::Dictionary || record.number != id {
            return Err(damage(info.place.off, "another record is there"));
        }
        let dict = Arc::new(Dictionary::from_stored(id, CodecId(record.codec), payload));
        self.known.lock().insert(id, Arc::clone(&dict));
        Ok(dict)
    }

    /// The same, read from the file even if it is known.
    pub(crate) fn reread(
        &self,
        file: &dyn File,
        salt: u64,
        state: &State,
        id: u32,
    ) -> Result<Arc<Dictionary>> {
        self.known.lock().remove(&id);
        self.of(file, salt, state, id)
    }

    /// A dictionary that was read or made by this process.
    pub(crate) fn known(&self, id: u32) -> Option<Arc<Dictionary>> {
        self.known.lock().get(&id).cloned()
    }

    /// Adds a dictionary before a commit names it. If none ever does, call
    /// [`Dictionaries::forget`].
    pub(crate) fn add(&self, dict: &Arc<Dictionary>) {
        self.known.lock().insert(dict.id(), Arc::clone(dict));
    }

    /// Forgets a dictionary whose commit was given up. Other processes do not know it, and one of
    /// them may use its number for another one.
    pub(crate) fn forget(&self, id: u32) {
        self.known.lock().remove(&id);
    }

    /// Forgets all of them, because they may belong to other contents.
    fn clear(&self) {
        self.known.lock().clear();
    }
}

//! What all handles of a process on one file share: the newest known commit, map nodes, decoded pages, dictionaries.
//!
//! Freshness (rule 5): before every read the tip block is read (48 bytes) and compared with what it was when the state
//! was last brought up to date. If it differs, the trailers since are read and applied. Whoever publishes in this process updates the state
//! himself. A tip that does not stand on the commit known here belongs to other contents, which were written over the file: see `lineage`.
//!
//! Locks: `writer` before `state`; who holds `state` only tries `writer`. `nodes`, `dicts` and the cache are leaves.

use crate::cache::Cache;
use crate::chain;
use crate::codec::{CodecId, Dictionary, learn::Learner};
use crate::error::{Damage, Error, Result};
use crate::format::record::{Kind, Record};
use crate::format::slot::Slot;
use crate::format::tip::{TIP_LEN, Tip};
use crate::format::trailer::Trailer;
use crate::format::{TIP_OFF, UNIT_LEN};
use crate::lineage::{self, Lineage};
use crate::map::tree::{self, Source};
use crate::map::{Entry, NodeCache};
use crate::preencoded::PreEncoded;
use crate::reclaim::Reclaiming;
use crate::recover::{self, Found};
use crate::space::table::{self, Indexes};
use crate::space::{Reuse, Space};
use crate::state::State;
use densite_disk::File;
use densite_disk::sync::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// See the module's documentation.
pub(crate) struct Shared {
    pub(crate) salt: u64,
    pub(crate) state: RwLock<State>,
    pub(crate) nodes: NodeCache,
    /// Indexes of the space table.
    indexes: Indexes,
    pub(crate) cache: Arc<Cache>,
    dicts: Mutex<HashMap<u32, Arc<Dictionary>>>,
    pub(crate) writer: Mutex<Writer>,
    /// Pages on their way to the WAL.
    pub(crate) preencoded: Arc<PreEncoded>,
    /// The file was overwritten with other contents. Stays set: who opens the file again shares something new.
    overwritten: AtomicBool,
}

/// What whoever holds the writer's right keeps between commits. Nothing in it is needed for reading.
pub(crate) struct Writer {
    /// The accounting, and the commit for which it holds.
    pub(crate) space: Option<(Tip, Space)>,
    /// While the accounting has to be loaded anew for this commit: what is known of free units all the same.
    pub(crate) known_free: Option<(Tip, Reuse)>,
    /// What giving space back remembers.
    pub(crate) reclaiming: Reclaiming,
    /// The newest commit that a sync of this process made durable.
    pub(crate) durable: Option<Tip>,
    /// A sync failed, and what it may have dropped is still to be written again: see `rewrite`.
    pub(crate) needs_rewrite: bool,
    /// The newest slot in the file, and its block.
    pub(crate) slot: (usize, Slot),
    /// Whether a sync of this process followed the newest slot.
    pub(crate) slot_durable: bool,
    /// Bytes appended since the newest slot was written.
    pub(crate) since_slot: u64,
    /// Bytes appended since the last sync.
    pub(crate) since_sync: u64,
    /// Bytes of frames that the commits of this process appended, but for those of giving space back.
    pub(crate) written_frame_bytes: u64,
    /// Bytes of records that giving space back copied in this process.
    pub(crate) moved_bytes: u64,
    /// Marks the trailers of this writer (rule 8); renewed after each failure.
    pub(crate) epoch: u64,
    /// The highest commit number that was ever tried: a number is never used twice, for versions of pages must not be.
    pub(crate) last_attempt: u64,
    /// A power cut took the header: the next writer puts it back.
    pub(crate) header_lost: bool,
    /// Whether this process published anything.
    pub(crate) wrote: bool,
    /// The highest dictionary number that was ever given.
    pub(crate) last_dict: u32,
    /// The first dictionary number that this process gave.
    pub(crate) first_dict: u32,
    /// End of what is known to have been written to the file, the reserve included.
    pub(crate) physical_len: u64,
    pub(crate) learner: Learner,
    /// Whether the learner knows the file's own dictionaries.
    pub(crate) trained: bool,
}

impl Writer {
    /// The accounting had to be loaded: what was known of slots may be out of date too, for another process may have written them.
    pub(crate) fn reload_slots(&mut self, file: &dyn File) -> Result<()> {
        if let Some(slot) = recover::read_slot(file)?
            && slot.1.seq != self.slot.1.seq
        {
            self.slot = slot;
            self.slot_durable = false;
        }
        Ok(())
    }
}

impl Writer {
    /// What was known of free units at the commit `at` holds, but for where commits since then wrote, at the last of them. The file is `len` bytes long.
    fn keep_known_free(
        &mut self,
        mut known: Reuse,
        at: &Tip,
        since: &[(Tip, Vec<(u64, u64)>)],
        len: u64,
    ) {
        let mut newest = *at;
        for (tip, pieces) in since {
            known.pass(pieces, len.div_ceil(UNIT_LEN));
            newest = *tip;
        }
        self.known_free = Some((newest, known));
    }
}

/// Tries to follow a tip that keeps moving before it counts as damage.
const TRIES: u32 = 200;

impl Shared {
    fn new(found: Found, cache_bytes: usize) -> Result<Shared> {
        let writer = Writer {
            space: None,
            known_free: None,
            reclaiming: Reclaiming::default(),
            durable: None,
            needs_rewrite: false,
            slot: found.slot,
            slot_durable: false,
            since_slot: 0,
            since_sync: 0,
            written_frame_bytes: 0,
            moved_bytes: 0,
            epoch: densite_disk::random::random_u64()?,
            last_attempt: found.state.highest,
            header_lost: found.header_lost,
            wrote: false,
            last_dict: 0,
            first_dict: u32::MAX,
            physical_len: 0,
            learner: Learner::new(),
            trained: false,
        };
        Ok(Shared {
            salt: found.salt,
            state: RwLock::new(found.state),
            nodes: NodeCache::default(),
            indexes: Indexes::default(),
            cache: Arc::new(Cache::new(cache_bytes)),
            dicts: Mutex::new(HashMap::new()),
            writer: Mutex::new(writer),
            preencoded: Arc::default(),
            overwritten: AtomicBool::new(false),
        })
    }

    /// The shared part of the file behind `file`, opened by this process before or now; `None` while the file is empty.
    pub(crate) fn attach(
        file: &dyn File,
        identity: &str,
        cache_bytes: usize,
    ) -> Result<Option<Arc<Shared>>> {
        let Some(found) = recover::find(file)? else {
            return Ok(None);
        };
        let key = (identity.to_owned(), found.salt, densite_disk::process::id());
        // In a child of fork the lock may be held for ever by a thread that does not exist: do without sharing then (rule 15).
        let Some(mut registry) = REGISTRY.try_lock_for(Duration::from_secs(2)) else {
            return Ok(Some(Arc::new(Shared::new(found, cache_bytes)?)));
        };
        let registry = registry.get_or_insert_with(HashMap::new);
        registry.retain(|k, v| k.2 != densite_disk::process::id() || v.strong_count() > 0);
        let known = registry.get(&key).and_then(Weak::upgrade);
        if let Some(shared) = known.filter(|shared| !shared.is_overwritten()) {
            return Ok(Some(shared));
        }
        let shared = Arc::new(Shared::new(found, cache_bytes)?);
        registry.insert(key, Arc::downgrade(&shared));
        Ok(Some(shared))
    }

    /// What is needed to load map nodes through `file`.
    pub(crate) fn source<'a>(&'a self, file: &'a dyn File) -> Source<'a> {
        Source {
            file,
            salt: self.salt,
            cache: &self.nodes,
        }
    }

    /// What is needed to load the space table through `file`.
    pub(crate) fn table_source<'a>(&'a self, file: &'a dyn File) -> table::Source<'a> {
        table::Source {
            file,
            salt: self.salt,
            indexes: &self.indexes,
        }
    }

    /// The map and the space table are read from the file again.
    pub(crate) fn forget_nodes(&self) {
        self.nodes.clear();
        self.indexes.clear();
    }

    fn is_overwritten(&self) -> bool {
        self.overwritten.load(Ordering::Acquire)
    }

    /// Makes sure that the state is that of the newest published commit. Returns whether it changed.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`]; [`Error::Overwritten`], from then on.
    pub(crate) fn refresh(&self, file: &dyn File) -> Result<bool> {
        if self.is_overwritten() {
            return Err(Error::Overwritten);
        }
        let raw = read_tip(file)?;
        if self.state.read().tip_raw == raw {
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
            if raw == state.tip_raw {
                return Ok(true);
            }
            match Tip::decode(&raw, self.salt) {
                Some(tip) if tip == state.tip => {
                    state.tip_raw = raw;
                    return Ok(true);
                }
                Some(tip) => match self.follow(file, &mut state, &tip) {
                    Ok(()) => {
                        state.tip_raw = raw;
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
                // Seen half written, or damaged. If it stays so, what is whole behind our commit counts.
                None if attempt > 20 => {
                    while let Some((tip, trailer)) =
                        chain::next_commit(file, self.salt, &state.tip, state.next_off)?
                    {
                        state.apply(tip, &trailer);
                    }
                    state.tip_raw = raw;
                    return Ok(true);
                }
                None => {}
            }
            std::thread::sleep(Duration::from_micros(u64::from(attempt) * 20));
        }
        Err(Error::Corrupt(problem.unwrap_or_else(|| Damage {
            what: "tip".to_owned(),
            offset: TIP_OFF,
            page: None,
            problem: "it changes faster than it can be followed".to_owned(),
        })))
    }

    /// Goes on to the commit of `tip`, from our own if it is among its ancestors.
    fn follow(&self, file: &dyn File, state: &mut State, tip: &Tip) -> Result<()> {
        let mut back = Vec::new();
        let ours = state.tip;
        let met = recover::walk_back(file, self.salt, tip, &mut back, &mut |at| *at == ours)?;
        if met {
            for (tip, trailer) in back.iter().rev() {
                self.account(file, state, tip, trailer)?;
                state.apply(*tip, trailer);
            }
            return Ok(());
        }
        match lineage::of(file, self.salt, &ours, tip, &back)? {
            Lineage::Ours(since) => self.account_over_fold(file, &ours, &since)?,
            Lineage::Another => return Err(Error::Overwritten),
            Lineage::Unknown => self.forget_contents(),
        }
        let highest = state.highest;
        *state = State::empty(self.salt);
        state.highest = highest;
        for (tip, trailer) in back.iter().rev() {
            state.apply(*tip, trailer);
        }
        Ok(())
    }

    /// Keeps the accounting in step with a commit of another process, so that places freed earlier can be used again although
    /// several processes write by turns.
    fn account(&self, file: &dyn File, state: &State, tip: &Tip, trailer: &Trailer) -> Result<()> {
        let Some(mut writer) = self.writer.try_lock() else {
            return Ok(());
        };
        let end = file.len()?;
        let since = [(*tip, trailer.pieces.clone())];
        let Some((at, mut space)) = writer.space.take().filter(|(at, _)| *at == state.tip) else {
            if let Some((at, known)) = writer.known_free.take().filter(|(at, _)| *at == state.tip) {
                writer.keep_known_free(known, &at, &since, end);
            }
            return Ok(());
        };
        let inside = trailer
            .deltas
            .iter()
            .all(|(_, e)| e.off + u64::from(e.len) <= end)
            && trailer
                .dicts
                .iter()
                .all(|d| d.place.off + u64::from(d.place.len) <= end)
            && trailer.pieces.iter().all(|p| p.1 <= end);
        if !inside {
            // Some of it was moved since, and the end of the file cut off.
            writer.keep_known_free(space.into_reuse(), &at, &since, end);
            return Ok(());
        }
        for (page, new) in &trailer.deltas {
            let old = self.lookup(file, state, *page)?;
            space.sub_entry(&old, tip.commit);
            space.add_entry(new);
        }
        for d in &trailer.dicts {
            space.add(d.place.off, u64::from(d.place.len));
        }
        space.add(tip.off, u64::from(tip.len));
        if trailer.room_end != state.room_end {
            // The other process has left the rest of an extent. If this process took that extent, no list of free units has the rest. If the other process has
            // put it aside, it gives that up with the next commit that is not its own.
            space.give_back_extents(&[state.current_extent()], tip.commit);
        }
        space.written(&trailer.pieces, tip.commit);
        space.forget_lanes(tip.commit);
        let bytes: u64 = trailer
            .pieces
            .iter()
            .map(|(a, b)| b.saturating_sub(*a))
            .sum();
        writer.since_slot += bytes;
        writer.since_sync += bytes;
        writer.space = Some((*tip, space));
        Ok(())
    }

    /// A fold elsewhere cannot be followed: the accounting is loaded anew. But which units were free is known, and where was written since
    /// stands in the trailers, those from before the fold included.
    fn account_over_fold(
        &self,
        file: &dyn File,
        ours: &Tip,
        since: &[(Tip, Vec<(u64, u64)>)],
    ) -> Result<()> {
        let Some(mut writer) = self.writer.try_lock() else {
            return Ok(());
        };
        let known = match (writer.space.take(), writer.known_free.take()) {
            (Some((at, space)), _) if at == *ours => space.into_reuse(),
            (_, Some((at, known))) if at == *ours => known,
            _ => return Ok(()),
        };
        writer.keep_known_free(known, ours, since, file.len()?);
        Ok(())
    }

    /// Nothing proves that what was read before is of the same contents.
    fn forget_contents(&self) {
        self.forget_nodes();
        self.cache.clear();
        self.dicts.lock().clear();
        self.preencoded.forget();
    }

    fn note_overwritten(&self, error: &Error) {
        if matches!(error, Error::Overwritten) {
            self.overwritten.store(true, Ordering::Release);
        }
    }

    /// The published entry of a page (1 is the first).
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`].
    pub(crate) fn lookup(&self, file: &dyn File, state: &State, page: u32) -> Result<Entry> {
        let entry = match state.overlay.get(&page) {
            Some(e) => *e,
            None if state.root.node.is_none() || page == 0 => return Ok(Entry::NONE),
            None => tree::lookup(self.source(file), state.root, u64::from(page) - 1)?,
        };
        if entry.is_none() || entry.fits(page, state.page_size as usize) {
            return Ok(entry);
        }
        let problem = "its entry is out of range".to_owned();
        Err(Error::Corrupt(Damage {
            what: "page map".to_owned(),
            offset: entry.off,
            page: Some(page),
            problem,
        }))
    }

    /// A dictionary by its number.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`] if there is none of that number or it is damaged.
    pub(crate) fn dictionary(
        &self,
        file: &dyn File,
        state: &State,
        id: u32,
    ) -> Result<Arc<Dictionary>> {
        if let Some(d) = self.dicts.lock().get(&id) {
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
            .dicts
            .iter()
            .find(|d| d.id == id)
            .ok_or_else(|| damage(0, "no commit knows it"))?;
        let mut bytes = vec![0; info.place.len as usize];
        let n = file.read_at(&mut bytes, info.place.off)?;
        let record = bytes
            .get(..n)
            .and_then(|b| Record::open(b, self.salt, info.place.off));
        let (record, _, payload) =
            record.ok_or_else(|| damage(info.place.off, "checksum mismatch"))?;
        if record.kind != Kind::Dictionary || record.number != id {
            return Err(damage(info.place.off, "another record lies there"));
        }
        let dict = Arc::new(Dictionary::new(id, CodecId(record.codec), payload.to_vec()));
        self.dicts.lock().insert(id, Arc::clone(&dict));
        Ok(dict)
    }

    /// The same, from the file even if it is known already.
    pub(crate) fn reread_dictionary(
        &self,
        file: &dyn File,
        state: &State,
        id: u32,
    ) -> Result<Arc<Dictionary>> {
        self.dicts.lock().remove(&id);
        self.dictionary(file, state, id)
    }

    /// A dictionary that was read or made by this process.
    pub(crate) fn known_dictionary(&self, id: u32) -> Option<Arc<Dictionary>> {
        self.dicts.lock().get(&id).cloned()
    }

    /// Makes a dictionary known before any commit names it. If none ever does, it is to be forgotten.
    pub(crate) fn add_dictionary(&self, dict: &Arc<Dictionary>) {
        self.dicts.lock().insert(dict.id(), Arc::clone(dict));
    }

    /// Forgets a dictionary whose commit was given up: other processes do not know of it, and one of them may give its number to
    /// another.
    pub(crate) fn forget_dictionary(&self, id: u32) {
        self.dicts.lock().remove(&id);
    }
}

type Registry = HashMap<(String, u64, u32), Weak<Shared>>;

/// Open files of this process, by identity, salt and process id. The salt is part of the key because a file may be replaced by another
/// one of the same name, the process id because a child of fork must not touch what belongs to its parent.
static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

/// The bytes of the tip block; zeros where the file is shorter.
pub(crate) fn read_tip(file: &dyn File) -> Result<[u8; TIP_LEN]> {
    let mut raw = [0; TIP_LEN];
    file.read_at(&mut raw, TIP_OFF)?;
    Ok(raw)
}

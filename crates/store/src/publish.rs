//! Publishing: the pending writes become one commit, seen by everyone; and making it durable.
//!
//! 1. All pages are encoded and appended as frames.
//! 2. The accounting goes on to this commit; from time to time the map is folded into new nodes.
//! 3. The trailer is written behind them, and then the tip. Before the tip nobody sees the commit, after it everybody does.
//!
//! A failure before the tip leaves the published state as it was; the same writes may be published again.
//! One data sync in [`Handle::sync`] makes the commit durable. Publishing itself syncs only when nobody else did for long
//! (`Handle::sync_and_name`).

use crate::again;
use crate::append::Appender;
use crate::codec;
use crate::error::{Error, Result};
use crate::format::record::{Kind, RECORD_LEN, Record};
use crate::format::slot::{CLEAN, Slot};
use crate::format::tip::Tip;
use crate::format::trailer::{DictInfo, OPEN_END, RootSection, Trailer, payload_len};
use crate::format::{FORMAT_VERSION, SLOT_COPY, SLOT_OFF, TIP_OFF};
use crate::handle::Handle;
use crate::map::tree::{self, Sink};
use crate::map::{Entry, NodeRef, Root};
use crate::options::{CodecChoice, Tuning};
use crate::pending::{Pending, PendingPage};
use crate::shared::{Shared, Writer};
use crate::space::{CHUNK_UNITS, Space};
use crate::state::State;
use densite_disk::{File, SyncKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Handle {
    /// All pending writes become visible to everyone, at once and together.
    ///
    /// # Errors
    /// I/O, a full disk: nobody saw anything; the call may be made again or the writes [discarded](Handle::discard).
    pub fn publish(&mut self) -> Result<()> {
        self.publish_with(&Besides::default()).map(drop)
    }

    /// Returns the bytes that were appended.
    pub(crate) fn publish_with(&mut self, besides: &Besides) -> Result<u64> {
        self.check_poison()?;
        if self.pending.is_none() {
            return Ok(0);
        }
        let done = self.try_publish(besides);
        if done.is_err() {
            if let Some(p) = &mut self.pending {
                p.pressed = true;
            }
            if let Some(shared) = &self.shared {
                let mut writer = shared.writer.lock();
                // It may have gone on to a commit that is none.
                writer.space = None;
                writer.chunk_sums.clear();
                writer.epoch = writer
                    .epoch
                    .wrapping_add(densite_disk::random::random_u64().unwrap_or(1) | 1);
            }
        }
        done
    }

    fn try_publish(&mut self, besides: &Besides) -> Result<u64> {
        self.finish_batches()?;
        self.regrain()?;
        let shared = self.shared()?;
        {
            let mut writer = shared.writer.lock();
            let state = shared.state.read();
            writer.account(&shared, &*self.file, &state)?;
        }
        let Some(p) = &mut self.pending else {
            return Ok(0);
        };
        let mut writer = shared.writer.lock();
        let written = commit(
            &shared,
            &mut writer,
            &*self.file,
            p,
            besides,
            &self.options.tuning,
        )?;
        self.pending = None;
        if written > 0 {
            let due = writer.since_sync >= self.options.tuning.self_sync_every_bytes;
            drop(writer);
            if due {
                self.sync_and_name(&shared)?;
            }
        }
        Ok(written)
    }

    /// Publishes, then makes everything published durable.
    ///
    /// # Errors
    /// As [`Handle::publish`]; if the sync fails, the handle answers [`Error::Poisoned`] until the file is opened again.
    pub fn sync(&mut self, kind: SyncKind) -> Result<()> {
        self.publish()?;
        self.sync_now(kind)
    }

    pub(crate) fn sync_now(&mut self, kind: SyncKind) -> Result<()> {
        self.check_poison()?;
        let Some(shared) = self.shared.clone() else {
            return self.file.sync(kind).map_err(|e| self.poison(e));
        };
        let tip = shared.state.read().tip;
        if !self.options.read_only {
            let mut writer = shared.writer.lock();
            writer.slot_if_due(&*self.file, self.options.tuning.slot_every_bytes)?;
        }
        self.file
            .sync(kind)
            .map_err(|e| self.sync_failed(&shared, e))?;
        shared.writer.lock().synced(tip, &shared);
        Ok(())
    }

    /// Makes everything published durable and names it in a durable slot, so that what it freed can be written again at once
    /// (rule 9). Two syncs, where nobody else does any.
    pub(crate) fn sync_and_name(&mut self, shared: &Shared) -> Result<()> {
        let tip = shared.state.read().tip;
        // A slot that another process wrote becomes durable with the first sync.
        shared.writer.lock().reread_slot(&*self.file)?;
        for first in [true, false] {
            self.file
                .sync(SyncKind::Data)
                .map_err(|e| self.sync_failed(shared, e))?;
            let mut writer = shared.writer.lock();
            writer.synced(tip, shared);
            if first {
                if writer.slot.1.tip == tip {
                    break;
                }
                writer.write_slot(&*self.file, tip, 0)?;
            }
        }
        Ok(())
    }

    /// Whoever goes on after this must not build upon what the disk has dropped: see `again`.
    pub(crate) fn sync_failed(&mut self, shared: &Shared, e: densite_disk::Error) -> Error {
        if !self.options.read_only {
            let tip = shared.state.read().tip;
            // If that fails too, the disk takes nothing any more and no sync will succeed over what is missing.
            let _ = again::write_again(&*self.file, shared.salt, &tip);
        }
        self.poison(e)
    }

    fn poison(&mut self, e: densite_disk::Error) -> Error {
        self.poisoned = true;
        e.into()
    }

    /// Whether this process published something that no slot names yet.
    pub fn unslotted(&self) -> bool {
        let Some(shared) = &self.shared else {
            return false;
        };
        let writer = shared.writer.lock();
        writer.wrote
            && !self.poisoned
            && (writer.slot.1.tip != shared.state.read().tip || writer.slot.1.flags & CLEAN == 0)
    }

    /// Names the newest commit in a slot, and cuts the reserve off the end of the file. The caller has the writer's right. If the
    /// commit is durable already, this costs no sync: should a power cut lose the slot, recovery finds the
    /// commit from the slot before.
    ///
    /// # Errors
    /// As [`Handle::sync`].
    pub fn close_clean(&mut self) -> Result<()> {
        self.publish()?;
        if self.options.read_only || !self.attach()? {
            return Ok(());
        }
        let shared = self.shared()?;
        shared.refresh(&*self.file)?;
        let (tip, trailers) = {
            let state = shared.state.read();
            (state.tip, state.trailer_bytes())
        };
        if tip.commit == 0 {
            return Ok(());
        }
        let mut durable = shared.writer.lock().durable == Some(tip);
        if !durable && trailers > self.options.tuning.fold_trailer_bytes / 16 {
            self.begin_write(0)?;
            self.publish_with(&Besides {
                fold: true,
                ..Besides::default()
            })?;
        }
        let mut writer = shared.writer.lock();
        writer.reread_slot(&*self.file)?;
        let tip = shared.state.read().tip;
        if writer.slot.1.tip == tip && writer.slot.1.flags & CLEAN != 0 {
            return Ok(());
        }
        durable &= writer.slot_durable;
        if !durable {
            drop(writer);
            self.file
                .sync(SyncKind::Data)
                .map_err(|e| self.sync_failed(&shared, e))?;
            writer = shared.writer.lock();
            writer.synced(tip, &shared);
        }
        writer.write_slot(&*self.file, tip, CLEAN)?;
        let end = shared.state.read().tail_off;
        if self.file.len()? > end {
            self.file.set_len(end)?;
            writer.physical_len = end;
        }
        Ok(())
    }

    /// If page 1 says that pages have another size than the store's (VACUUM with a new page size, or a first write that was no page), all
    /// pages are written again in that size, within the same commit.
    fn regrain(&mut self) -> Result<()> {
        let Some(p) = &self.pending else {
            return Ok(());
        };
        let new = sqlite_page_size(&p.head);
        if new == 0 || new == p.page_size || p.logical_len == 0 {
            return Ok(());
        }
        let old_size = u64::from(p.page_size);
        let len = p.logical_len;
        let mut fresh = BTreeMap::new();
        // Bounded: pages are encoded and appended as they come, the new entries collect in a second set.
        let mut buf = vec![0; new as usize];
        for page in 1..=len.div_ceil(u64::from(new)) {
            let start = (page - 1) * u64::from(new);
            let n = usize::try_from((len - start).min(u64::from(new))).unwrap_or(0);
            self.read_at(buf.get_mut(..n).unwrap_or_default(), start)?;
            buf.get_mut(n..).unwrap_or_default().fill(0);
            if start > 0 && buf.iter().all(|b| *b == 0) && !self.has_frame(start / old_size + 1)? {
                continue;
            }
            let entry = self.append_page(page as u32, new, &buf)?;
            fresh.insert(page as u32, PendingPage::Stored(entry));
        }
        let Some(p) = &mut self.pending else {
            return Ok(());
        };
        p.pages = fresh.into_iter().collect();
        p.page_size = new;
        // Of the published pages, which had another size, nothing is to be seen any more.
        p.visible = 0;
        Ok(())
    }

    fn has_frame(&self, page: u64) -> Result<bool> {
        let (Some(p), Ok(page)) = (&self.pending, u32::try_from(page)) else {
            return Ok(false);
        };
        if p.pages.contains_key(&page) {
            return Ok(true);
        }
        let shared = self.shared()?;
        let state = shared.state.read();
        Ok(u64::from(page) <= p.visible && !shared.lookup(&*self.file, &state, page)?.is_none())
    }
}

/// The page size that the first bytes of a SQLite database give; 0 if they do not.
fn sqlite_page_size(head: &[u8]) -> u32 {
    let magic = head.starts_with(b"SQLite format 3\0");
    match head.get(16..18) {
        Some([0, 1]) if magic => 65536,
        Some([hi, lo]) if magic => {
            let n = u32::from(*hi) << 8 | u32::from(*lo);
            if n.is_power_of_two() && n >= 512 {
                n
            } else {
                0
            }
        }
        _ => 0,
    }
}

/// What a commit does besides taking over what was written.
#[derive(Default)]
pub(crate) struct Besides {
    /// Fold the map.
    pub(crate) fold: bool,
    /// Be a commit even if nothing changed: its trailer tells a new end of the file.
    pub(crate) even_empty: bool,
    /// Space is given back: what was written is what was there before, in other places.
    pub(crate) merge: bool,
    /// With a fold: the leaf of the page with this index (0 is page 1) is written anew, and all nodes above it.
    pub(crate) leaves: BTreeSet<u64>,
    /// With a fold: these dictionaries are written anew.
    pub(crate) dicts: BTreeMap<u32, (Record, Vec<u8>)>,
    /// With a fold: these chunks of the space table are written anew.
    pub(crate) chunks: BTreeSet<usize>,
}

/// Makes the commit. Returns the bytes it has appended; 0 if there was nothing to commit.
fn commit(
    shared: &Arc<Shared>,
    writer: &mut Writer,
    file: &dyn File,
    p: &mut Pending,
    besides: &Besides,
    tuning: &Tuning,
) -> Result<u64> {
    let state = shared.state.read().clone_for_commit();
    let Some((_, mut space)) = writer.space.take() else {
        return Ok(0);
    };
    let deltas = deltas(shared, file, &state, p)?;
    let same = p.logical_len == state.logical_len
        && p.page_size == state.page_size
        && p.head == state.head;
    let nothing = deltas.is_empty() && p.new_dicts.is_empty() && same;
    if nothing && !besides.fold && !besides.even_empty {
        space.give_back_extents(p.appender.taken(), p.commit);
        writer.space = Some((state.tip, space));
        return Ok(0);
    }
    {
        let now = shared.state.read();
        for (page, new) in &deltas {
            space.sub_entry(&shared.lookup(file, &now, *page)?, p.commit);
            space.add_entry(new);
        }
    }
    for d in &p.new_dicts {
        space.add(d.place.off, u64::from(d.place.len));
    }
    let fold = besides.fold
        || deltas.len() > tuning.fold_deltas
        || state.overlay_len + deltas.len() > tuning.fold_entries
        || state.trailer_bytes > tuning.fold_trailer_bytes;
    let mut trailer = Trailer {
        commit: p.commit,
        epoch: writer.epoch,
        page_size: p.page_size,
        logical_len: p.logical_len,
        next_off: 0,
        room_end: 0,
        tail_off: 0,
        prev: state.tip,
        head: p.head,
        root: None,
        pieces: Vec::new(),
        dicts: Vec::new(),
        deltas,
    };
    let mut sums = None;
    if fold {
        sums = Some(fold_map(
            shared,
            writer,
            file,
            p,
            &mut space,
            &mut trailer,
            besides,
        )?);
    } else {
        trailer.dicts.clone_from(&p.new_dicts);
    }
    let appender = &mut p.appender;
    let chunks = trailer.root.as_ref().map(|r| r.chunks.len());
    // Making room may add a jump and so a piece: there is one more counted than there may be.
    let most = payload_len(
        chunks,
        appender.pieces_with(0).len() + 1,
        trailer.dicts.len(),
        trailer.deltas.len(),
    );
    appender.make_room(&mut space, (RECORD_LEN + most) as u64, p.commit)?;
    let pieces = appender.pieces_with(0).len();
    let len = (RECORD_LEN + payload_len(chunks, pieces, trailer.dicts.len(), trailer.deltas.len()))
        as u64;
    let off = appender.pos();
    trailer.pieces = appender.pieces_with(len);
    trailer.next_off = off + len;
    trailer.room_end = appender.room_end();
    trailer.tail_off = if trailer.room_end == OPEN_END {
        appender.tail_off().max(off + len)
    } else {
        appender.tail_off()
    };
    let mut payload = trailer.encode();
    let hash = appender.chain().finish(&payload);
    payload.extend_from_slice(&hash);
    let mut record = Vec::new();
    Record::plain(Kind::Trailer, 0, p.commit).put(&payload, shared.salt, off, &mut record);
    debug_assert_eq!(record.len() as u64, len);
    writer.keep_reserve(file, trailer.tail_off)?;
    appender.flush_with(file, &record)?;
    let tip = Tip {
        commit: p.commit,
        off,
        len: len as u32,
        hash,
    };
    let raw = tip.encode(shared.salt);
    file.write_at(&raw, TIP_OFF)?;
    // From here on the commit is everybody's.
    space.add(off, len);
    space.written(&trailer.pieces, p.commit);
    space.give_back_extents(appender.left(), p.commit);
    let written = appender.written() + len;
    {
        let mut now = shared.state.write();
        // Another thread may have seen the tip already, and followed.
        if now.tip != tip {
            now.apply(tip, &trailer);
        }
        now.tip_raw = raw;
    }
    writer.space = Some((tip, space));
    if let Some(sums) = sums {
        writer.chunk_sums = sums;
    }
    writer.wrote = true;
    writer.since_slot += written;
    writer.since_sync += written;
    if !besides.merge {
        writer.written_frame_bytes += p.appender.frame_bytes();
    }
    writer.physical_len = writer.physical_len.max(trailer.tail_off);
    writer.merging.committed(besides.merge);
    Ok(written)
}

/// A slot is due when this part of the file was appended since the last one, and so many bytes; or as many as the tuning says.
const SLOT_PART: u64 = 16;
const SLOT_LEAST: u64 = 128 << 10;

/// Bytes kept written behind the end.
pub(crate) fn reserve_behind(tail: u64) -> u64 {
    (tail / 8).clamp(16 << 10, 256 << 10)
}

/// The map's changes: written pages, and pages that were cut off.
fn deltas(
    shared: &Shared,
    file: &dyn File,
    state: &CommitBase,
    p: &Pending,
) -> Result<Vec<(u32, Entry)>> {
    let stored = |(page, w): (&u32, &PendingPage)| match w {
        PendingPage::Stored(e) => Some((*page, *e)),
        PendingPage::Raw { .. } => None,
    };
    let mut deltas: Vec<(u32, Entry)> = p.pages.iter().filter_map(stored).collect();
    let now = shared.state.read();
    for page in p.visible + 1..=state.pages {
        let Ok(page) = u32::try_from(page) else { break };
        if !p.pages.contains_key(&page) && !shared.lookup(file, &now, page)?.is_none() {
            deltas.push((page, Entry::NONE));
        }
    }
    deltas.sort_unstable_by_key(|d| d.0);
    Ok(deltas)
}

/// What of the state a commit builds upon.
struct CommitBase {
    tip: Tip,
    logical_len: u64,
    page_size: u32,
    head: [u8; crate::format::trailer::HEAD_LEN],
    pages: u64,
    overlay_len: usize,
    trailer_bytes: u64,
}

impl State {
    fn clone_for_commit(&self) -> CommitBase {
        CommitBase {
            tip: self.tip,
            logical_len: self.logical_len,
            page_size: self.page_size,
            head: self.head,
            pages: self.pages(),
            overlay_len: self.overlay.len(),
            trailer_bytes: self.trailer_bytes(),
        }
    }
}

/// Appends nodes for a fold and keeps the accounting.
struct FoldSink<'a> {
    appender: &'a mut Appender,
    space: &'a mut Space,
    commit: u64,
}

impl Sink for FoldSink<'_> {
    fn append(&mut self, record: Record, payload: &[u8]) -> Result<NodeRef> {
        self.appender
            .make_room(self.space, (RECORD_LEN + payload.len()) as u64, self.commit)?;
        let place = self.appender.push(record, payload);
        self.space.add(place.off, u64::from(place.len));
        Ok(place)
    }

    fn drop_node(&mut self, place: NodeRef) {
        self.space.sub(place.off, u64::from(place.len), self.commit);
    }
}

/// Folds overlay and deltas into new map nodes, writes the accounting, and makes the trailer a root trailer. Returns hashes of the chunks.
fn fold_map(
    shared: &Shared,
    writer: &Writer,
    file: &dyn File,
    p: &mut Pending,
    space: &mut Space,
    trailer: &mut Trailer,
    besides: &Besides,
) -> Result<Vec<u64>> {
    let now = shared.state.read();
    let mut changes: BTreeMap<u64, Entry> = now
        .overlay
        .iter()
        .map(|(page, e)| (u64::from(*page) - 1, *e))
        .collect();
    changes.extend(
        trailer
            .deltas
            .drain(..)
            .map(|(page, e)| (u64::from(page) - 1, e)),
    );
    for index in &besides.leaves {
        if let std::collections::btree_map::Entry::Vacant(unchanged) = changes.entry(*index) {
            unchanged.insert(tree::lookup(shared.source(file), now.root, *index)?);
        }
    }
    let changes: Vec<(u64, Entry)> = changes.into_iter().collect();
    let commit = p.commit;
    let mut sink = FoldSink {
        appender: &mut p.appender,
        space,
        commit,
    };
    let map: Root = tree::fold(shared.source(file), now.root, &changes, commit, &mut sink)?;
    for (off, len) in &now.trailers {
        space.sub(*off, u64::from(*len), commit);
    }
    // Dictionaries that no frame uses retire; their numbers are not used again. What this process has learned may wait for its family's
    // first page, as in a copy of a database whose tables come one after the other.
    let all: Vec<DictInfo> = now.dicts.iter().chain(&p.new_dicts).copied().collect();
    for d in &all {
        let uses = space.dict_uses.get(&d.id).copied().unwrap_or(0);
        let newest = all.iter().all(|n| n.family != d.family || n.id <= d.id);
        if uses > 0 || newest && d.id >= writer.first_dict {
            let mut place = d.place;
            if let Some((record, payload)) = besides.dicts.get(&d.id) {
                let mut sink = FoldSink {
                    appender: &mut p.appender,
                    space,
                    commit,
                };
                place = sink.append(*record, payload)?;
                sink.drop_node(d.place);
            }
            trailer.dicts.push(DictInfo {
                uses: u64::try_from(uses).unwrap_or(0),
                place,
                ..*d
            });
        } else {
            space.sub(d.place.off, u64::from(d.place.len), commit);
            space.dict_uses.remove(&d.id);
        }
    }
    let next_dict = now
        .next_dict()
        .max(p.new_dicts.iter().map(|d| d.id + 1).max().unwrap_or(1));

    // The table as stored leaves out what its loader adds: the preamble, the chunks themselves, trailers.
    let mut table = space.clone();
    table.sub_fixed();
    for (place, _) in &now.section.chunks {
        table.sub(place.off, u64::from(place.len), commit);
    }
    let mut chunks = Vec::new();
    let mut sums = Vec::new();
    for i in 0..(table.units() as usize).div_ceil(CHUNK_UNITS) {
        let raw = table.chunk(i);
        let sum = xxhash_rust::xxh3::xxh3_64(&raw);
        sums.push(sum);
        let old = now.section.chunks.get(i);
        if let Some((place, _)) = old
            && writer.chunk_sums.get(i) == Some(&sum)
            && !besides.chunks.contains(&i)
        {
            chunks.push((*place, table.chunk_free(i)));
            continue;
        }
        let mut payload = Vec::new();
        let coded = codec::encode(&raw, 1, None, CodecChoice::Zstd, &mut payload);
        let record = Record {
            codec: coded.codec.0,
            ..Record::plain(Kind::Space, i as u32, commit)
        };
        let mut sink = FoldSink {
            appender: &mut p.appender,
            space,
            commit,
        };
        let place = sink.append(record, &payload)?;
        if let Some((old, _)) = old {
            sink.drop_node(*old);
        }
        chunks.push((place, table.chunk_free(i)));
    }
    for (old, _) in now.section.chunks.iter().skip(chunks.len()) {
        space.sub(old.off, u64::from(old.len), commit);
    }
    trailer.root = Some(RootSection {
        map,
        next_dict,
        units: table.units(),
        chunks,
    });
    Ok(sums)
}

impl Writer {
    /// After a sync: `tip` is durable, and so is the newest slot.
    fn synced(&mut self, tip: Tip, shared: &Shared) {
        self.durable = Some(tip);
        self.since_sync = 0;
        self.slot_is_durable(shared);
    }

    /// A sync followed the newest slot.
    pub(crate) fn slot_is_durable(&mut self, shared: &Shared) {
        self.slot_durable = true;
        let current = shared.state.read().current_extent();
        let named = self.slot.1.tip.commit;
        if let Some((_, space)) = &mut self.space {
            space.slot_durable(named, current);
        }
    }

    /// Writes a slot that names the newest durable commit, if enough was appended since the last one and that one is durable.
    /// The sync that follows makes it durable too, so it costs none.
    fn slot_if_due(&mut self, file: &dyn File, every_bytes: u64) -> Result<()> {
        let Some(durable) = self.durable else {
            return Ok(());
        };
        // What is freed waits for two slots, so in a small file they come more often: else more would wait than lives.
        let often = (self.physical_len / SLOT_PART).max(SLOT_LEAST);
        let every_bytes = every_bytes.min(often);
        // The slot of the creation names the empty store; damage behind it must not make the file empty again (rule 7).
        let early = self.since_slot < every_bytes && self.slot.1.tip.commit != 0;
        if early || !self.slot_durable {
            return Ok(());
        }
        self.reread_slot(file)?;
        if self.slot_durable && durable.commit > self.slot.1.tip.commit {
            self.write_slot(file, durable, 0)?;
        }
        Ok(())
    }

    /// Another process may have written a newer slot, which then is not known to be durable.
    pub(crate) fn reread_slot(&mut self, file: &dyn File) -> Result<()> {
        if let Some(slot) = crate::recover::read_slot(file)?
            && slot.1.seq != self.slot.1.seq
        {
            self.slot = slot;
            self.slot_durable = false;
        }
        Ok(())
    }

    /// Writes both copies of a slot, over the older of the two.
    pub(crate) fn write_slot(&mut self, file: &dyn File, tip: Tip, flags: u32) -> Result<()> {
        let (block, old) = self.slot;
        let slot = Slot {
            version: FORMAT_VERSION,
            seq: old.seq + 1,
            salt: old.salt,
            tip,
            flags,
        };
        let block = 1 - block.min(1);
        let mut bytes = slot.encode();
        bytes.resize(SLOT_COPY as usize, 0);
        bytes.extend_from_slice(&slot.encode());
        file.write_at(&bytes, if block == 0 { SLOT_OFF[0] } else { SLOT_OFF[1] })?;
        self.slot = (block, slot);
        self.slot_durable = false;
        self.since_slot = 0;
        Ok(())
    }

    /// Keeps some written bytes behind `tail`, the end after this commit, so that a full disk still takes the checkpoint of a
    /// DELETE (rule 11). Before anything of the commit is written: a failure is then nobody's.
    ///
    /// # Errors
    /// I/O; a disk that is full already is none.
    fn keep_reserve(&mut self, file: &dyn File, tail: u64) -> Result<()> {
        let reserve = reserve_behind(tail);
        if self.physical_len >= tail + reserve / 2 {
            return Ok(());
        }
        // A process that was killed may have left its reserve.
        let from = self.physical_len.max(tail).max(file.len()?);
        let end = tail + reserve;
        let lock = crate::format::LOCK_UNIT * crate::format::UNIT_LEN;
        let crosses_lock = from < lock + crate::format::UNIT_LEN && end > lock;
        if from < end && !crosses_lock {
            let zeros = vec![0; usize::try_from(end - from).unwrap_or(0)];
            match file.write_at(&zeros, from) {
                Err(e) if e.kind == densite_disk::ErrorKind::Full => return Ok(()),
                done => done?,
            }
        }
        self.physical_len = from.max(end);
        Ok(())
    }
}

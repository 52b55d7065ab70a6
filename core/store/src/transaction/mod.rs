//! The writes of a handle that are not published yet.
//!
//! They begin a commit on top of the newest one, with that commit's space accounting; an empty file
//! first becomes a store without pages. Pages are held while they can change again (`written`).
//! Then the pool encodes them in batches (`write`), and their frames are appended in order
//! (`frames`). So a bulk load takes bounded memory, however large it is: only the entry of each page
//! stays.

mod change_page_size;
mod frames;
mod moved;
mod supersede;
mod train;
mod undo;
mod write;
mod written;

use crate::append::Appender;
use crate::attempt;
use crate::bytes::copy_part;
use crate::codec::family::Family;
use crate::connection::Connection;
use crate::encode::{DEFAULT_PAGE, Frame, RESERVED_AT};
use crate::error::{Damage, Error, Result};
use crate::format::entry::Entry;
use crate::format::header::Header;
use crate::format::slot::Slot;
use crate::format::tip::{TIP_LEN, Tip};
use crate::format::trailer::{DictInfo, HEAD_LEN, Learned};
use crate::format::{
    DATA_OFF, FORMAT_VERSION, HEADER_OFF, MAX_COMMIT, SLOT_COPY, SLOT_OFF, TIP_OFF,
};
use crate::frame::{self, page_of};
use crate::options::CodecChoice;
use crate::pages::read_pages;
use crate::pool::Task;
use crate::reader::Part;
use crate::shared::Shared;
use crate::state::{State, first_hash};
use densite_disk::{File, SyncKind};
use frames::{HeldBack, is_new};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use written::{Held, Page, Written};

/// The open end can begin beyond the end of the file, by less than this: free units at the end may
/// not have been written.
const TAIL_SLACK: u64 = 64 << 20;

/// The writes of one handle since it last published.
pub(crate) struct Transaction {
    pages: Written,
    /// The tip block at the begin.
    tip_before: [u8; TIP_LEN],
    /// The last attempt to publish this, if it was not published and may be whole in the file: see
    /// `attempt`.
    tried: Option<Tip>,
    page_size: u32,
    logical_len: u64,
    /// Only published pages up to this number are still visible, because the database was cut to
    /// this length.
    visible: u64,
    head: [u8; HEAD_LEN],
    learned: Learned,
    inflight: VecDeque<Task<Vec<Frame>>>,
    appender: Appender,
    /// The number that the commit will have, and the version of its frames.
    commit: u64,
    seq: u64,
    new_dicts: Vec<DictInfo>,
    /// Those of them that pages are not encoded with any more.
    superseded: HashSet<u32>,
    /// How many pages were appended with each dictionary or model.
    dict_uses: HashMap<u32, i64>,
    /// Every byte of a page is kept, because it was stored before and may differ from a page that
    /// SQLite has just written.
    keep_all: bool,
    /// A write failed, perhaps because the disk was full. Pages that SQLite then writes back as they
    /// were get no frames: see `undo`.
    pressed: bool,
    /// The commit before the newest one, once it was read; `Some(None)` if that is not possible.
    before: Option<Option<Box<State>>>,
    /// The length of the file at the begin.
    file_len: u64,
    /// Pages that are unchanged, and were written only because their frames were raw.
    settled: HashSet<u32>,
    /// Frames are held back and perhaps encoded again: see `frames`.
    holds_back: bool,
    part: HeldBack,
    /// The database was almost empty, and its first part is not complete.
    is_first_part: bool,
    /// Bytes of the pages that were encoded.
    raw_bytes: u64,
    /// Buffers of pages that are encoded, to be reused.
    spare: Vec<Arc<[u8]>>,
}

impl Transaction {
    /// Whether this transaction rolls back and has no frames.
    pub(crate) fn has_no_frames(&self) -> bool {
        self.pressed && self.keep_all && self.appender.written() == 0
    }

    /// The number that the commit will have, and the version of its frames.
    pub(crate) fn number(&self) -> u64 {
        self.commit
    }

    /// Bytes of a page.
    pub(crate) fn page_size(&self) -> u32 {
        self.page_size
    }

    /// The length of the database in bytes, with the pending writes.
    pub(crate) fn logical_len(&self) -> u64 {
        self.logical_len
    }

    /// The first bytes of page 1.
    pub(crate) fn head(&self) -> &[u8; HEAD_LEN] {
        &self.head
    }

    /// What the models and dictionaries know of the database.
    pub(crate) fn learned(&self) -> Learned {
        self.learned
    }

    /// Dictionaries that the commit adds.
    pub(crate) fn new_dicts(&self) -> &[DictInfo] {
        &self.new_dicts
    }

    /// The appender of the commit's records.
    pub(crate) fn appender(&mut self) -> &mut Appender {
        &mut self.appender
    }

    /// The tip block at the begin.
    pub(crate) fn tip_before(&self) -> &[u8; TIP_LEN] {
        &self.tip_before
    }

    /// Notes that an attempt to publish this is about to be written, and may then be whole in the
    /// file.
    pub(crate) fn tries(&mut self, tip: Tip) {
        self.tried = Some(tip);
    }

    /// Notes that a write or an attempt failed, perhaps because the disk was full.
    pub(crate) fn failed(&mut self, error: &Error) {
        self.pressed |= error.is_of_disk();
    }

    /// The number of pages of the database, with the pending writes.
    fn page_count(&self) -> u32 {
        u32::try_from(self.logical_len.div_ceil(u64::from(self.page_size))).unwrap_or(u32::MAX)
    }

    /// Whether the page is the same as in the newest commit.
    pub(crate) fn is_untouched(&self, page: u32) -> bool {
        u64::from(page) <= self.visible && !self.pages.contains(page)
    }

    /// Reads part of a page, with the pending writes.
    ///
    /// # Errors
    /// I/O, damage.
    fn read(&self, connection: &mut Connection, part: Part<'_>) -> Result<()> {
        let Part { page, at, out } = part;
        match self.pages.get(page) {
            Some(Page::Held(Held { bytes, .. }) | Page::Sent { bytes, .. }) => {
                copy_part(bytes, at, out);
                Ok(())
            }
            Some(Page::Stored(entry)) if entry.is_none() => {
                out.fill(0);
                Ok(())
            }
            Some(Page::Stored(entry)) => {
                let file = connection.open.file();
                let stored = self.appender.read(file, entry.off, entry.len)?;
                let page_size = self.page_size as usize;
                let shared = connection.open.shared()?;
                let raw = frame::decode_run(&shared, file, page, entry, page_size, &stored)?;
                copy_part(page_of(&raw, entry, page_size), at, out);
                Ok(())
            }
            None if u64::from(page) > self.visible => {
                out.fill(0);
                Ok(())
            }
            None => {
                let Connection { open, reader, .. } = connection;
                reader.read(open, Part { page, at, out }, false)
            }
        }
    }

    /// Reads bytes of the database at `offset`, with the pending writes. Returns how many of them
    /// are before its end, and fills the rest of `buf` with zeros.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn read_at(
        &self,
        connection: &mut Connection,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<usize> {
        let size = (self.logical_len, self.page_size);
        read_pages(buf, offset, size, |part| self.read(connection, part))
    }

    /// The changes of the page map, in order: written pages, and pages that were cut off.
    ///
    /// # Errors
    /// I/O, damage; [`Error::Setting`] for a page that was not stored.
    pub(crate) fn deltas(
        &self,
        shared: &Shared,
        file: &dyn File,
        newest: &State,
    ) -> Result<Vec<(u32, Entry)>> {
        let stored = |(page, written): (u32, &Page)| match written {
            Page::Stored(entry) => Ok((page, *entry)),
            // All pages are stored by now, unless encoding or placing some of them failed. A commit
            // without those would not be what was written.
            Page::Held(_) | Page::Sent { .. } => Err(Error::Setting(format!(
                "page {page} was not stored by an earlier attempt; write it again or roll back the transaction"
            ))),
        };
        let mut deltas: Vec<(u32, Entry)> = self.pages.iter().map(stored).collect::<Result<_>>()?;
        for page in self.visible + 1..=newest.pages() {
            let Ok(page) = u32::try_from(page) else { break };
            if !self.pages.contains(page) && !shared.lookup(file, newest, page)?.is_none() {
                deltas.push((page, Entry::NONE));
            }
        }
        deltas.sort_unstable_by_key(|d| d.0);
        Ok(deltas)
    }

    /// Makes the last attempt void, durably, if its trailer was written. Call it before anything
    /// more is written.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn void_attempt(&mut self, connection: &mut Connection) -> Result<()> {
        if let Some(tried) = &self.tried {
            attempt::void_own(connection, tried, &self.tip_before)?;
            self.tried = None;
        }
        Ok(())
    }

    /// Drops the writes that are not published.
    pub(crate) fn discard(mut self, connection: &mut Connection) {
        // If this fails, the next writer makes the attempt void.
        let is_void = self.void_attempt(connection).is_ok();
        let grown = (self.pressed && is_void).then_some(self.file_len);
        self.drop_writes(connection);
        if let Some(len) = grown {
            Transaction::cut_file(connection, len);
        }
    }

    /// Drops the writes. An attempt to publish them is void already.
    fn drop_writes(self, connection: &Connection) {
        let Some(shared) = connection.open.known() else {
            return;
        };
        for dict in &self.new_dicts {
            shared.dictionaries.forget(dict.id);
        }
        let mut writer = shared.writer.lock();
        writer.attempts.failed();
        if let Some(space) = writer.accounting.space_mut() {
            space.give_back_extents(self.appender.taken(), self.commit);
        }
    }

    /// Begins a transaction on top of the newest commit. `hint`: the size of the first write, which
    /// is the page size if it is not known otherwise.
    ///
    /// # Errors
    /// I/O, damage; [`Error::Poisoned`], [`Error::ReadOnly`].
    pub(crate) fn begin(connection: &mut Connection, hint: u32) -> Result<Transaction> {
        connection.open.check_writable()?;
        if !connection.open.attach()? {
            create(connection)?;
        }
        let shared = connection.open.shared()?;
        shared.refresh(connection.open.file())?;
        attempt::void_left(connection, &shared)?;
        let (file, options) = (connection.open.file(), connection.open.options());
        let mut writer = shared.writer.lock();
        let writer = &mut *writer;
        let newest = shared.state.read().tip();
        let durability = &mut writer.durability;
        durability.rewrite_if_needed(file, shared.salt, &newest)?;
        durability.restore_header(file, shared.salt)?;
        let state = shared.state.read();
        let sources = shared.sources(file);
        writer.account(&sources, &state)?;
        let highest = state.tip().commit.max(writer.attempts.last());
        writer.accounting.find_free(&sources, highest)?;
        let learner = writer.learning.learner();
        learner.set_database_bytes(state.logical_len());
        learner.set_level(options.level);
        learner.set_choice(options.codec);
        learner.set_reserved(usize::from(state.head()[RESERVED_AT]));
        let is_even = learner.is_even();
        if writer.learning.wants_stored() {
            for d in state.dicts() {
                let dict = shared.dictionary(file, &state, d.id)?;
                (writer.learning.learner()).installed(Family(d.family), &dict);
            }
        }
        let commit = state.highest().max(writer.attempts.last()) + 1;
        let file_len = file.len()?;
        check_newest(&state, commit, file_len)?;
        writer.attempts.tried(commit);
        // Another process may have cut the file.
        writer.durability.file_has(file_len);
        let mut appender = Appender::new(
            shared.salt,
            state.next_off(),
            state.room_end(),
            state.tail_off(),
            &state.tip().hash,
        );
        if let Some(space) = writer.accounting.space_mut() {
            space.hold(state.current_extent(), state.tip().commit);
            appender.cut(space.end_after_cut(state.tail_off()));
            space.cut(appender.tail_off());
        }
        let guess = if hint.is_power_of_two() && (512..=65536).contains(&hint) {
            hint
        } else {
            DEFAULT_PAGE
        };
        let page_size = if state.page_size() == 0 {
            guess
        } else {
            state.page_size()
        };
        Ok(Transaction {
            pages: Written::default(),
            tip_before: state.tip_raw(),
            tried: None,
            page_size,
            logical_len: state.logical_len(),
            visible: state.pages(),
            head: *state.head(),
            learned: state.learned(),
            inflight: VecDeque::new(),
            appender,
            commit,
            seq: 0,
            new_dicts: Vec::new(),
            superseded: HashSet::new(),
            dict_uses: HashMap::new(),
            keep_all: false,
            pressed: false,
            before: None,
            file_len,
            settled: HashSet::new(),
            holds_back: options.codec != CodecChoice::Raw && !is_even,
            part: HeldBack::default(),
            is_first_part: is_new(state.logical_len(), &options.tuning),
            raw_bytes: 0,
            spare: Vec::new(),
        })
    }
}

/// Checks that a commit can follow the newest one, which may have impossible fields. `commit`: the
/// number of the next one.
fn check_newest(state: &State, commit: u64, file_len: u64) -> Result<()> {
    let problem = if commit >= MAX_COMMIT {
        format!(
            "its number, {}, leaves no number for the next one",
            commit - 1
        )
    } else if state.tail_off() > file_len + TAIL_SLACK {
        format!(
            "it says that the file ends at offset {}, which is far beyond its real end",
            state.tail_off()
        )
    } else {
        return Ok(());
    };
    Err(Error::Corrupt(Damage {
        what: "newest commit".to_owned(),
        offset: state.tip().off,
        page: None,
        problem,
    }))
}

/// Makes the empty file a store without pages. Writes the slots, syncs, and writes the header last.
/// So a file without a header that is not longer than the preamble holds no data (rule S7).
fn create(connection: &mut Connection) -> Result<()> {
    let salt = densite_disk::random::random_u64()?;
    let tip = Tip {
        hash: first_hash(salt),
        ..Tip::default()
    };
    let mut pre = vec![0; DATA_OFF as usize];
    let mut put = |off: u64, bytes: &[u8]| {
        if let Some(to) = pre.get_mut(off as usize..off as usize + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    };
    let slot = Slot {
        version: FORMAT_VERSION,
        seq: 1,
        salt,
        tip,
        flags: 0,
    }
    .encode();
    for off in [SLOT_OFF[0], SLOT_OFF[0] + SLOT_COPY] {
        put(off, &slot);
    }
    put(TIP_OFF, &tip.encode(salt));
    let file = connection.open.file();
    file.write_at(&pre, 0)?;
    let synced = file.sync(SyncKind::Data);
    synced.map_err(|e| connection.open.poison(e))?;
    let header = Header {
        version: FORMAT_VERSION,
        salt,
    };
    (connection.open.file()).write_at(&header.encode(), HEADER_OFF)?;
    if connection.open.attach()? {
        return Ok(());
    }
    Err(Error::Corrupt(Damage {
        what: "new file".to_owned(),
        offset: 0,
        page: None,
        problem: "the header that was just written is missing".to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::Page;
    use crate::{Handle, Options};
    use densite_disk::{OpenMode, RealFile};

    /// A page as it would be if encoding it had failed.
    #[test]
    fn publishing_fails_if_a_page_has_no_frame() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = RealFile::open(dir.path().join("x.db"), OpenMode::Create).expect("opens");
        let mut handle = Handle::open(Box::new(file), "x", Options::default()).expect("a store");
        handle.write_at(&[1; 4096], 0).expect("writes");
        let lost = Page::Sent {
            seq: 0,
            bytes: [2; 4096].into(),
        };
        let open = handle.parts().1.as_mut().expect("just written");
        open.pages.insert(2, lost);
        let refused = handle.publish().expect_err("a page is missing");
        assert!(refused.to_string().starts_with("page 2 "), "{refused}");
        // After it is written again, publishing succeeds.
        handle.write_at(&[2; 4096], 4096).expect("writes");
        handle.publish().expect("publishes");
        let mut read = [0; 4096];
        handle.read_at(&mut read, 4096).expect("reads");
        assert_eq!(read, [2; 4096]);
    }
}

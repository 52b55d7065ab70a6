//! Begins a commit on top of the newest one, with that commit's space accounting. In an empty file,
//! first creates a store without pages.

use super::Transaction;
use super::again::{HeldBack, is_new};
use super::written::Written;
use crate::append::Appender;
use crate::attempt;
use crate::codec::family::Family;
use crate::connection::Connection;
use crate::encode::{DEFAULT_PAGE, RESERVED_AT};
use crate::error::{Damage, Error, Result};
use crate::format::header::Header;
use crate::format::slot::Slot;
use crate::format::tip::Tip;
use crate::format::{
    DATA_OFF, FORMAT_VERSION, HEADER_OFF, MAX_COMMIT, SLOT_COPY, SLOT_OFF, TIP_OFF,
};
use crate::options::CodecChoice;
use crate::state::{State, first_hash};
use densite_disk::SyncKind;
use std::collections::{HashMap, HashSet, VecDeque};

/// The open end can begin beyond the end of the file, by less than this: free units at the end may
/// not have been written.
const TAIL_SLACK: u64 = 64 << 20;

impl Transaction {
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

//! The durable state beside the segments: settings, subscribers, and transactions that were rolled
//! back after they were appended.
//!
//! ```text
//! offset  size  field
//!      0    16  magic               "Densite logst\r\n" and a zero
//!     16     4  version             of the log's format
//!     20     4  flags               1: auto_prune
//!     24    16  log_id              as in the segments
//!     40     8  first_segment       segments before this one are pruned, whether or not their files are there
//!     48     8  max_unapplied_bytes 0: no limit
//!     56     8  retain_bytes
//!     64     8  max_retained_bytes  0: no limit
//!     72     8  max_transaction_bytes  0: no limit
//!     80     4  subscribers
//!     84     4  cancelled
//!     88        of each subscriber: 8 bytes position (2^62: it was dropped), 1 byte length of the name, the name; of each cancelled run of rows: first
//!               and last, 8 bytes each, ascending; then 8 bytes: xxh3 of all before
//! ```
//!
//! It is never changed in place. Under the state lock, a new file is written, synced and renamed,
//! and the directory is synced.

use crate::files::{Files, STATE, STATE_LOCK, STATE_NEW, no_state};
use crate::format::{LOG_FORMAT_VERSION, MAX_SEQ};
use crate::patience::usual;
use crate::{Error, LogId, Result, Seq};
use densite_disk::hash::xxh3_64;
use densite_disk::{ErrorKind, Fields, OpenMode, SyncKind};
use std::collections::BTreeMap;

const MAGIC: &[u8; 16] = b"Densite logst\r\n\0";
const FIXED_LEN: usize = 88;
const PURGE: u32 = 1;
/// The longest state, bytes. It fits a million rolled-back transactions that are not pruned.
const LEN_MAX: usize = 16 << 20;

/// The position of a subscriber that was dropped because it was too slow. Its name stays, so that
/// it learns of this.
pub(crate) const DROPPED: Seq = MAX_SEQ;

/// The longest name of a subscriber, bytes.
const NAME_MAX: usize = 64;

/// Settings that are stored with the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Whether writers prune after writes. On for a new log; off for a repaired log whose state was
    /// lost.
    pub auto_prune: bool,
    /// Limit of the bytes that wait to be applied, above which writers wait; 0: no limit. Stored
    /// here for the layers above.
    pub max_unapplied_bytes: u64,
    /// Bytes of segments that pruning keeps although they are not needed.
    pub retain_bytes: u64,
    /// Pruning drops a subscriber for which more bytes of rows are kept; 0: no limit.
    pub max_retained_bytes: u64,
    /// Most bytes of a transaction's rows; 0: no limit but the log's own. Stored here for the
    /// layers above.
    pub max_transaction_bytes: u64,
}

/// Everything in the state file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) id: LogId,
    pub(crate) first_segment: u64,
    pub(crate) config: Config,
    /// Names and positions, or [`DROPPED`].
    pub(crate) subscribers: BTreeMap<String, Seq>,
    /// First and last row of each run of rows that was rolled back, ascending and not adjacent.
    pub(crate) cancelled: Vec<(Seq, Seq)>,
}

impl State {
    /// The state of a log that was made now.
    pub(crate) fn first(id: LogId) -> State {
        State::new(id, true)
    }

    pub(crate) fn new(id: LogId, auto_prune: bool) -> State {
        State {
            id,
            first_segment: 1,
            config: Config {
                auto_prune,
                max_unapplied_bytes: 0,
                retain_bytes: 0,
                max_retained_bytes: 0,
                max_transaction_bytes: 0,
            },
            subscribers: BTreeMap::new(),
            cancelled: Vec::new(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&LOG_FORMAT_VERSION.to_le_bytes());
        let flags = if self.config.auto_prune { PURGE } else { 0 };
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&self.id.0);
        for field in [
            self.first_segment,
            self.config.max_unapplied_bytes,
            self.config.retain_bytes,
            self.config.max_retained_bytes,
            self.config.max_transaction_bytes,
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&(self.subscribers.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.cancelled.len() as u32).to_le_bytes());
        for (name, position) in &self.subscribers {
            out.extend_from_slice(&position.to_le_bytes());
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
        }
        for (first, last) in &self.cancelled {
            out.extend_from_slice(&first.to_le_bytes());
            out.extend_from_slice(&last.to_le_bytes());
        }
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// `Err(Some(version))` for a newer format, `Err(None)` for any other invalid bytes.
    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<State, Option<u32>> {
        let (body, sum) = bytes
            .split_at_checked(bytes.len().wrapping_sub(8))
            .ok_or(None)?;
        if body.len() < FIXED_LEN
            || bytes.len() > LEN_MAX
            || Fields::new(sum).u64() != Some(xxh3_64(body))
        {
            return Err(None);
        }
        let mut take = Fields::new(body);
        let magic: Option<[u8; 16]> = take.array();
        let version = take.u32().ok_or(None)?;
        if magic.as_ref() != Some(MAGIC) {
            return Err(None);
        }
        if version > LOG_FORMAT_VERSION {
            return Err(Some(version));
        }
        State::take(&mut take).ok_or(None)
    }

    fn take(take: &mut Fields<'_>) -> Option<State> {
        let flags = take.u32()?;
        let mut state = State::new(LogId(take.array()?), flags & PURGE != 0);
        state.first_segment = take.u64()?;
        state.config.max_unapplied_bytes = take.u64()?;
        state.config.retain_bytes = take.u64()?;
        state.config.max_retained_bytes = take.u64()?;
        state.config.max_transaction_bytes = take.u64()?;
        let (subscribers, cancelled) = (take.u32()?, take.u32()?);
        for _ in 0..subscribers {
            let (position, len) = (take.u64()?, take.u8()?);
            let name = String::from_utf8(take.bytes(usize::from(len))?.to_vec()).ok()?;
            check_name(&name).ok()?;
            state.subscribers.insert(name, position);
        }
        for _ in 0..cancelled {
            state.cancelled.push((take.u64()?, take.u64()?));
        }
        let in_range = (1..MAX_SEQ).contains(&state.first_segment)
            && state
                .subscribers
                .values()
                .all(|position| *position < MAX_SEQ || *position == DROPPED)
            && state.cancelled.is_sorted_by(|a, b| a.1 < b.0)
            && (state.cancelled.iter()).all(|(first, last)| first <= last && *last < MAX_SEQ);
        (in_range && take.rest().is_empty()).then_some(state)
    }

    /// Records that these rows were rolled back.
    pub(crate) fn cancel(&mut self, first: Seq, last: Seq) {
        self.cancelled.push((first, last));
        self.cancelled.sort_unstable();
        self.cancelled.dedup_by(|next, kept| {
            let joined = next.0 <= kept.1 + 1;
            if joined {
                kept.1 = kept.1.max(next.1);
            }
            joined
        });
    }

    /// The positions of subscribers that were not dropped.
    pub(crate) fn positions(&self) -> impl Iterator<Item = Seq> + '_ {
        let positions = self.subscribers.values().copied();
        positions.filter(|position| *position != DROPPED)
    }

    /// The least position of a subscriber.
    pub(crate) fn slowest(&self) -> Option<Seq> {
        self.positions().min()
    }
}

/// Checks the name of a subscriber.
///
/// # Errors
/// `BadName`.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err(Error::BadName(name.to_owned()))
    }
}

/// Whether a row is in one of the runs, which are ascending.
pub(crate) fn is_cancelled(cancelled: &[(Seq, Seq)], seq: Seq) -> bool {
    let after = cancelled.partition_point(|(first, _)| *first <= seq);
    let before = after.checked_sub(1).and_then(|i| cancelled.get(i));
    before.is_some_and(|(_, last)| seq <= *last)
}

impl Files {
    /// The state's bytes, cut to one byte more than a state can have; `None` if there is no file.
    pub(crate) fn state_bytes(&self) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.open(STATE, OpenMode::Read)? else {
            return Ok(None);
        };
        let len = file.len()?.min(LEN_MAX as u64 + 1);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let got = file.read_at(&mut bytes, 0)?;
        bytes.truncate(got);
        Ok(Some(bytes))
    }

    /// The current state; `None` if there is none.
    pub(crate) fn load_state(&self) -> Result<Option<State>> {
        let Some(bytes) = self.state_bytes()? else {
            return Ok(None);
        };
        match State::decode(&bytes) {
            Ok(state) if state.id != self.id => Err(Error::OtherLog {
                found: state.id,
                expected: self.id,
            }),
            Ok(state) => Ok(Some(state)),
            Err(Some(found)) => Err(Error::NewerFormat {
                found,
                supported: LOG_FORMAT_VERSION,
            }),
            Err(None) => Err(Error::Damaged {
                segment: STATE.to_owned(),
                offset: 0,
                problem: "it is not the state of a log".to_owned(),
            }),
        }
    }

    /// Stores the state durably. The caller holds the state lock, or is making the log.
    pub(crate) fn store_state(&self, state: &State) -> Result<()> {
        let bytes = state.encode();
        if bytes.len() > LEN_MAX {
            return Err(Error::Limit(
                "the log's state has no room for more subscribers or rolled-back transactions; prune the log",
            ));
        }
        // A file that an earlier attempt left can be half synced, so it is not written again.
        match self.dir.remove(STATE_NEW) {
            Err(e) if e.kind != ErrorKind::NotFound => return Err(e.into()),
            _ => {}
        }
        let file = self.dir.open(STATE_NEW, OpenMode::CreateNew)?;
        file.write_at(&bytes, 0)?;
        file.sync(SyncKind::Full)?;
        self.dir.rename(STATE_NEW, STATE)?;
        self.dir.sync()?;
        Ok(())
    }

    /// Changes the state under its lock. `change` returns the answer and whether to store the
    /// state.
    pub(crate) fn with_state<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<(T, bool)>,
    ) -> Result<T> {
        let _lock = self.locked(STATE_LOCK, &usual)?;
        let mut state = self.load_state()?.ok_or_else(no_state)?;
        let (answer, store) = change(&mut state)?;
        if store {
            self.store_state(&state)?;
        }
        Ok(answer)
    }
}

//! A WAL checkpoint through the store, and what happens when its last step fails
//! (docs/decisions/sqlite-calls.md).
//!
//! SQLite sends CKPT_START, writes pages, sends CKPT_DONE and ignores the answer. If a publish
//! failed there, a partial checkpoint would leave readers with old pages. So xTruncate and xSync
//! return the error until the checkpoint is over. After a partial checkpoint, `nBackfill` is set
//! back before read lock 0 is released. Meanwhile the two copies of the WAL index's header differ,
//! so no reader begins.

use crate::codes::Done;
use densite_sqlite::Code;
use densite_sqlite_format::wal_index::{
    BACKFILL, HEADER_LEN, IS_INIT, KNOWN_LEN, MX_FRAME, SECOND_CHECKSUM,
};
use densite_store::CommitId;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// The state of the current checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    /// No checkpoint is under way.
    #[default]
    None,
    /// Between CKPT_START and CKPT_DONE.
    Writing,
    /// CKPT_DONE has published.
    Done,
    /// CKPT_DONE failed to publish.
    Failed(Code),
}

/// A connection's checkpoints.
#[derive(Default)]
pub(crate) struct Checkpoint {
    phase: Phase,
    index: Option<Index>,
    /// `nBackfill` at CKPT_START.
    backfill: Option<u32>,
    /// What CKPT_DONE wrote over the header's checksum, and the checksum before.
    dirtied: Option<(u32, u32)>,
    /// The shared memory was unmapped: the WAL is being closed.
    unmapped: bool,
    /// The header of the WAL's index when the last snapshot began.
    snapshot: Option<[u32; HEADER_LEN / 4]>,
    /// SQLite has rebuilt that index through this connection since then.
    rebuilt: bool,
    /// `PRAGMA wal_checkpoint` was compiled and has not taken its lock yet.
    asked: bool,
    /// The newest commit when this connection last released the checkpoint lock.
    end: Option<CommitId>,
}

/// The first region of the shared memory. Valid until xShmUnmap.
#[derive(Clone, Copy)]
struct Index(NonNull<u8>);

// SAFETY: shared memory that is accessed only as atomic words.
unsafe impl Send for Index {}

impl Index {
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the region is mapped, page-aligned and at least `KNOWN_LEN` bytes long. All its
        // users, including SQLite, access this word atomically or under locks.
        unsafe { AtomicU32::from_ptr(self.0.as_ptr().add(offset).cast::<u32>()) }
    }
}

impl Checkpoint {
    /// Notes the address of region 0; null if it is not mapped.
    pub(crate) fn set_index(&mut self, address: *mut c_void, size: i32) {
        self.unmapped = false;
        self.index = NonNull::new(address.cast::<u8>())
            .filter(|p| size >= KNOWN_LEN && p.cast::<u32>().is_aligned())
            .map(Index);
    }

    /// Notes that the shared memory is about to be unmapped.
    pub(crate) fn forget_index(&mut self) {
        self.unmapped = self.index.is_some();
        self.index = None;
    }

    /// Whether SQLite has unmapped the shared memory since the last call. Its last close does so
    /// before it releases EXCLUSIVE.
    pub(crate) fn take_last_close(&mut self) -> bool {
        std::mem::take(&mut self.unmapped)
    }

    /// Whether a WAL is in use, with its index in shared memory.
    pub(crate) fn uses_wal(&self) -> bool {
        self.index.is_some()
    }

    /// Notes that no checkpoint is under way: its lock is released, or a commit in a rollback mode
    /// begins. With a WAL index on the heap, no lock shows when a checkpoint is over.
    pub(crate) fn is_over(&mut self) {
        self.phase = Phase::None;
    }

    /// Whether CKPT_DONE has published and the checkpoint is not over yet.
    pub(crate) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Whether this connection is checkpointing and so can write to the store.
    pub(crate) fn is_under_way(&self) -> bool {
        self.phase != Phase::None
    }

    /// Whether the database file has everything that is in the WAL: all frames are backfilled. For
    /// the holder of the checkpoint lock. False unless the index is intact: both copies of its
    /// header are the same, as `walIndexTryHdr` requires.
    pub(crate) fn is_complete(&self) -> bool {
        let Some(index) = self.index else {
            return false;
        };
        let load = |offset: usize| index.word(offset).load(Ordering::Acquire);
        let whole = (0..HEADER_LEN)
            .step_by(4)
            .all(|at| load(at) == load(at + HEADER_LEN));
        // The byte `isInit` is the first of its word in memory.
        let init = load(IS_INIT).to_ne_bytes().first() == Some(&1);
        whole && init && load(BACKFILL) == load(MX_FRAME)
    }

    /// SQLite rebuilds the WAL's index through this connection.
    pub(crate) fn rebuilds(&mut self) {
        self.rebuilt = true;
    }

    /// Whether SQLite has rebuilt the index since the last snapshot began.
    pub(crate) fn has_rebuilt(&self) -> bool {
        self.rebuilt
    }

    /// A snapshot begins. Returns whether SQLite drops its cached pages for it. It does when it has
    /// rebuilt the index, and when the index's header has changed (`walIndexTryHdr`).
    pub(crate) fn snapshot_resets(&mut self) -> bool {
        let now = self
            .index
            .map(|index| std::array::from_fn(|i| index.word(4 * i).load(Ordering::Acquire)));
        let same = now.is_some() && now == self.snapshot;
        self.snapshot = now;
        std::mem::take(&mut self.rebuilt) || !same
    }

    /// The error of a checkpoint whose publish failed.
    pub(crate) fn check(&self) -> Done {
        match self.phase {
            Phase::Failed(code) => Err(code),
            _ => Ok(()),
        }
    }

    /// `PRAGMA wal_checkpoint` was compiled.
    pub(crate) fn asks(&mut self) {
        self.asked = true;
    }

    /// Whether `PRAGMA wal_checkpoint` was compiled since the last call.
    pub(crate) fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.asked)
    }

    /// Notes the newest commit at the end of a checkpoint.
    pub(crate) fn ends_at(&mut self, commit: Option<CommitId>) {
        self.end = commit;
    }

    /// The newest commit at the end of this connection's last checkpoint, if it was not taken yet.
    pub(crate) fn take_end(&mut self) -> Option<CommitId> {
        self.end.take()
    }

    /// CKPT_START: pages follow.
    pub(crate) fn start(&mut self) {
        self.phase = Phase::Writing;
        self.backfill = self
            .index
            .map(|index| index.word(BACKFILL).load(Ordering::Acquire));
        self.dirtied = None;
    }

    /// CKPT_DONE is about to publish. Until [`Checkpoint::ends`] the checkpoint counts as failed,
    /// also if the publish panics. SQLite ignores the answer either way.
    pub(crate) fn publishes(&mut self) {
        self.phase = Phase::Failed(Code::IOERR);
    }

    /// CKPT_DONE has published or failed to.
    pub(crate) fn ends(&mut self, published: Done) {
        match published {
            Ok(()) => self.phase = Phase::Done,
            Err(code) => self.fail(code),
        }
    }

    /// From here until `release_readers` no reader can begin.
    fn fail(&mut self, code: Code) {
        self.phase = Phase::Failed(code);
        if let Some(index) = self.index {
            let word = index.word(SECOND_CHECKSUM);
            let was = word.fetch_xor(u32::MAX, Ordering::AcqRel);
            self.dirtied = Some((!was, was));
        }
    }

    /// Read lock 0 is about to be released: restores `nBackfill` and the header.
    pub(crate) fn release_readers(&mut self) {
        if !matches!(self.phase, Phase::Failed(_)) {
            return;
        }
        let Some(index) = self.index else { return };
        if let Some(was) = self.backfill.take() {
            let now = index.word(BACKFILL);
            if now.load(Ordering::Acquire) > was {
                now.store(was, Ordering::Release);
            }
        }
        if let Some((ours, was)) = self.dirtied.take() {
            // If a writer has written a new header since, that one is right and stays.
            let _ = index.word(SECOND_CHECKSUM).compare_exchange(
                ours,
                was,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(words: &mut [u32; 34]) -> Checkpoint {
        let mut checkpoint = Checkpoint::default();
        checkpoint.set_index(words.as_mut_ptr().cast(), KNOWN_LEN);
        checkpoint
    }

    #[test]
    fn a_failed_publish_puts_nbackfill_and_the_header_back() {
        let mut words = [7u32; 34];
        words[BACKFILL / 4] = 10;
        let at = |words: &[u32; 34], offset: usize| words[offset / 4];
        let mut checkpoint = index(&mut words);
        checkpoint.start();
        checkpoint.fail(Code::FULL);
        assert_eq!(checkpoint.check(), Err(Code::FULL));
        let base = words.as_mut_ptr();
        // SAFETY: within the array; nothing else accesses it now.
        unsafe {
            assert_ne!(
                base.add(SECOND_CHECKSUM / 4).read(),
                7,
                "no reader can begin"
            );
            base.add(BACKFILL / 4).write(25);
        }
        checkpoint.release_readers();
        assert_eq!(at(&words, BACKFILL), 10);
        assert_eq!(at(&words, SECOND_CHECKSUM), 7);
    }

    #[test]
    fn a_header_written_meanwhile_stays() {
        let mut words = [7u32; 34];
        let mut checkpoint = index(&mut words);
        checkpoint.start();
        checkpoint.fail(Code::IOERR);
        // SAFETY: within the array; nothing else accesses it now.
        unsafe { words.as_mut_ptr().add(SECOND_CHECKSUM / 4).write(99) };
        checkpoint.release_readers();
        assert_eq!(words[SECOND_CHECKSUM / 4], 99);
    }

    #[test]
    fn a_published_checkpoint_touches_nothing() {
        let mut words = [7u32; 34];
        let mut checkpoint = index(&mut words);
        checkpoint.start();
        checkpoint.ends(Ok(()));
        // SAFETY: within the array; nothing else accesses it now.
        unsafe { words.as_mut_ptr().add(BACKFILL / 4).write(25) };
        checkpoint.release_readers();
        assert_eq!(words[BACKFILL / 4], 25);
        assert_eq!(checkpoint.check(), Ok(()));
    }
}

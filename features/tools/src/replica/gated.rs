//! A database that is shipped in a process that can fork (rule S15): a fork waits until no call of
//! SQLite or the store is under way. It does not wait for the bucket, which can take long.

use super::shipped_database::Database;
use densite_log::Image;
use densite_replica::{Result, Source};
use densite_sqlite::fork_gate;
use densite_store::{CommitId, Written};

/// See the module's documentation.
pub(super) struct Gated<'a>(pub(super) &'a mut Database);

impl Source for Gated<'_> {
    fn restore_point(&mut self) -> Result<Option<CommitId>> {
        let _inside = fork_gate::enter();
        self.0.restore_point()
    }

    fn take_log(&mut self) -> Option<Image> {
        self.0.take_log()
    }

    fn newest(&mut self) -> Result<Option<CommitId>> {
        let _inside = fork_gate::enter();
        self.0.newest()
    }

    fn written(&mut self, from: &CommitId, to: &CommitId) -> Result<Written> {
        let _inside = fork_gate::enter();
        self.0.written(from, to)
    }

    fn image_len(&mut self, mark: &CommitId) -> Result<Option<u64>> {
        let _inside = fork_gate::enter();
        self.0.image_len(mark)
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let _inside = fork_gate::enter();
        self.0.read(buf, offset)
    }

    fn check_stored(&mut self, first: u32) -> Result<Option<u32>> {
        let _inside = fork_gate::enter();
        self.0.check_stored(first)
    }

    fn first_places(&mut self, most: u64) -> Result<Vec<(u64, u64)>> {
        let _inside = fork_gate::enter();
        self.0.first_places(most)
    }

    fn is_kept(&mut self, mark: &CommitId) -> Result<bool> {
        let _inside = fork_gate::enter();
        self.0.is_kept(mark)
    }
}

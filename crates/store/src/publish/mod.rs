//! Publishing: the pending writes become one commit, seen by everyone.
//!
//! 1. All pages are encoded and appended as frames.
//! 2. The accounting goes on to this commit; from time to time the map is folded into new nodes.
//! 3. The trailer is written behind them, and then the tip. Before the tip nobody sees the commit, after it everybody does.
//!
//! A failure before the tip leaves the published state as it was; the same writes may be published again.
//! One data sync makes the commit durable (see `durable`). Publishing itself syncs only when nobody else did for long
//! (`Handle::sync_and_name`).

mod by_fold;
mod commit;
mod fold;
mod regrain;

pub(crate) use by_fold::ByFold;
pub(crate) use commit::Besides;

use crate::error::Result;
use crate::handle::Handle;

impl Handle {
    /// All pending writes become visible to everyone, at once and together.
    ///
    /// # Errors
    /// I/O, a full disk: nobody saw anything; the call may be made again or the writes [discarded](Handle::discard).
    pub fn publish(&mut self) -> Result<()> {
        self.publish_with(&Besides::default()).map(drop)
    }

    /// A commit that changes nothing: whoever goes by the newest commit looks anew at what lies beside the file.
    ///
    /// # Errors
    /// As [`Handle::publish`]; nothing is left pending.
    pub fn publish_nothing(&mut self) -> Result<()> {
        self.begin_write(0)?;
        let done = self.publish_with(&Besides {
            even_empty: true,
            ..Besides::default()
        });
        if done.is_err() {
            self.discard();
        }
        done.map(drop)
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
                writer.epoch = writer
                    .epoch
                    .wrapping_add(densite_disk::random::random_u64().unwrap_or(1) | 1);
            }
        }
        done
    }

    fn try_publish(&mut self, besides: &Besides) -> Result<u64> {
        self.void_own_attempt()?;
        self.finish_batches()?;
        self.regrain()?;
        let shared = self.shared()?;
        let Some(p) = &mut self.pending else {
            return Ok(0);
        };
        let mut writer = shared.writer.lock();
        writer.account(&shared, &*self.file, &shared.state.read())?;
        let written = commit::commit(
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
}

#[cfg(test)]
mod tests {
    use crate::pending::PendingPage;
    use crate::{Handle, Options};
    use densite_disk::{OpenMode, RealFile};

    /// As it would be if encoding it had failed.
    #[test]
    fn a_page_without_a_frame_is_not_left_out_of_a_commit() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = RealFile::open(dir.path().join("x.db"), OpenMode::Create).expect("opens");
        let mut handle = Handle::open(Box::new(file), "x", Options::default()).expect("a store");
        handle.write_at(&[1; 4096], 0).expect("writes");
        let lost = PendingPage::Raw {
            seq: 0,
            bytes: [2; 4096].into(),
        };
        let pending = handle.pending.as_mut().expect("just written");
        pending.pages.insert(2, lost);
        let refused = handle.publish().expect_err("a page is missing");
        assert!(refused.to_string().starts_with("page 2 "), "{refused}");
        // Written again it is there.
        handle.write_at(&[2; 4096], 4096).expect("writes");
        handle.publish().expect("publishes");
        let mut read = [0; 4096];
        handle.read_at(&mut read, 4096).expect("reads");
        assert_eq!(read, [2; 4096]);
    }
}

//! Copying the file while it is in use.
//!
//! A copy is taken without a lock: read the bytes, then ask which ranges later commits wrote, and
//! read these again. The result is the file as of one commit, `mark`, under one condition
//! ([`Handle::is_kept`]): when the last byte was read, no slot named a later commit. For a writer
//! writes over bytes of the file only if they were free in the commit that a durable slot names
//! (rule S9). So until such a slot exists, all bytes that `mark` needs are in their places.

use super::Handle;
use crate::chain;
use crate::commit_id::{CommitId, Written, joined};
use crate::error::{Error, Result};
use crate::format::header::{HEADER_LEN, Header};
use crate::format::slot;
use crate::format::slot::{CLEAN, SLOT_LEN, Slot};
use crate::format::{DATA_OFF, FORMAT_VERSION, HEADER_OFF, SLOT_COPY, SLOT_OFF, TIP_OFF};
use crate::lineage::{self, Lineage};
use crate::recover;

/// The most commits between two marks. A day has 86,400 seconds.
const SINCE: usize = 100_000;

impl Handle {
    /// The newest commit; `None` while the file is empty.
    ///
    /// # Errors
    /// I/O, damage.
    pub fn mark(&mut self) -> Result<Option<CommitId>> {
        let newest = self.newest()?;
        Ok(newest.map(|shared| CommitId {
            salt: shared.salt,
            tip: shared.state.read().tip(),
        }))
    }

    /// The ranges of bytes that the commits after `from`, up to `to`, wrote.
    ///
    /// # Errors
    /// I/O; [`Error::NotDensite`] while the file is empty.
    pub fn written(&mut self, from: &CommitId, to: &CommitId) -> Result<Written> {
        let salt = self.connection.open.shared()?.salt;
        if from.salt != salt || to.salt != salt || from.commit() > to.commit() {
            return Ok(Written::AnotherHistory);
        }
        let file = self.connection.open.file();
        let mut back = Vec::new();
        let ours = from.tip;
        let met = recover::walk_back(file, salt, &to.tip, &mut back, &mut |at| *at == ours);
        let since = match met {
            Ok(true) => back
                .into_iter()
                .flat_map(|(_, trailer)| trailer.pieces)
                .collect(),
            Ok(false) => match lineage::of(file, salt, &ours, &to.tip, &back, SINCE)? {
                Lineage::Ours(since) => since.into_iter().flat_map(|(_, pieces)| pieces).collect(),
                Lineage::Another => return Ok(Written::AnotherHistory),
                Lineage::Unknown => return Ok(Written::Unknown),
            },
            // The place of `to` itself was written again.
            Err(Error::Corrupt(_)) => return Ok(Written::Unknown),
            Err(e) => return Err(e),
        };
        Ok(Written::Ranges(joined(since)))
    }

    /// The length of the file as of a commit; `None` if the place of its trailer was written again.
    ///
    /// # Errors
    /// I/O; [`Error::NotDensite`] while the file is empty.
    pub fn image_len(&self, mark: &CommitId) -> Result<Option<u64>> {
        let salt = self.connection.open.shared()?.salt;
        if mark.tip.commit == 0 {
            return Ok(Some(DATA_OFF));
        }
        match chain::read_trailer(self.connection.open.file(), salt, &mark.tip) {
            Ok(trailer) => Ok(Some(trailer.tail_off)),
            Err(Error::Corrupt(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads stored bytes of the file. Returns how many were read before its end.
    ///
    /// # Errors
    /// I/O.
    pub fn read_stored(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        Ok(self.connection.open.file().read_at(buf, offset)?)
    }

    /// Whether every byte that `mark` needs is still in its place. Ask after the bytes were read.
    ///
    /// # Errors
    /// I/O.
    pub fn is_kept(&self, mark: &CommitId) -> Result<bool> {
        let slot = slot::read_slot(self.connection.open.file())?;
        Ok(slot.is_some_and(|(_, slot)| {
            slot.salt == mark.salt && (slot.tip == mark.tip || slot.tip.commit < mark.tip.commit)
        }))
    }
}

/// Bytes of the preamble. What its fields do not fill is never read.
pub const PREAMBLE_LEN: u64 = DATA_OFF;

/// The preamble of a copy of the file as of `mark`: offsets and bytes. The copy looks like a file
/// that was closed after that commit.
#[must_use]
pub fn preamble(mark: &CommitId) -> Vec<(u64, Vec<u8>)> {
    let header = Header {
        version: FORMAT_VERSION,
        salt: mark.salt,
    };
    let slot = Slot {
        version: FORMAT_VERSION,
        seq: 1,
        salt: mark.salt,
        tip: mark.tip,
        flags: CLEAN,
    };
    let [first, second] = SLOT_OFF;
    let none = vec![0; SLOT_LEN];
    let mut head = header.encode();
    head.resize(HEADER_LEN, 0);
    vec![
        (HEADER_OFF, head),
        (first, slot.encode()),
        (first + SLOT_COPY, slot.encode()),
        (second, none.clone()),
        (second + SLOT_COPY, none),
        (TIP_OFF, mark.tip.encode(mark.salt).to_vec()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodecChoice, Options};
    use densite_disk::{File, OpenMode, SyncKind};
    use densite_sim_disk::SimDisk;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    const PAGE: usize = 4096;

    fn options(level: i32) -> Options {
        Options {
            threads: 0,
            level,
            codec: CodecChoice::Auto,
            ..Options::default()
        }
    }

    fn open(disk: &SimDisk, path: &str) -> Handle {
        let file = disk.open(path, OpenMode::Create).expect("open");
        Handle::open(Box::new(file), path, options(1)).expect("open")
    }

    /// Writes some pages, publishes and syncs.
    fn commit(handle: &mut Handle, model: &mut Vec<Vec<u8>>, rng: &mut StdRng) {
        for _ in 0..rng.random_range(1..30) {
            let page = rng.random_range(0..(model.len() + 1).min(120));
            let mut bytes = vec![0; PAGE];
            let random = rng.random_range(0..PAGE);
            rng.fill(&mut bytes[..random]);
            handle
                .write_at(&bytes, (page * PAGE) as u64)
                .expect("write");
            match model.get_mut(page) {
                Some(old) => *old = bytes,
                None => model.push(bytes),
            }
        }
        handle.publish().expect("publish");
        handle.sync(SyncKind::Full).expect("sync");
    }

    /// A copy that follows the file by what the commits since wrote equals it at every step, while
    /// space is used again and folds happen.
    #[test]
    fn a_copy_that_takes_what_was_written_is_the_file() {
        for seed in 0..6 {
            let mut rng = StdRng::seed_from_u64(seed);
            let disk = SimDisk::new(seed);
            let mut handle = open(&disk, "/a.db");
            let mut model = Vec::new();
            commit(&mut handle, &mut model, &mut rng);
            let mut at = handle.mark().expect("mark").expect("a commit");
            let mut copy = disk.contents("/a.db").expect("contents");
            for round in 0..60 {
                for _ in 0..rng.random_range(1..4) {
                    commit(&mut handle, &mut model, &mut rng);
                }
                let to = handle.mark().expect("mark").expect("a commit");
                let Written::Ranges(ranges) = handle.written(&at, &to).expect("written") else {
                    panic!("seed {seed}, round {round}: unknown");
                };
                let len = handle.image_len(&to).expect("length").expect("a trailer");
                copy.resize(usize::try_from(len).expect("small"), 0);
                for (start, end) in ranges {
                    let (from, to) = (start as usize, (end as usize).min(copy.len()));
                    handle
                        .read_stored(&mut copy[from..to], start)
                        .expect("read");
                }
                for (offset, bytes) in preamble(&to) {
                    copy[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                }
                assert!(handle.is_kept(&to).expect("kept"));
                at = to;
                let path = format!("/copy-{round}.db");
                disk.put_file(&path, &copy);
                let mut opened = open(&disk, &path);
                for (page, expected) in model.iter().enumerate() {
                    let mut got = vec![0; PAGE];
                    opened
                        .read_at(&mut got, (page * PAGE) as u64)
                        .expect("read");
                    assert!(got == *expected, "seed {seed}, round {round}, page {page}");
                }
                let found = opened.check(&mut |_, _| true).expect("check");
                assert!(
                    found.problems.is_empty(),
                    "seed {seed}, round {round}: {found:?}"
                );
                drop(opened);
                disk.remove(&path).expect("remove");
            }
        }
    }

    /// As after hours without the process that copies it: what was written is known while the places
    /// of the trailers in between are not used again.
    #[test]
    fn what_thousands_of_commits_wrote_is_known() {
        let disk = SimDisk::new(5);
        let mut rng = StdRng::seed_from_u64(5);
        let (mut handle, mut model) = (open(&disk, "/a.db"), Vec::new());
        commit(&mut handle, &mut model, &mut rng);
        let from = handle.mark().expect("mark").expect("a commit");
        for n in 0..6_000u32 {
            handle.write_at(&n.to_le_bytes(), 0).expect("write");
            handle.publish().expect("publish");
        }
        let to = handle.mark().expect("mark").expect("a commit");
        let written = handle.written(&from, &to).expect("written");
        assert!(matches!(written, Written::Ranges(_)), "{written:?}");
    }

    #[test]
    fn a_slot_of_a_later_commit_ends_what_is_kept() {
        let disk = SimDisk::new(3);
        let mut rng = StdRng::seed_from_u64(3);
        let (mut handle, mut model) = (open(&disk, "/a.db"), Vec::new());
        commit(&mut handle, &mut model, &mut rng);
        let early = handle.mark().expect("mark").expect("a commit");
        let mut kept = 0;
        while handle.is_kept(&early).expect("kept") {
            commit(&mut handle, &mut model, &mut rng);
            kept += 1;
            assert!(kept < 1000, "no slot is ever written");
        }
        let slot = slot::read_slot(&disk.open("/a.db", OpenMode::Read).expect("open") as &dyn File);
        assert!(slot.expect("read").expect("a slot").1.tip.commit > early.commit());
    }

    #[test]
    fn another_file_and_an_older_copy_are_other_histories() {
        let disk = SimDisk::new(4);
        let mut rng = StdRng::seed_from_u64(4);
        let (mut handle, mut model) = (open(&disk, "/a.db"), Vec::new());
        commit(&mut handle, &mut model, &mut rng);
        let early = disk.contents("/a.db").expect("contents");
        commit(&mut handle, &mut model, &mut rng);
        let later = handle.mark().expect("mark").expect("a commit");
        // The older state goes on elsewhere.
        disk.put_file("/b.db", &early);
        let mut other = open(&disk, "/b.db");
        for _ in 0..3 {
            commit(&mut other, &mut model, &mut rng);
        }
        let to = other.mark().expect("mark").expect("a commit");
        assert_eq!(
            other.written(&later, &to).expect("written"),
            Written::AnotherHistory
        );
        let (mut third, mut pages) = (open(&disk, "/c.db"), Vec::new());
        commit(&mut third, &mut pages, &mut rng);
        let to = third.mark().expect("mark").expect("a commit");
        assert_eq!(
            third.written(&later, &to).expect("written"),
            Written::AnotherHistory
        );
    }
}

//! The seventeen rules of the store (docs/RULES.md), each with tests that try to break it.
//!
//! Each test quotes the rule and says which code to take out to make it fail. Tests that need two
//! processes use puppets (`densite_tests::procs::puppet`). Tests of races stop at named points
//! (`densite_vfs::failpoint`). Tests of the store alone use its handles, over files in memory if they
//! inspect or drop bytes.

mod host;
mod memory;
mod recovery;
mod seeing;
mod trouble;
mod writing;

use std::path::{Path, PathBuf};

use densite_disk::File;
use densite_store::{CodecChoice, DecodedCache, Handle, Options, Readahead};
use densite_tests::procs::{Puppet, Subject};
use tempfile::TempDir;

/// Starts a puppet.
fn puppet() -> Puppet {
    Puppet::start(env!("CARGO_BIN_EXE_worker"))
}

/// The directory of one database.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        Place {
            dir: tempfile::tempdir().expect("directory"),
        }
    }

    fn db(&self) -> PathBuf {
        self.dir.path().join("app.db")
    }

    /// The path of the database's companion file with that suffix.
    fn beside(&self, suffix: &str) -> PathBuf {
        self.dir.path().join(format!("app.db{suffix}"))
    }

    /// The length of a companion file; 0 if it does not exist.
    fn len_beside(&self, suffix: &str) -> u64 {
        std::fs::metadata(self.beside(suffix)).map_or(0, |m| m.len())
    }
}

/// Creates a database with a table t(id, v, pad) of some hundred pages, all with v = 0, and closes
/// it.
fn make_table(path: &Path, journal_mode: &str) {
    let db = Subject::Densite.open(path).expect("open");
    db.execute_batch(&format!(
        "PRAGMA journal_mode={journal_mode};
         CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER, pad TEXT);
         WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 2000)
         INSERT INTO t SELECT i, 0, printf('%0300d', i * 7919) FROM c"
    ))
    .expect("make");
    db.close().map_err(|(_, e)| e).expect("close");
}

/// Settings that make stored bytes easy to find: no threads, no codec, one page in a frame.
fn raw() -> Options {
    Options {
        threads: 0,
        run_pages: 1,
        codec: CodecChoice::Raw,
        readahead: Readahead::Off,
        decoded_cache: DecodedCache::Bytes(1 << 20),
        ..Options::default()
    }
}

/// A separate handle: handles with different identities share nothing, as in different processes.
fn handle(file: impl File + 'static, identity: &str, options: Options) -> Handle {
    Handle::open(Box::new(file), identity, options).expect("open the store")
}

/// A page with its number and a mark in its bytes, which do not compress.
fn page(number: u32, mark: u32, len: usize) -> Vec<u8> {
    let mut x = u64::from(number) << 32 | u64::from(mark) | 1 << 63;
    let mut bytes: Vec<u8> = std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    })
    .take(len)
    .collect();
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4..8].copy_from_slice(&mark.to_le_bytes());
    bytes
}

const PAGE: usize = 4096;

/// Writes pages 1 to `pages` with the same mark, without publishing.
fn write_all(handle: &mut Handle, pages: u32, mark: u32) {
    for number in 1..=pages {
        handle
            .write_at(
                &page(number, mark, PAGE),
                u64::from(number - 1) * PAGE as u64,
            )
            .expect("write");
    }
}

/// The mark of all pages, which must be the same.
fn read_all(handle: &mut Handle, pages: u32) -> u32 {
    let mut marks = std::collections::BTreeSet::new();
    for number in 1..=pages {
        let mut got = vec![0; PAGE];
        handle
            .read_at(&mut got, u64::from(number - 1) * PAGE as u64)
            .expect("read");
        let mark = u32::from_le_bytes(got[4..8].try_into().expect("4 bytes"));
        assert!(
            got == page(number, mark, PAGE),
            "page {number} is not what was written"
        );
        marks.insert(mark);
    }
    assert_eq!(marks.len(), 1, "a mixture of states: {marks:?}");
    marks.into_iter().next().expect("one mark")
}

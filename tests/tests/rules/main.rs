//! The seventeen rules of the store (docs/RULES.md), each with tests that provoke its breach.
//!
//! Each test quotes what the rule promises and says which code to take out to see it fail. Those that need two processes use
//! puppets (`densite_tests::procs::puppet`), those that are races stop at named points (`densite_vfs::pause`), and those
//! about the store alone work on its handles, over files in memory where bytes are to be looked at or lost.

mod host;
mod memory;
mod recovery;
mod seeing;
mod trouble;
mod writing;

use std::path::{Path, PathBuf};

use densite_disk::File;
use densite_store::{CodecChoice, Handle, Options, Readahead};
use densite_tests::procs::{Puppet, Subject};
use tempfile::TempDir;

/// Starts a puppet.
fn puppet() -> Puppet {
    Puppet::start(env!("CARGO_BIN_EXE_worker"))
}

/// A place for one database.
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

    /// The database's companion with that suffix.
    fn beside(&self, suffix: &str) -> PathBuf {
        self.dir.path().join(format!("app.db{suffix}"))
    }

    /// Its length; 0 when there is none.
    fn len_beside(&self, suffix: &str) -> u64 {
        std::fs::metadata(self.beside(suffix)).map_or(0, |m| m.len())
    }
}

/// Makes a database with a table t(id, v, pad) of some hundred pages, all v = 0, and closes it.
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

/// Settings under which what is stored is plain to see: no threads, no codec, a page a frame.
fn raw() -> Options {
    Options {
        threads: 0,
        run_pages: 1,
        codec: CodecChoice::Raw,
        readahead: Readahead::Off,
        decoded_cache_bytes: 1 << 20,
        ..Options::default()
    }
}

/// A handle of its own: different identities share nothing, as in different processes.
fn handle(file: impl File + 'static, identity: &str, options: Options) -> Handle {
    Handle::open(Box::new(file), identity, options).expect("open the store")
}

/// A page whose bytes tell its number and a mark, and do not compress.
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

/// Writes pages 1 to `pages`, all with the same mark. Not published.
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

/// The mark that all pages have.
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

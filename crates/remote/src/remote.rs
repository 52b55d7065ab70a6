//! A remote file that is open for reading.

use crate::blocks::{BLOCK, Blocks};
use crate::client::Client;
use crate::counters::Counters;
use crate::error::{Problem, Result};
use crate::object::Object;
use crate::options::Options;
use crate::plan::{MOST, Plan};
use crate::version::Version;
use densite_disk::sync::Mutex;
use std::sync::Arc;

/// Blocks of the first request: the head of a file, which every reader needs.
const FIRST: u64 = 4;

/// One version of a remote file, open for reading.
#[derive(Debug)]
pub struct Remote {
    /// The whole URL, which can have secrets.
    full_url: String,
    options: Options,
    object: Object,
    version: Version,
    blocks: Blocks,
    plan: Mutex<Plan>,
}

impl Remote {
    /// Opens the newest version of a file. Takes one request. If a server names versions by the
    /// second, and the file is younger than two seconds, this waits and takes a second one.
    ///
    /// If this version is open already with the same client and options, that file is returned:
    /// what it has in memory serves both.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn open(client: &'static Client, url: &str, options: &Options) -> Result<Arc<Remote>> {
        let object = Object::new(client, url, options)?;
        let mut head = object.get(0..FIRST * BLOCK, None)?;
        let time_until_unique = object.time_until_unique();
        if !time_until_unique.is_zero() {
            std::thread::sleep(time_until_unique);
            head = object.get(0..FIRST * BLOCK, None)?;
        }
        let (bytes, version) = head;
        let remote = Remote {
            full_url: url.to_owned(),
            options: options.clone(),
            object,
            version,
            blocks: Blocks::default(),
            plan: Mutex::default(),
        };
        remote.blocks.keep(0, &bytes);
        remote.plan.lock().note(0..FIRST.min(remote.total()));
        Ok(client.share(remote))
    }

    /// Whether both read the same version of the same file, in the same way.
    pub(crate) fn is_same(&self, other: &Remote) -> bool {
        self.full_url == other.full_url
            && self.options == other.options
            && self.version == other.version
    }

    /// Counts what opening the same file again has cost.
    pub(crate) fn count_opening(&self, again: &Remote) {
        self.object.counting().add(again.counters());
    }

    /// Reads from `offset` on, until `buf` is full or the file ends. Returns the number of bytes.
    ///
    /// # Errors
    /// See [`Problem`]. After [`Problem::Changed`], every read of bytes that are not in memory fails.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let end = offset
            .saturating_add(buf.len() as u64)
            .min(self.version.len);
        let mut at = offset;
        while at < end {
            let (block, within) = (at / BLOCK, usize_of(at % BLOCK));
            let rest = &mut buf[usize_of(at - offset)..usize_of(end - offset)];
            match self.blocks.copy(block, within, rest) {
                Some(n) => {
                    self.object.counting().hit();
                    at += n as u64;
                }
                None => {
                    let bytes = self.fetch(block, end.div_ceil(BLOCK))?;
                    // Not from the cache, which other threads can have filled by now.
                    let bytes = bytes.get(within..).unwrap_or_default();
                    let n = bytes.len().min(rest.len());
                    if n == 0 {
                        return Err(self.object.fail(Problem::WrongRange("no bytes".into())));
                    }
                    rest[..n].copy_from_slice(&bytes[..n]);
                    at += n as u64;
                }
            }
        }
        Ok(usize_of(at - offset.min(at)))
    }

    /// Fetches blocks from `first` on, of which those before `end` are needed. Returns the bytes
    /// from `first` on.
    fn fetch(&self, first: u64, end: u64) -> Result<Vec<u8>> {
        let missing = (first..end).find(|block| *block > first && self.blocks.has(*block));
        let needed = first..missing.unwrap_or(end);
        let most = self.object.pace().in_time().clamp(1, MOST);
        let mut window = self.plan.lock().window(needed.clone(), self.total(), most);
        // What is here at its ends is not fetched again. Blocks between are: a request costs more.
        while window.start < needed.start && self.blocks.has(window.start) {
            window.start += 1;
        }
        while needed.end < window.end && self.blocks.has(window.end - 1) {
            window.end -= 1;
        }
        let range = window.start * BLOCK..window.end * BLOCK;
        let (mut bytes, _) = self.object.get(range, Some(&self.version))?;
        self.blocks.keep(window.start, &bytes);
        Ok(bytes.split_off(usize_of((first - window.start) * BLOCK).min(bytes.len())))
    }

    /// The number of blocks.
    fn total(&self) -> u64 {
        self.version.len.div_ceil(BLOCK)
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.version.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.version.len == 0
    }

    /// The version, as text: two versions of one file have different texts.
    #[must_use]
    pub fn version(&self) -> String {
        self.version.text()
    }

    /// The URL, without secrets.
    #[must_use]
    pub fn url(&self) -> &str {
        self.object.url()
    }

    /// What reading has cost so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.object.counting().now()
    }
}

/// A number that is at most the length of a buffer.
fn usize_of(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

//! A remote file that is open for reading.

use crate::blocks::BLOCK;
use crate::cache::Cache;
use crate::counters::Counters;
use crate::disk_cache::DiskCache;
use crate::error::{Problem, Result};
use crate::flight::Flight;
use crate::object::Object;
use crate::plan::{MOST, Plan};
use crate::remote_options::RemoteOptions;
use crate::transport::Transport;
use crate::version::Version;
use densite_disk::sync::Mutex;
use densite_disk::wait::{Deadline, pause};
use std::sync::Arc;

/// Blocks of the first request: the head of a file, which every reader needs.
const FIRST: u64 = 4;
/// How often a block is fetched that other readers push out of memory before it is read.
const TRIES: u32 = 5;

/// What the first request asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// The head of the file.
    Beginning,
    /// The last `end` bytes of a file of `len`.
    End { len: u64, end: u64 },
}

/// One version of a remote file, open for reading.
#[derive(Debug)]
pub struct Remote {
    /// The whole URL, which can have secrets.
    full_url: String,
    options: RemoteOptions,
    object: Arc<Object>,
    version: Version,
    cache: Arc<Cache>,
    plan: Mutex<Plan>,
    /// The requests whose answers are arriving.
    flights: Mutex<Vec<Arc<Flight>>>,
}

impl Remote {
    /// See [`Client::open`](crate::Client::open).
    pub(crate) fn open(
        transport: &'static Transport,
        url: &str,
        options: &RemoteOptions,
        part: Part,
    ) -> Result<Remote> {
        let object = Object::new(transport, url, options)?;
        let asked = match part {
            Part::Beginning => 0..FIRST,
            Part::End { len, end } => {
                let total = len.div_ceil(BLOCK);
                total.saturating_sub(end.div_ceil(BLOCK))..total
            }
        };
        let bytes = asked.start * BLOCK..asked.end * BLOCK;
        let mut first = object.first(bytes.clone())?;
        let deadline = Deadline::after(options.timeout);
        loop {
            let time_until_unique = object.time_until_unique();
            if time_until_unique.is_zero() {
                break;
            }
            // It was replaced again and again, while this waited.
            if deadline.is_over() {
                return Err(object.fail(Problem::Changed));
            }
            pause(time_until_unique);
            first = object.first(bytes.clone())?;
        }
        let (bytes, version) = first;
        let disk = options.cache_dir.as_ref().map(|dir| {
            let (name, blocks) = (
                format!("{url} {}", version.text()),
                version.len.div_ceil(BLOCK),
            );
            DiskCache::open(dir, options.cache_bytes, &name, blocks)
        });
        let disk = disk.transpose().map_err(|problem| object.fail(problem))?;
        let remote = Remote {
            full_url: url.to_owned(),
            options: options.clone(),
            cache: Arc::new(Cache::new(version.len, disk, object.counting())),
            object: Arc::new(object),
            version,
            plan: Mutex::default(),
            flights: Mutex::default(),
        };
        remote.cache.keep(asked.start, &bytes);
        if asked.start == 0 {
            remote.plan.lock().note(0..asked.end.min(remote.total()));
        }
        Ok(remote)
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
        // In a forked child, the thread that held a lock is missing.
        if !self.object.is_of_this_process() {
            return Err(self.object.fail(Problem::Forked));
        }
        let end = offset
            .saturating_add(buf.len() as u64)
            .min(self.version.len);
        let mut at = offset;
        let mut tries = 0;
        while at < end {
            let (block, within) = (at / BLOCK, usize_of(at % BLOCK));
            let rest = &mut buf[usize_of(at - offset)..usize_of(end - offset)];
            match self.cache.copy(block, within, rest) {
                Some(n) => {
                    at += n as u64;
                    tries = 0;
                }
                None if tries < TRIES => {
                    self.fetch(block, end.div_ceil(BLOCK))?;
                    tries += 1;
                }
                None => {
                    let why = "other readers need all of its memory";
                    return Err(self.object.fail(Problem::Other(why.into())));
                }
            }
        }
        Ok(usize_of(at - offset.min(at)))
    }

    /// Waits until the block `first` has arrived. Asks for it if nothing else has, and for those
    /// before `end`, which are needed, too.
    fn fetch(&self, first: u64, end: u64) -> Result<()> {
        let flight = {
            let mut flights = self.flights.lock();
            flights.retain(|flight| !flight.is_over());
            match flights.iter().find(|flight| flight.is_coming(first)) {
                Some(flight) => flight.clone(),
                None => {
                    let flight = self.send(first, end, &flights);
                    flights.push(flight.clone());
                    flight
                }
            }
        };
        match flight.wait(first, self.object.patience())? {
            true => Ok(()),
            false => Err(self
                .object
                .fail(Problem::Timeout(self.options.timeout, None))),
        }
    }

    /// Sends a request.
    fn send(&self, first: u64, end: u64, flights: &[Arc<Flight>]) -> Arc<Flight> {
        let is_coming = |block| flights.iter().any(|flight| flight.is_coming(block));
        let has = |block| self.cache.has(block) || is_coming(block);
        let missing = (first..end).find(|block| *block > first && has(*block));
        let needed = first..missing.unwrap_or(end);
        // Requests under way share the memory, so that no block leaves it before it was read.
        let most = MOST / (1 + flights.len() as u64);
        let most = self.object.pace().in_time().clamp(1, most.max(1));
        let mut window = self.plan.lock().window(needed.clone(), self.total(), most);
        // What is here at its ends is not fetched again. Blocks between are: a request costs more.
        while window.start < needed.start && has(window.start) {
            window.start += 1;
        }
        while needed.end < window.end && has(window.end - 1) {
            window.end -= 1;
        }
        let flight = Arc::new(Flight::new(window));
        self.object.stream(&self.version, &flight, &self.cache);
        flight
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

impl Drop for Remote {
    fn drop(&mut self) {
        // A forked child has neither the thread nor its tasks.
        if self.object.is_of_this_process() {
            for flight in self.flights.lock().iter() {
                flight.abort();
            }
        }
    }
}

/// A number that is at most the length of a buffer.
fn usize_of(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

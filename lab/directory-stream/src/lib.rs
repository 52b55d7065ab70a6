//! For tests: a stream in a local directory, which needs no server.
//!
//! One file has all messages. An appender holds the lock of the file `lock`, writes a record, syncs
//! it, and then writes the end word. Readers read only up to the end word, so no reader sees a
//! message that a power cut can take back. A record behind the end word was written by a process
//! that was killed: the next appender writes it again, syncs it and keeps it. A torn record there
//! is written over. A removal of old messages writes a new file and renames it. Nothing is
//! acknowledged before the name of its file is durable.
//!
#![doc = include_str!("../FORMAT.md")]
#![forbid(unsafe_code)]

pub mod bytes;
mod file;
mod format;
mod known;
mod lock;

use densite_disk::sync::{Mutex, MutexGuard};
use densite_disk::wait::Retry;
use densite_disk::{Dir, File, RealDir};
use densite_stream::{
    Durability, Error, Extent, Identity, Message, Name, Position, Result, Seen, Stream,
    SyncInterval, Take,
};
use file::{StreamFile, failed};
use format::{Header, MAX_PAYLOAD};
use known::Known;
use lock::Locked;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest and the shortest pause of a reader that waits.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// From now on, this process opens streams in directories by their address, `directory:///PATH`.
pub fn register() {
    densite_stream::testing::add_scheme("directory", |path, create| {
        let stream = match create {
            true => Directory::open(path),
            false => Directory::find(path),
        };
        Ok(Arc::new(stream?))
    });
}

/// A stream in a local directory.
///
/// An open one holds 8 bytes of memory for each message, and reads the whole file when it is
/// opened.
pub struct Directory {
    dir: Mutex<Box<dyn Dir>>,
    lock: Mutex<Box<dyn File>>,
    known: Mutex<Known>,
    /// How often another file had its name.
    replaced: AtomicU64,
    identity: Identity,
    process: u32,
}

impl Directory {
    /// Opens the stream in the directory at `path`, and makes both if they are missing.
    ///
    /// # Errors
    /// [`Error::Refused`] if the directory cannot be made, a newer program wrote the stream, or it is
    /// damaged; [`Error::TryAgain`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Directory> {
        let dir = RealDir::create(path).map_err(failed)?;
        Directory::open_in(Box::new(dir))
    }

    /// Opens the stream in the directory at `path`, which exists.
    ///
    /// # Errors
    /// As [`Directory::open`]; [`Error::Refused`] if there is no stream.
    pub fn find(path: impl Into<PathBuf>) -> Result<Directory> {
        let path = path.into();
        let dir = RealDir::new(&path);
        match dir.exists(file::NAME) {
            Ok(true) => Directory::open_in(Box::new(dir)),
            Ok(false) => Err(Error::Refused(format!(
                "there is no stream in {}",
                path.display()
            ))),
            Err(e) => Err(failed(e)),
        }
    }

    /// As [`Directory::open`], in a directory that exists, such as one of a simulated disk.
    ///
    /// # Errors
    /// As [`Directory::open`].
    pub fn open_in(dir: Box<dyn Dir>) -> Result<Directory> {
        let lock = lock::open(&*dir)?;
        let file = {
            let _locked = Locked::take(&*lock)?;
            if !dir.exists(file::NAME).map_err(failed)? {
                let mut identity = Identity([0; 16]);
                densite_disk::random::random_bytes(&mut identity.0).map_err(failed)?;
                StreamFile::make(&*dir, Header { identity, first: 1 }, None)?;
            }
            let mut known = Known::of(StreamFile::open(&*dir, None)?)?;
            known.settle(&*dir)?;
            known
        };
        Ok(Directory {
            identity: file.header().identity,
            dir: Mutex::new(dir),
            lock: Mutex::new(lock),
            known: Mutex::new(file),
            replaced: AtomicU64::new(0),
            process: std::process::id(),
        })
    }

    /// What is known of the file that now has its name, up to its end.
    fn follow(&self) -> Result<MutexGuard<'_, Known>> {
        if std::process::id() != self.process {
            return Err(Error::Forked);
        }
        let mut known = self.known.lock();
        let dir = self.dir.lock();
        if !known.is_named(&**dir)? {
            self.replaced.fetch_add(1, Ordering::Relaxed);
            *known = Known::of(StreamFile::open(&**dir, Some(self.identity))?)?;
        }
        known.follow()?;
        Ok(known)
    }

    /// Does this under the lock of the directory that now has the path: the one that was opened can
    /// have been replaced by a copy.
    fn locked<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut lock = self.lock.lock();
        loop {
            let locked = Locked::take(&**lock)?;
            if !lock::is_replaced(&**lock, &**self.dir.lock())? {
                return work();
            }
            drop(locked);
            *lock = lock::open(&**self.dir.lock())?;
        }
    }

    /// As [`Directory::follow`], for a caller that has the lock: also behind the end word.
    fn settle(&self) -> Result<MutexGuard<'_, Known>> {
        let mut known = self.follow()?;
        known.settle(&**self.dir.lock())?;
        Ok(known)
    }
}

impl Stream for Directory {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn max_payload(&self) -> Result<usize> {
        Ok(MAX_PAYLOAD)
    }

    fn append(&self, origin: &Name, expected: u64, bytes: &[u8]) -> Result<u64> {
        if bytes.len() > MAX_PAYLOAD {
            return Err(Error::TooLarge {
                bytes: bytes.len(),
                max: MAX_PAYLOAD,
            });
        }
        self.locked(|| {
            let mut known = self.settle()?;
            let found = known.last_of(origin);
            let first = known.extent().first;
            if found == 0 && expected != 0 && expected < first {
                return Err(Error::Lost {
                    wanted: expected,
                    first,
                });
            }
            if found != expected {
                return Err(Error::Conflict {
                    origin: origin.to_string(),
                    expected,
                    found,
                });
            }
            known.append(origin, bytes)
        })
    }

    fn last_of(&self, origin: &Name) -> Result<Option<Message>> {
        let known = self.follow()?;
        match known.last_of(origin) {
            0 => Ok(None),
            sequence => known.read(sequence).map(Some),
        }
    }

    fn message(&self, sequence: u64) -> Result<Option<Message>> {
        let known = self.follow()?;
        let Extent { first, last } = known.extent();
        match (first..=last).contains(&sequence) {
            true => known.read(sequence).map(Some),
            false => Ok(None),
        }
    }

    fn read_after(&self, after: Position, take: Take) -> Result<Vec<Message>> {
        let retry = Retry::within(take.wait).between(PAUSE.0, PAUSE.1);
        loop {
            let found = self.follow()?.read_after(after, take)?;
            if !found.is_empty() || !retry.again() {
                return Ok(found);
            }
        }
    }

    fn seen(&self) -> Result<Seen> {
        if std::process::id() != self.process {
            return Err(Error::Forked);
        }
        Ok(Seen {
            begun: self.replaced.load(Ordering::Relaxed),
            ..Seen::default()
        })
    }

    fn extent(&self) -> Result<Extent> {
        Ok(self.follow()?.extent())
    }

    fn durability(&self) -> Result<Durability> {
        Ok(Durability {
            replicas: 1,
            sync: SyncInterval::Always,
        })
    }

    fn trim(&self, first: u64, origins: &[Name]) -> Result<()> {
        self.locked(|| {
            let mut known = self.settle()?;
            if let Some(why) = known.needs_below(first, origins) {
                return Err(Error::Refused(why));
            }
            if first <= known.extent().first {
                return Ok(());
            }
            let header = Header {
                identity: self.identity,
                first,
            };
            let dir = self.dir.lock();
            StreamFile::make(&**dir, header, Some(&*known))?;
            *known = Known::of(StreamFile::open(&**dir, Some(self.identity))?)?;
            known.settle(&**dir)
        })
    }
}

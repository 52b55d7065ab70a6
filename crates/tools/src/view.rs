//! A held database as SQLite sees it while it is rewritten. Reads come from the source. Writes (of
//! pruning) go to a temporary file. So the source does not change until the new file takes its
//! place.

use crate::error::{Error, Result};
use crate::first_error::FirstError;
use crate::pages::Pages;
use crate::source::State;
use crate::target::Target;
use crate::temp::Temp;
use densite_disk::{File, RealFile};
use densite_sqlite::{Api, Code, Connection, ffi};
use densite_vfs::{LockedView, ViewBytes, pause};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Race tests stop a rewriting that has read so many bytes: then some are written.
const PAUSE_AFTER: u64 = 3 << 20;

/// A source with changes over it. Locked one at a time; nothing is called with the lock held but
/// the files.
pub(crate) struct View {
    base: Arc<State>,
    page_size: u64,
    /// Logical length in bytes.
    len: AtomicU64,
    changes: Mutex<Changes>,
    /// Whether there are any.
    changed: AtomicBool,
    /// Bytes that SQLite has read.
    read: AtomicU64,
    /// What SQLite asks for next fails.
    stop: AtomicBool,
    /// For digests of what it holds.
    random: (u64, u64),
    /// The first error, which SQLite only gets a code of.
    failed: FirstError,
}

/// Pages that were written.
#[derive(Default)]
struct Changes {
    /// Where each lies in the file: the how-many-eth; 1 is the database's first page.
    places: HashMap<u64, u64>,
    /// Made when first needed.
    file: Option<(Temp, RealFile)>,
}

impl View {
    pub(crate) fn new(base: Arc<State>, page_size: u32) -> View {
        // The standard library seeds its hash maps from the system's randomness.
        let random = |n: u64| std::hash::RandomState::new().hash_one(n);
        View {
            random: (random(1), random(2)),
            page_size: u64::from(page_size),
            len: AtomicU64::new(base.len()),
            base,
            changes: Mutex::default(),
            changed: AtomicBool::new(false),
            read: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            failed: FirstError::default(),
        }
    }

    /// Has SQLite's next read fail: it ends what it is doing.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Bytes that SQLite has read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// What went wrong first, if anything.
    pub(crate) fn take_error(&self) -> Option<Error> {
        self.failed.take()
    }

    /// Two random numbers, the same as long as it lives.
    pub(crate) fn random(&self) -> (u64, u64) {
        self.random
    }

    /// Whether anything was written over the source.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// The source below.
    pub(crate) fn base(&self) -> &State {
        &self.base
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what SQLite would; past the end are zeros.
    pub(crate) fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.read_with(buf, offset, &mut |part, at| self.base.read(part, at))
    }

    /// The same, with the source's bytes from `below`.
    pub(crate) fn read_with(
        &self,
        buf: &mut [u8],
        offset: u64,
        below: &mut dyn FnMut(&mut [u8], u64) -> Result<()>,
    ) -> Result<()> {
        if !self.is_changed() {
            return below(buf, offset);
        }
        let mut done = 0usize;
        while done < buf.len() {
            let at = offset + done as u64;
            let page = at / self.page_size + 1;
            let left = usize::try_from(page * self.page_size - at).unwrap_or(buf.len());
            let end = buf.len().min(done + left);
            let Some(part) = buf.get_mut(done..end) else {
                break;
            };
            if !self.read_changed(part, page, at)? {
                below(part, at)?;
            }
            done = end;
        }
        Ok(())
    }

    /// Fills `part`, which lies within `page`, if that was changed.
    fn read_changed(&self, part: &mut [u8], page: u64, at: u64) -> Result<bool> {
        let changes = self.changes();
        let (Some(place), Some((temp, file))) = (changes.places.get(&page), &changes.file) else {
            return Ok(false);
        };
        let from = place * self.page_size + at % self.page_size;
        let n = file
            .read_at(part, from)
            .map_err(|e| Error::from_disk(temp.path(), "read", &e))?;
        if let Some(rest) = part.get_mut(n..) {
            rest.fill(0);
        }
        Ok(true)
    }

    /// Writes within one page.
    fn write_page(&self, part: &[u8], at: u64) -> Result<()> {
        let page = at / self.page_size + 1;
        let whole = part.len() as u64 == self.page_size;
        let mut old = Vec::new();
        if !whole {
            // SQLite writes whole pages; a part of one is laid over what there is.
            old.resize(usize::try_from(self.page_size).unwrap_or(0), 0);
            self.read_at(&mut old, (page - 1) * self.page_size)?;
            let from = usize::try_from(at % self.page_size).unwrap_or(0);
            if let Some(over) = old.get_mut(from..from + part.len()) {
                over.copy_from_slice(part);
            }
        }
        let mut changes = self.changes();
        if changes.file.is_none() {
            let target: &Target = self.base.target();
            let temp = Temp::create(&target.path, target, true)?;
            let file = temp.open()?;
            changes.file = Some((temp, file));
        }
        let next = changes.places.len() as u64;
        let place = *changes.places.entry(page).or_insert(next);
        if let Some((temp, file)) = &changes.file {
            let bytes = if whole { part } else { &old };
            file.write_at(bytes, place * self.page_size)
                .map_err(|e| Error::from_disk(temp.path(), "write", &e))?;
        }
        self.changed.store(true, Ordering::Release);
        let end = page * self.page_size;
        self.len.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }
}

impl ViewBytes for View {
    fn read(&self, buf: &mut [u8], offset: u64) -> std::result::Result<usize, Code> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Code::INTERRUPT);
        }
        self.failed.code(self.read_at(buf, offset))?;
        let left = usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let n = buf.len().min(left);
        if self.read.fetch_add(n as u64, Ordering::Relaxed) > PAUSE_AFTER {
            pause::at("vacuum-rewriting");
        }
        Ok(n)
    }

    fn write(&self, buf: &[u8], offset: u64) -> std::result::Result<(), Code> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Code::INTERRUPT);
        }
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let room = usize::try_from(self.page_size - at % self.page_size).unwrap_or(rest.len());
            let (part, later) = rest.split_at(room.min(rest.len()));
            self.failed.code(self.write_page(part, at))?;
            at += part.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> std::result::Result<(), Code> {
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }
}

/// A reader of a view for one thread, by a file of its own where that can be.
pub(crate) struct Reader<'a> {
    view: &'a View,
    own: Option<State>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(view: &'a View, own: Option<State>) -> Reader<'a> {
        Reader { view, own }
    }
}

impl Pages for Reader<'_> {
    fn len(&self) -> u64 {
        ViewBytes::len(self.view)
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        match &self.own {
            Some(own) => self
                .view
                .read_with(buf, offset, &mut |part, at| own.read(part, at)),
            None => self.view.read_at(buf, offset),
        }
    }
}

/// A connection to a view.
pub(crate) fn connect(api: Api, view: &LockedView) -> densite_sqlite::Result<Connection> {
    let flags = ffi::OPEN_READWRITE | ffi::OPEN_URI | ffi::OPEN_NOMUTEX;
    Connection::open(api, &view.uri(), flags, None)
}

/// Where messages say a view is from.
pub(crate) fn given(view: &View) -> &Path {
    &view.base().target().given
}

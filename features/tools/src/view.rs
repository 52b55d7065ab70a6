//! A database that this process holds alone, as SQLite sees it during a rewrite. Reads come from
//! the source. Writes (of pruning) go to a temporary file, so the source does not change until the
//! new file takes its place.

use crate::error::{Error, Result};
use crate::first_error::FirstError;
use crate::source::{Pages, State};
use crate::target::Target;
use crate::temp::Temp;
use densite_disk::{File, RealFile};
use densite_sqlite::{Api, Code, Connection, ffi};
use densite_vfs::{LockedView, ViewBytes, failpoint};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Race tests pause a rewrite after it has read this many bytes: at this point it has also written
/// some.
const PAUSE_AFTER: u64 = 3 << 20;

/// A source with changes over it. The lock protects the changes. Only file operations run while it
/// is held.
pub(crate) struct View {
    base: Arc<State>,
    page_size: u64,
    /// Logical length in bytes.
    len: AtomicU64,
    changes: Mutex<Changes>,
    /// Whether there are changes.
    changed: AtomicBool,
    /// Bytes that SQLite has read.
    read: AtomicU64,
    /// If set, SQLite's next read fails.
    stop: AtomicBool,
    /// For the digests of its content.
    random: (u64, u64),
    /// The first error. SQLite itself gets only its code.
    failed: FirstError,
}

/// Written pages.
#[derive(Default)]
struct Changes {
    /// The index of each changed page in the file, by page number from 1.
    places: HashMap<u64, u64>,
    /// Created on first use.
    file: Option<(Temp, RealFile)>,
}

impl View {
    pub(crate) fn new(base: Arc<State>, page_size: u32) -> View {
        // The standard library seeds its hash maps with random numbers of the system.
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

    /// Makes SQLite's next read fail, which ends its statement.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Bytes that SQLite has read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Takes the first error, if there was one.
    pub(crate) fn take_error(&self) -> Option<Error> {
        self.failed.take()
    }

    /// Two random numbers that stay the same for the life of this view.
    pub(crate) fn random(&self) -> (u64, u64) {
        self.random
    }

    /// Whether anything was written over the source.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// The source under the changes.
    pub(crate) fn base(&self) -> &State {
        &self.base
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the bytes that SQLite would read, with zeros past the end.
    pub(crate) fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.read_with(buf, offset, &mut |part, at| self.base.read(part, at))
    }

    /// The same, but `below` reads the bytes of the source.
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

    /// Fills `part`, which lies within `page`, if that page was changed. Returns whether it was.
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
            // SQLite writes whole pages. A part of a page is laid over its current content.
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
            failpoint::at("vacuum-rewriting");
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

/// Reads a view for one thread, through a file of its own if possible.
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

/// Runs SQL that only reads on a state of a database.
///
/// # Errors
/// SQLite's.
pub(crate) fn reading<T>(
    api: Api,
    state: &Arc<State>,
    read: impl FnOnce(&Connection) -> densite_sqlite::Result<T>,
) -> densite_sqlite::Result<T> {
    let view = Arc::new(View::new(Arc::clone(state), state.header().page_size));
    let locked = LockedView::new(api, view)?;
    read(&connect(api, &locked)?)
}

/// The path of the source of a view, for messages.
pub(crate) fn given(view: &View) -> &Path {
    &view.base().target().given
}

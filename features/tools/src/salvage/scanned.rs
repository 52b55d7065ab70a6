//! A Densite file of which commits or parts of the page map cannot be read: its pages by their frames,
//! which a scan of the file finds ([`store::Scan`]).

use crate::error::{Error, Result};
use crate::source::{Pages, Source};
use crate::target::Target;
use densite_disk::{OpenMode, RealFile};
use densite_store as store;
use std::path::PathBuf;

/// See the module.
pub(super) struct Scanned {
    path: PathBuf,
    file: RealFile,
    scan: store::Scan,
    page: Vec<u8>,
}

impl Scanned {
    /// Reads the file. `done` gets the bytes that were read, and returns whether to go on.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if it says no; [`Error::NotADatabase`] if there is no frame; I/O.
    pub(super) fn open(target: &Target, done: &mut dyn FnMut(u64) -> bool) -> Result<Scanned> {
        let path = target.given.clone();
        let failed = |e| Error::from_disk(&path, "read", &e);
        let file = RealFile::open(&target.path, OpenMode::Read).map_err(failed)?;
        let scan = match store::Scan::of(&file, done) {
            Ok(Some(scan)) => scan,
            Ok(None) => return Err(Error::Interrupted { path }),
            Err(e) => return Err(Error::from_store(&path, "read", e)),
        };
        Ok(Scanned {
            page: vec![0; scan.page_size() as usize],
            path,
            file,
            scan,
        })
    }
}

impl Pages for Scanned {
    fn len(&self) -> u64 {
        u64::from(self.scan.pages()) * u64::from(self.scan.page_size())
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let size = u64::from(self.scan.page_size());
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let begin = usize::try_from(at % size).unwrap_or_default();
            let number = u32::try_from(at / size + 1).unwrap_or(u32::MAX);
            if number > self.scan.pages() {
                rest.fill(0);
                break;
            }
            let read = self.scan.read_page(&self.file, number, &mut self.page);
            read.map_err(|e| Error::from_store(&self.path, "read", e))?;
            let from = self.page.get(begin..).unwrap_or_default();
            let len = from.len().min(rest.len());
            let (to, later) = rest.split_at_mut(len);
            to.copy_from_slice(from.get(..len).unwrap_or_default());
            at += len as u64;
            rest = later;
        }
        Ok(())
    }
}

/// A Densite file of which SQLite reads at least the first page. A page that it cannot read is
/// looked for by a scan, since its entry in the page map can be lost, and not the page.
pub(super) struct WithScan {
    source: Source,
    target: Target,
    scanned: Option<Result<Scanned>>,
    has_helped: bool,
}

impl WithScan {
    pub(super) fn new(source: Source, target: Target) -> WithScan {
        WithScan {
            source,
            target,
            scanned: None,
            has_helped: false,
        }
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// Whether the scan had something that SQLite could not read.
    pub(super) fn has_helped(&self) -> bool {
        self.has_helped
    }
}

impl Pages for WithScan {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let damage = match self.source.read(buf, offset) {
            Err(e @ Error::Damaged { .. }) => e,
            read => return read,
        };
        let target = &self.target;
        let scanned = (self.scanned).get_or_insert_with(|| Scanned::open(target, &mut |_| true));
        let found = scanned.as_mut().map(|scanned| scanned.read(buf, offset));
        if !matches!(found, Ok(Ok(()))) {
            // The reason that SQLite's reading gave says more.
            return Err(damage);
        }
        self.has_helped = true;
        Ok(())
    }
}

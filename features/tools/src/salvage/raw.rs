//! A plain file that SQLite does not read at all, for example because its end is missing: its bytes as
//! they are, without what a journal or WAL beside it would change.

use crate::error::{Error, Result};
use crate::source::Pages;
use crate::target::Target;
use densite_disk::{File, OpenMode, RealFile};
use densite_sqlite_format::{HEADER_LEN, Header};
use std::path::PathBuf;

/// See the module.
pub(super) struct RawFile {
    path: PathBuf,
    file: RealFile,
    /// Bytes that are there.
    there: u64,
    /// Bytes of all pages that the header counts.
    len: u64,
}

impl RawFile {
    /// Opens a file whose first page has a header.
    pub(super) fn open(target: &Target) -> Result<RawFile> {
        let path = target.path.clone();
        let failed = |e| Error::from_disk(&path, "read", &e);
        let file = RealFile::open(&path, OpenMode::Read).map_err(failed)?;
        let there = file.len().map_err(failed)?;
        let mut start = [0; HEADER_LEN];
        file.read_at(&mut start, 0).map_err(failed)?;
        let header = Header::parse(&start).ok_or_else(|| Error::NotADatabase {
            path: target.given.clone(),
            empty: there == 0,
        })?;
        let counted = u64::from(header.page_count) * u64::from(header.page_size);
        Ok(RawFile {
            len: there.max(counted),
            path,
            file,
            there,
        })
    }
}

impl Pages for RawFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        if offset + buf.len() as u64 > self.there {
            return Err(Error::Damaged {
                path: self.path.clone(),
                what: "the file ends before it".to_owned(),
            });
        }
        let read = self.file.read_at(buf, offset);
        let read = read.map_err(|e| Error::from_disk(&self.path, "read", &e))?;
        buf.get_mut(read..).unwrap_or_default().fill(0);
        Ok(())
    }
}

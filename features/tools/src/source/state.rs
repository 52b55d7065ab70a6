//! The bytes of a database whose state is kept unchanged: the file with the pages of its WAL laid
//! over it.

use crate::db::{Access, Through};
use crate::error::{Error, Result};
use crate::paths::beside;
use crate::target::Target;
use crate::wal::Wal;
use densite_disk::{File, RealFile};
use densite_sqlite::{Api, Code, HostFile};
use densite_sqlite_format::Header;

/// The state of a database that is kept unchanged. Several threads can read it, one at a time.
pub(crate) struct State {
    pub(super) file: HostFile,
    pub(super) overlay: Option<(Wal, RealFile)>,
    pub(super) target: Target,
    pub(super) through: Through,
    pub(super) len: u64,
    pub(super) header: Header,
}

impl State {
    /// Logical length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The header in its first page.
    pub(crate) fn header(&self) -> Header {
        self.header
    }

    /// The database of this state.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the file alone is the whole state.
    pub(crate) fn is_file_alone(&self) -> bool {
        self.overlay.is_none()
    }

    /// The same state through another open file, so two threads can read at once; `None` if a WAL
    /// is laid over the file. The lock stays with the first file.
    pub(crate) fn again(&self, api: Api, through: Through) -> Result<Option<State>> {
        if self.overlay.is_some() {
            return Ok(None);
        }
        Ok(Some(State {
            file: through.file(api, &self.target, Access::Read)?,
            overlay: None,
            target: self.target.clone(),
            through,
            len: self.len,
            header: self.header,
        }))
    }

    fn read_file(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let n = self
            .file
            .read_at(buf, offset)
            .map_err(|e| self.read_error(&e))?;
        if let Some(rest) = buf.get_mut(n..) {
            rest.fill(0);
        }
        Ok(())
    }

    /// Converts a read error. Our VFS reports damage with SQLite's code.
    fn read_error(&self, e: &densite_disk::Error) -> Error {
        match e.code.map(|c| Code(c).primary()) {
            Some(Code::CORRUPT) => Error::Damaged {
                path: self.target.given.clone(),
                what: densite_vfs::last_damage()
                    .or_else(densite_vfs::take_last_error)
                    .unwrap_or_else(|| "a page cannot be read (densite check tells which)".into()),
            },
            _ => Error::from_disk(&self.target.given, "read", e),
        }
    }

    /// Fills `buf` from `offset`, with zeros past the end.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.read_file(buf, offset)?;
        let Some((wal, file)) = &self.overlay else {
            return Ok(());
        };
        let size = u64::from(self.header.page_size);
        let end = offset + buf.len() as u64;
        let mut page_start = offset - offset % size;
        while page_start < end {
            let page = u32::try_from(page_start / size + 1).unwrap_or(u32::MAX);
            if let Some(at) = wal.find(page) {
                // The part of the page that lies in the buffer.
                let from = page_start.max(offset);
                let to = (page_start + size).min(end);
                let range = usize::try_from(from - offset).unwrap_or(0)
                    ..usize::try_from(to - offset).unwrap_or(0);
                if let Some(part) = buf.get_mut(range) {
                    let path = beside(&self.target.path, self.through.companions().wal);
                    let got = file
                        .read_at(part, at + (from - page_start))
                        .map_err(|e| Error::from_disk(&path, "read", &e))?;
                    if got < part.len() {
                        return Err(Error::Damaged {
                            path,
                            what: "it became shorter while it was read".into(),
                        });
                    }
                }
            }
            page_start += size;
        }
        Ok(())
    }
}

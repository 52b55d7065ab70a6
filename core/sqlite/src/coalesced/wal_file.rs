//! The WAL, whose frames are collected.

use super::Shared;
use super::frames::{Frames, Read, Write};
use crate::vfs::Above;
use crate::{Code, HostFile};
use densite_sqlite_format::wal::HEADER_LEN;

type Done = Result<(), Code>;

pub(super) struct WalFile {
    host: HostFile,
    shared: Shared,
}

impl WalFile {
    pub(super) fn new(host: HostFile, shared: Shared) -> WalFile {
        // A WAL that was open before can have had another page size.
        *shared.lock() = Frames::default();
        WalFile { host, shared }
    }

    fn flush(&self) -> Done {
        self.flush_these(&mut self.shared.lock())
    }

    /// Writes the collected frames. Keeps them if that fails.
    fn flush_these(&self, frames: &mut Frames) -> Done {
        if let Some((bytes, at)) = frames.pending() {
            self.host.write(bytes, at)?;
            self.shared.wal_progress.rise(bytes.len());
            frames.clear();
        }
        Ok(())
    }
}

impl Above for WalFile {
    fn host(&self) -> &HostFile {
        &self.host
    }

    /// A WAL has no shared memory of its own.
    fn has_shm(&mut self) -> bool {
        false
    }

    /// Drops the collected frames: they are not committed.
    fn close(&mut self) -> Done {
        self.shared.lock().clear();
        self.host.close()
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Code> {
        let mut frames = self.shared.lock();
        match frames.read(buf, offset) {
            Read::Answered => return Ok(buf.len()),
            Read::File => {}
            Read::FlushFirst => self.flush_these(&mut frames)?,
        }
        drop(frames);
        self.host.read(buf, offset)?;
        Ok(buf.len())
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Done {
        let mut frames = self.shared.lock();
        self.shared.wal_progress.reach(offset, buf.len());
        if offset > 0 && !frames.knows_pages() {
            // The WAL existed already: its header gives the page size.
            let mut header = [0; HEADER_LEN];
            if self.host.read(&mut header, 0).is_ok() {
                frames.learn(&header);
            }
        }
        let mut what = frames.write(buf, offset);
        if what == Write::FlushFirst {
            self.flush_these(&mut frames)?;
            what = frames.write(buf, offset);
        }
        if what == Write::Collected {
            return Ok(());
        }
        self.host.write(buf, offset)?;
        if offset == 0 {
            frames.learn(buf);
        }
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Done {
        self.flush()?;
        self.host.truncate(len)
    }

    fn sync(&mut self, flags: i32) -> Done {
        self.flush()?;
        self.host.sync_with(flags)
    }

    fn file_size(&mut self) -> Result<u64, Code> {
        self.flush()?;
        self.host.file_size()
    }
}

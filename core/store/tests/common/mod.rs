//! A file whose calls can be interrupted.

pub(crate) mod cells;
pub(crate) mod frames;
pub(crate) mod leaf;

use densite_disk::{File, FileAbove, Result};
use densite_sim_disk::SimFile;

/// When a call can be interrupted, with the offset.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    BeforeRead(u64),
    BeforeWrite(u64),
    AfterWrite(u64),
}

/// A file that calls `guest` before and after its calls.
pub(crate) struct Interrupted {
    pub(crate) file: SimFile,
    pub(crate) guest: Box<dyn Fn(Moment) + Send + Sync>,
}

impl FileAbove for Interrupted {
    fn below(&self) -> &dyn File {
        &self.file
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        (self.guest)(Moment::BeforeRead(offset));
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        (self.guest)(Moment::BeforeWrite(offset));
        self.file.write_at(buf, offset)?;
        (self.guest)(Moment::AfterWrite(offset));
        Ok(())
    }
}

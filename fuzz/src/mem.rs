//! A file in memory.

use densite_disk::sync::Mutex;
use densite_disk::{Error, ErrorKind, File, Op, Result, SyncKind};
use std::sync::Arc;

/// The largest size of a file in memory, in bytes.
const MOST: u64 = 64 << 20;

/// A file in memory. Clones are handles on the same file. Syncs do nothing.
#[derive(Clone, Default)]
pub struct MemFile(Arc<Mutex<Vec<u8>>>);

impl MemFile {
    /// A file with these bytes.
    pub fn new(bytes: Vec<u8>) -> MemFile {
        MemFile(Arc::new(Mutex::new(bytes)))
    }

    /// A copy of its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().clone()
    }
}

impl File for MemFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let bytes = self.0.lock();
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|at| bytes.get(at..))
            .unwrap_or_default();
        let n = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..n), rest.get(..n)) {
            to.copy_from_slice(from);
        }
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let end = offset
            .checked_add(buf.len() as u64)
            .filter(|end| *end <= MOST);
        let end = end.ok_or(Error::new(ErrorKind::Full, Op::Write))? as usize;
        let mut bytes = self.0.lock();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        if let Some(to) = bytes.get_mut(offset as usize..end) {
            to.copy_from_slice(buf);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        if len > MOST {
            return Err(Error::new(ErrorKind::Full, Op::Truncate));
        }
        self.0.lock().resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self, _: SyncKind) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.0.lock().len() as u64)
    }
}

//! A file in memory that tests can look into, change, and be called from.

use std::sync::Arc;

use densite_disk::{File, Result, SyncKind};
use parking_lot::Mutex;

type Hook = Box<dyn FnMut(u64, usize) + Send>;

/// Clones share the bytes, not the hook.
#[derive(Default)]
pub(crate) struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Called before each read, with its offset and length.
    hook: Mutex<Option<Hook>>,
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Memory { bytes: self.bytes.clone(), hook: Mutex::default() }
    }
}

impl Memory {
    pub(crate) fn new(bytes: Vec<u8>) -> Memory {
        Memory { bytes: Arc::new(Mutex::new(bytes)), hook: Mutex::default() }
    }

    /// The bytes as they are.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    /// The same file, calling `hook` before each read.
    pub(crate) fn hooked(&self, hook: impl FnMut(u64, usize) + Send + 'static) -> Memory {
        Memory { bytes: self.bytes.clone(), hook: Mutex::new(Some(Box::new(hook))) }
    }
}

impl File for Memory {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        // Taken out, so that the hook may use this file.
        let hook = self.hook.lock().take();
        if let Some(mut hook) = hook {
            hook(offset, buf.len());
            *self.hook.lock() = Some(hook);
        }
        let bytes = self.bytes.lock();
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let n = from.len().min(buf.len());
        buf[..n].copy_from_slice(&from[..n]);
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let (mut bytes, at) = (self.bytes.lock(), offset as usize);
        if bytes.len() < at + buf.len() {
            bytes.resize(at + buf.len(), 0);
        }
        bytes[at..at + buf.len()].copy_from_slice(buf);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.bytes.lock().resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self, _: SyncKind) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }
}

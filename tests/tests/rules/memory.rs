//! A file in memory whose bytes tests can read and change, with a hook for reads.

use std::sync::Arc;

use densite_disk::sync::Mutex;
use densite_disk::{File, Result, SyncKind};

type Hook = Box<dyn FnMut(u64, usize) + Send>;

/// Clones share the bytes, but not the hook.
#[derive(Default)]
pub(crate) struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Called before each read, with its offset and length.
    hook: Mutex<Option<Hook>>,
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Memory {
            bytes: self.bytes.clone(),
            hook: Mutex::default(),
        }
    }
}

impl Memory {
    pub(crate) fn new(bytes: Vec<u8>) -> Memory {
        Memory {
            bytes: Arc::new(Mutex::new(bytes)),
            hook: Mutex::default(),
        }
    }

    /// The current bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    /// The same file, calling `hook` before each read.
    pub(crate) fn hooked(&self, hook: impl FnMut(u64, usize) + Send + 'static) -> Memory {
        Memory {
            bytes: self.bytes.clone(),
            hook: Mutex::new(Some(Box::new(hook))),
        }
    }
}

impl File for Memory {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        // Taken out, so that the hook can use this file.
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

/// Number of bytes in a block of a [`Sparse`] file.
const BLOCK: usize = 4096;

/// A large file in which blocks of one repeated byte take no memory. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Sparse(Arc<Mutex<SparseBytes>>);

#[derive(Default)]
struct SparseBytes {
    blocks: std::collections::HashMap<u64, Block>,
    len: u64,
    written: Vec<std::ops::Range<u64>>,
}

enum Block {
    Same(u8),
    Bytes(Box<[u8]>),
}

impl Block {
    fn of(bytes: &[u8]) -> Block {
        // All bytes are equal if each equals the one before it: comparing two slices is fast.
        if bytes[1..] == bytes[..bytes.len() - 1] {
            Block::Same(bytes[0])
        } else {
            Block::Bytes(bytes.into())
        }
    }
}

impl Sparse {
    /// Its length.
    pub(crate) fn len(&self) -> u64 {
        self.0.lock().len
    }

    /// Whether a write touched the range.
    pub(crate) fn was_written(&self, range: std::ops::Range<u64>) -> bool {
        self.0
            .lock()
            .written
            .iter()
            .any(|w| w.start < range.end && range.start < w.end)
    }
}

impl SparseBytes {
    fn block(&self, number: u64) -> std::borrow::Cow<'_, [u8]> {
        match self.blocks.get(&number) {
            None => vec![0; BLOCK].into(),
            Some(Block::Same(byte)) => vec![*byte; BLOCK].into(),
            Some(Block::Bytes(bytes)) => bytes[..].into(),
        }
    }
}

impl File for Sparse {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let file = self.0.lock();
        let n = file.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let mut done = 0;
        while done < n {
            let at = offset + done as u64;
            let within = at as usize % BLOCK;
            let part = (BLOCK - within).min(n - done);
            let block = file.block(at / BLOCK as u64);
            buf[done..done + part].copy_from_slice(&block[within..within + part]);
            done += part;
        }
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let mut file = self.0.lock();
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let (number, within) = (at / BLOCK as u64, at as usize % BLOCK);
            let part = (BLOCK - within).min(buf.len() - done);
            let new = &buf[done..done + part];
            let block = if part == BLOCK {
                Block::of(new)
            } else {
                let mut block = file.block(number).into_owned();
                block[within..within + part].copy_from_slice(new);
                Block::of(&block)
            };
            file.blocks.insert(number, block);
            done += part;
        }
        let end = offset + buf.len() as u64;
        file.len = file.len.max(end);
        match file.written.last_mut() {
            Some(last) if last.end == offset => last.end = end,
            _ => file.written.push(offset..end),
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut file = self.0.lock();
        if len < file.len {
            file.blocks
                .retain(|number, _| number * (BLOCK as u64) < len);
        }
        file.len = len;
        Ok(())
    }

    fn sync(&self, _: SyncKind) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.0.lock().len)
    }
}

//! The blocks of a remote file that are here: in memory, and on the local disk.

use crate::blocks::{BLOCK, Blocks};
use crate::counters::Counting;
use crate::disk_cache::DiskCache;
use std::sync::Arc;

/// The blocks of one version that are here.
#[derive(Debug)]
pub(crate) struct Cache {
    /// The length of the file in bytes.
    len: u64,
    memory: Blocks,
    disk: Option<DiskCache>,
    counting: Arc<Counting>,
}

impl Cache {
    pub(crate) fn new(len: u64, disk: Option<DiskCache>, counting: Arc<Counting>) -> Cache {
        Cache {
            len,
            memory: Blocks::default(),
            disk,
            counting,
        }
    }

    /// Copies bytes of a block, from `within` it on; `None` if it is not here. Returns how many.
    pub(crate) fn copy(&self, block: u64, within: usize, buf: &mut [u8]) -> Option<usize> {
        if let Some(n) = self.memory.copy(block, within, buf) {
            self.counting.hit();
            return Some(n);
        }
        let bytes = self.on_disk(block)?;
        self.counting.disk_hit();
        self.memory.keep(block, &bytes);
        let bytes = bytes.get(within..)?;
        let n = bytes.len().min(buf.len());
        buf.get_mut(..n)?.copy_from_slice(bytes.get(..n)?);
        Some(n)
    }

    /// Whether a block is here.
    pub(crate) fn has(&self, block: u64) -> bool {
        self.memory.has(block) || self.on_disk(block).is_some()
    }

    /// Keeps the blocks from `first` on. Only the last block of a file may be shorter.
    pub(crate) fn keep(&self, first: u64, bytes: &[u8]) {
        self.memory.keep(first, bytes);
        if let Some(disk) = &self.disk {
            disk.keep(first, bytes);
        }
    }

    fn on_disk(&self, block: u64) -> Option<Vec<u8>> {
        let len = BLOCK.min(self.len.checked_sub(block * BLOCK)?);
        self.disk.as_ref()?.read(block, usize::try_from(len).ok()?)
    }
}

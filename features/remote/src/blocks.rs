//! The blocks of a remote file that are in memory.

use densite_disk::sync::Mutex;
use lru::LruCache;
use std::num::NonZeroUsize;

/// Bytes of a block. A lookup asks for one, and pages of 4 KiB take about 1 KiB in a file.
pub(crate) const BLOCK: u64 = 16 << 10;
/// How many blocks are kept: 32 MiB. Decoded pages have a cache of their own.
const KEPT: NonZeroUsize = NonZeroUsize::new(2048).expect("not zero");

/// A bounded cache of blocks, by number.
#[derive(Debug)]
pub(crate) struct Blocks(Mutex<LruCache<u64, Box<[u8]>>>);

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks(Mutex::new(LruCache::new(KEPT)))
    }
}

impl Blocks {
    /// Copies bytes of a block, from `within` it on; `None` if it is not here. Returns how many.
    pub(crate) fn copy(&self, block: u64, within: usize, buf: &mut [u8]) -> Option<usize> {
        let mut blocks = self.0.lock();
        let bytes = blocks.get(&block)?.get(within..)?;
        let n = bytes.len().min(buf.len());
        buf.get_mut(..n)?.copy_from_slice(bytes.get(..n)?);
        Some(n)
    }

    /// Whether a block is here.
    pub(crate) fn has(&self, block: u64) -> bool {
        self.0.lock().contains(&block)
    }

    /// Keeps the blocks from `first` on. Only the last block of a file may be shorter.
    pub(crate) fn keep(&self, first: u64, bytes: &[u8]) {
        let mut blocks = self.0.lock();
        let size = usize::try_from(BLOCK).unwrap_or(usize::MAX);
        for (number, block) in (first..).zip(bytes.chunks(size)) {
            blocks.put(number, block.into());
        }
    }
}

//! Bits in Arrow's order: the lowest bit of the first byte is the first.

use crate::memory::Slice;

/// Readable bits, from any bit of the memory on.
pub struct Bits {
    bytes: Slice<u8>,
    offset: usize,
}

impl Bits {
    /// The bits of `bytes` from bit `offset` on.
    pub fn new(bytes: Slice<u8>, offset: usize) -> Bits {
        Bits { bytes, offset }
    }

    /// The number of bytes for `len` bits from bit `offset` on.
    pub fn bytes_for(offset: usize, len: usize) -> usize {
        (offset + len).div_ceil(8)
    }

    /// A bit; false after the end.
    pub fn get(&self, index: usize) -> bool {
        let at = self.offset + index;
        self.bytes
            .get(at / 8)
            .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
    }
}

/// Bits that are appended one by one.
#[derive(Debug, Default)]
pub(crate) struct BitsBuilder {
    bytes: Vec<u8>,
    len: usize,
    pub(crate) zeros: usize,
}

impl BitsBuilder {
    pub(crate) fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.len % 8);
        }
        self.len += 1;
        self.zeros += usize::from(!bit);
    }

    /// Makes `n` ones.
    pub(crate) fn ones(n: usize) -> BitsBuilder {
        let mut bytes = vec![0xff; n.div_ceil(8)];
        if let Some(last) = bytes.last_mut().filter(|_| !n.is_multiple_of(8)) {
            *last = (1 << (n % 8)) - 1;
        }
        BitsBuilder {
            bytes,
            len: n,
            zeros: 0,
        }
    }

    pub(crate) fn get(&self, index: usize) -> bool {
        self.bytes
            .get(index / 8)
            .is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

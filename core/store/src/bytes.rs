//! Appending little-endian fields, and copying from a slice that can be shorter than requested.

/// Appends fields one after another.
pub(crate) trait Put {
    fn put_u8(&mut self, v: u8);
    fn put_u16(&mut self, v: u16);
    /// The low three bytes of `v`.
    fn put_u24(&mut self, v: u32);
    fn put_u32(&mut self, v: u32);
    /// The low six bytes of `v`.
    fn put_u48(&mut self, v: u64);
    fn put_u64(&mut self, v: u64);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, v: u8) {
        self.push(v);
    }
    fn put_u16(&mut self, v: u16) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn put_u24(&mut self, v: u32) {
        let [a, b, c, _] = v.to_le_bytes();
        self.extend_from_slice(&[a, b, c]);
    }
    fn put_u32(&mut self, v: u32) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn put_u48(&mut self, v: u64) {
        let [a, b, c, d, e, f, ..] = v.to_le_bytes();
        self.extend_from_slice(&[a, b, c, d, e, f]);
    }
    fn put_u64(&mut self, v: u64) {
        self.extend_from_slice(&v.to_le_bytes());
    }
}

/// Copies the bytes of `from` from `at` on into `out`, and fills the rest with zeros.
pub(crate) fn copy_part(from: &[u8], at: usize, out: &mut [u8]) {
    let part = from.get(at..).unwrap_or_default();
    let n = part.len().min(out.len());
    let (head, tail) = out.split_at_mut(n);
    head.copy_from_slice(part.get(..n).unwrap_or_default());
    tail.fill(0);
}

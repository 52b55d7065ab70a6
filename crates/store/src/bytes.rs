//! Little-endian fields, read with every length checked.

/// Reads fields one after another; past the end it answers `None`.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Fields { rest: bytes }
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u24(&mut self) -> Option<u32> {
        let [a, b, c] = self.array()?;
        Some(u32::from_le_bytes([a, b, c, 0]))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u48(&mut self) -> Option<u64> {
        let [a, b, c, d, e, f] = self.array()?;
        Some(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }
}

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

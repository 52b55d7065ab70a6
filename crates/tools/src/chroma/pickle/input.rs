//! The bytes of a pickle: read once, from front to end, with the place always known.

use super::PickleError;
use std::io::{BufRead, ErrorKind};

/// The longest line or string that is read, in bytes. Record ids, the longest texts in Chroma's
/// pickles, are far shorter.
const TEXT_MAX: u64 = 1 << 20;

/// A string is read in pieces of this many bytes, so that a length which lies allocates nothing.
const PIECE: u64 = 64 << 10;

pub(super) struct Input<R> {
    from: R,
    /// Bytes read so far.
    at: u64,
    /// Bytes that there are.
    len: u64,
    /// Where the instruction begins that is being carried out.
    instruction: u64,
    text: Vec<u8>,
}

impl<R: BufRead> Input<R> {
    pub(super) fn new(from: R, len: u64) -> Input<R> {
        Input {
            from,
            at: 0,
            len,
            instruction: 0,
            text: Vec::new(),
        }
    }

    /// Bytes that there are in all.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The next instruction's code.
    pub(super) fn instruction(&mut self) -> Result<u8, PickleError> {
        self.instruction = self.at;
        let [code] = self.bytes()?;
        Ok(code)
    }

    /// An error at the instruction that is being carried out.
    pub(super) fn error(&self, what: impl Into<String>) -> PickleError {
        PickleError {
            offset: self.instruction,
            what: what.into(),
        }
    }

    /// The next `N` bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let mut bytes = [0u8; N];
        self.from
            .read_exact(&mut bytes)
            .map_err(|e| self.failed(&e))?;
        self.at += N as u64;
        Ok(bytes)
    }

    /// The next `n` bytes, which stand for a text or a long number.
    pub(super) fn string(&mut self, n: u64) -> Result<&[u8], PickleError> {
        if n > self.len.saturating_sub(self.at) {
            return Err(self.error("it says that it is longer than the file"));
        }
        if n > TEXT_MAX {
            return Err(self.error(format!(
                "a text of {n} bytes is longer than any of Chroma's"
            )));
        }
        self.text.clear();
        let mut left = n;
        while left > 0 {
            let piece = left.min(PIECE);
            let start = self.text.len();
            self.text.resize(start + to_usize(piece), 0);
            if let Some(room) = self.text.get_mut(start..)
                && let Err(e) = self.from.read_exact(room)
            {
                return Err(self.failed(&e));
            }
            self.at += piece;
            left -= piece;
        }
        Ok(&self.text)
    }

    /// The rest of the line, without its end.
    pub(super) fn line(&mut self) -> Result<&[u8], PickleError> {
        self.text.clear();
        loop {
            let [byte] = self.bytes()?;
            if byte == b'\n' {
                return Ok(&self.text);
            }
            if self.text.len() as u64 >= TEXT_MAX {
                return Err(self.error("a line is longer than any of Chroma's"));
            }
            self.text.push(byte);
        }
    }

    /// Whether nothing follows.
    pub(super) fn is_at_end(&mut self) -> Result<bool, PickleError> {
        match self.from.fill_buf() {
            Ok(rest) => Ok(rest.is_empty()),
            Err(e) => Err(self.failed(&e)),
        }
    }

    fn failed(&self, e: &std::io::Error) -> PickleError {
        match e.kind() {
            ErrorKind::UnexpectedEof => self.error("it ends too early"),
            _ => self.error(format!("it cannot be read ({e})")),
        }
    }
}

/// A number that was checked to be small.
pub(super) fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

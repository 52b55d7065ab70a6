//! Reads the bytes of a pickle once, from start to end, and tracks the offset for errors.

use super::PickleError;
use std::io::{BufRead, ErrorKind};

/// The length in bytes of the longest line or string that is accepted. Record ids, the longest
/// texts in Chroma's pickles, are far shorter.
const TEXT_MAX: u64 = 1 << 20;

/// A string is read in pieces of this many bytes, so that a false length does not cause a large
/// allocation.
const PIECE: u64 = 64 << 10;

pub(super) struct Input<R> {
    from: R,
    /// Bytes read so far.
    at: u64,
    /// Length of the pickle in bytes.
    len: u64,
    /// Offset of the instruction that is being executed.
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

    /// Length of the pickle in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The code of the next instruction.
    pub(super) fn instruction(&mut self) -> Result<u8, PickleError> {
        self.instruction = self.at;
        let [code] = self.bytes()?;
        Ok(code)
    }

    /// An error at the instruction that is being executed.
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

    /// The next `n` bytes, which are a text or a long number.
    pub(super) fn string(&mut self, n: u64) -> Result<&[u8], PickleError> {
        if n > self.len.saturating_sub(self.at) {
            return Err(self.error("a text or number that is longer than the file"));
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

    /// The rest of the line, without its line end.
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

    /// Whether all bytes have been read.
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

/// Converts a number that was checked to be small.
pub(super) fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

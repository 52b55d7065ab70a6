//! The members of a gzip file, one after another.
//!
//! Zeros behind a member are skipped, as gzip does: tapes and disks pad files to whole blocks.

use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

/// The contents of all members.
pub(super) struct Members<R> {
    /// `None`: the last member has been read.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    pub(super) fn new(reader: R) -> Members<R> {
        Members {
            member: Some(GzDecoder::new(reader)),
        }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(buf)?;
            if read > 0 || buf.is_empty() {
                return Ok(read);
            }
            let rest = self.member.take().map(GzDecoder::into_inner);
            self.member = rest.map(next).transpose()?.flatten();
        }
        Ok(0)
    }
}

/// The next member; `None` at the end of the file.
fn next<R: BufRead>(mut reader: R) -> io::Result<Option<GzDecoder<R>>> {
    loop {
        let bytes = reader.fill_buf()?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        match (bytes.len(), zeros) {
            (0, _) => return Ok(None),
            (len, zeros) if zeros < len => {
                reader.consume(zeros);
                return Ok(Some(GzDecoder::new(reader)));
            }
            _ => reader.consume(zeros),
        }
    }
}

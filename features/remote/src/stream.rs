//! Reading a long range of an object: its bytes are handed on as they arrive. So a range can be larger
//! than the memory, and one request is enough for any number of bytes.

use crate::arriving::Failure;
use crate::bucket::Bucket;
use crate::error::{Problem, Result};
use std::ops::Range;
use std::time::Instant;

/// How often a request without a single byte is sent.
const TRIES: u32 = 5;
impl Bucket {
    /// Reads a range of an object. `sink` gets its bytes in their order, as they arrive, and stops
    /// the reading by returning false. An answer that breaks off is continued where it broke.
    ///
    /// # Errors
    /// [`Problem::NotFound`], [`Problem::Stopped`]; see [`Problem`].
    pub fn stream(
        &self,
        name: &str,
        range: Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let (mut at, mut tries) = (range.start, 0);
        loop {
            let before = at;
            let end = self.stream_once(name, at..range.end, &mut |bytes| {
                at += bytes.len() as u64;
                sink(bytes)
            });
            tries = if at > before { 1 } else { tries + 1 };
            match end {
                Err(e) if matches!(e.problem(), Problem::Other(_)) && tries < TRIES => {}
                Ok(()) if at < range.end && tries < TRIES => {}
                Ok(()) if at != range.end => {
                    let why = format!("it ends at byte {at} instead of {}", range.end);
                    return Err(self.object().fail(Problem::WrongRange(why)));
                }
                end => return end,
            }
        }
    }

    /// Sends one request, whose answer can break off.
    fn stream_once(
        &self,
        name: &str,
        range: Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let (object, begun) = (self.object(), Instant::now());
        let mut arriving = object.send(name, range)?;
        while let Some(next) = arriving.next() {
            let bytes = next.map_err(|e| match e {
                Failure::Store(e) => object.failed(&e, begun),
                Failure::Late(time) => object.fail(Problem::Other(format!(
                    "no byte came for {} s",
                    time.as_secs()
                ))),
            })?;
            object.counting().arrived(bytes.len() as u64);
            if !sink(&bytes) {
                return Err(object.fail(Problem::Stopped));
            }
        }
        Ok(())
    }
}

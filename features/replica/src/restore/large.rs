//! Reading an object that is too large for memory, with few requests.
//!
//! Its first extent is the file from its first byte on. A few parts of it are read at once, and
//! their bytes have the same offsets in the file. The extents behind it win over it, so they are
//! written when all of it is there, in their order. Most objects have them near their end, which is
//! read with their table.
//!
//! The file itself shows how far an interrupted call came. The bytes of a part come in their order,
//! so all of it is there up to the last byte that is not zero. The last bytes of the extent are
//! written when all others are there. So if the file is that long, later extents can have changed
//! it, and only they are read again.

use super::Restoring;
use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::extents::{BASE_END, Index, index};
use crate::format::Footer;
use densite_disk::hash::Xxh3_128;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// At most so many requests read the extents.
const PARTS: u64 = 4;
/// No part has fewer bytes.
const PART_LEAST: u64 = 8 << 20;
/// Bytes that are written or read back at once.
const CHUNK: u64 = 1 << 20;

/// Bytes of the object, and where they begin in it.
type Chunk = (u64, Vec<u8>);

/// What is where in a large object.
struct Layout<'a> {
    name: &'a str,
    index: Index,
    /// The length of the first extent; 0 if it is not the beginning of the file.
    first_len: u64,
    /// The bytes at the end of the object that were read with its table.
    end: Chunk,
}

impl<'a> Layout<'a> {
    /// Reads the table of an object of `len` bytes.
    fn read(bucket: &dyn Bucket, name: &'a str, len: u64) -> Result<Layout<'a>> {
        let mut end = (len, Vec::new());
        let index = index(name, len, BASE_END, &mut |buf, offset| {
            let bytes = bucket.get_range(name, offset, buf.len() as u64)?;
            buf.copy_from_slice(&bytes);
            end = (offset, bytes);
            Ok(buf.len())
        })?;
        let first = index.extents.first().filter(|(offset, _)| *offset == 0);
        let first_len = first.map_or(0, |(_, len)| *len);
        Ok(Layout {
            name,
            index,
            first_len,
            end,
        })
    }

    fn body_len(&self) -> u64 {
        self.index.footer.body_len
    }

    /// The parts of the first extent. They depend on the object only: a later call finds in them
    /// what an interrupted one has read.
    fn parts(&self) -> Vec<Range<u64>> {
        // What is behind the extent takes a request, too, if it was not read with the table.
        let more = u64::from(self.end.0 > self.first_len);
        let count = (self.first_len / PART_LEAST).clamp(1, PARTS - more);
        let begin = |n: u64| self.first_len / count * n;
        let end = |n: u64| match n + 1 == count {
            true => self.first_len,
            false => begin(n + 1),
        };
        (0..count).map(|n| begin(n)..end(n)).collect()
    }

    fn damaged(&self) -> Error {
        Error::Damaged {
            object: self.name.to_owned(),
            problem: "the checksum of its bytes is wrong".to_owned(),
        }
    }
}

impl Restoring<'_> {
    /// Writes the extents of an object of `len` bytes.
    pub(super) fn apply_large(&mut self, name: &str, len: u64) -> Result<(Footer, [u8; 16])> {
        let layout = Layout::read(self.bucket, name, len)?;
        self.objects += 1;
        let left = self.file.len().map_err(Error::Local)?;
        let is_changed = left > 0 && left >= layout.first_len;
        if is_changed {
            self.resumed = layout.first_len;
            self.apply_end(&layout, None)?;
        } else if !self.apply_missing(&layout, left)? {
            // A power cut can have lost bytes of what an interrupted call wrote.
            self.file.set_len(0).map_err(Error::Local)?;
            self.expected += self.bytes;
            self.resumed = 0;
            if !self.apply_missing(&layout, 0)? {
                return Err(layout.damaged());
            }
        }
        self.received(len - layout.body_len())?;
        Ok((layout.index.footer, layout.index.chain))
    }

    /// Writes all extents, and verifies them. Of the first one, the file has something if it has
    /// `left` bytes. Returns false if the bytes that it has are wrong.
    fn apply_missing(&mut self, layout: &Layout<'_>, left: u64) -> Result<bool> {
        let mut missing = Vec::new();
        for part in layout.parts() {
            let begin = self.end_of_left(part.start..part.end.min(left))?;
            missing.push(begin.unwrap_or(part.start)..part.end);
        }
        let to_read: u64 = missing.iter().map(|part| part.end - part.start).sum();
        self.resumed = layout.first_len - to_read;
        self.received(0)?;
        self.read_parts(layout, &missing)?;
        let mut hash = self.hash_back(layout.first_len)?;
        self.apply_end(layout, Some(&mut hash))?;
        let is_whole = hash.digest().to_le_bytes() == layout.index.footer.body_hash;
        match is_whole || self.resumed > 0 {
            true => Ok(is_whole),
            false => Err(layout.damaged()),
        }
    }

    /// The end of the last byte of a range of the file that is not zero; `None` if all are.
    fn end_of_left(&self, range: Range<u64>) -> Result<Option<u64>> {
        let mut end = range.end;
        while end > range.start {
            let begin = end.saturating_sub(CHUNK).max(range.start);
            let bytes = self.read_back(begin, end - begin)?;
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                return Ok(Some(begin + last as u64 + 1));
            }
            end = begin;
        }
        Ok(None)
    }

    /// Reads ranges of the first extent into the file, several at once. The end of the extent is
    /// written last.
    fn read_parts(&mut self, layout: &Layout<'_>, ranges: &[Range<u64>]) -> Result<()> {
        let (bucket, name) = (self.bucket, layout.name);
        if bucket.at_once() == 1 {
            for range in ranges {
                read(bucket, name, range, &mut |chunk| self.write_chunk(&chunk))?;
            }
            return Ok(());
        }
        std::thread::scope(|scope| {
            let (send, chunks) = sync_channel(ranges.len());
            for range in ranges {
                let send = send.clone();
                scope.spawn(move || send_range(bucket, name, range, &send));
            }
            drop(send);
            self.receive(chunks, layout.first_len)
        })
    }

    /// Writes chunks as they come, and the last ones of the first extent when all others are there.
    /// The threads that send them end if this returns early.
    fn receive(&mut self, chunks: Receiver<Result<Chunk>>, first_len: u64) -> Result<()> {
        let mut last = None;
        for chunk in chunks {
            let (at, bytes) = chunk?;
            match at + bytes.len() as u64 == first_len {
                true => last = Some((at, bytes)),
                false => self.write_chunk(&(at, bytes))?,
            }
        }
        last.map_or(Ok(()), |chunk| self.write_chunk(&chunk))
    }

    fn write_chunk(&mut self, (at, bytes): &Chunk) -> Result<()> {
        self.file.write_at(bytes, *at).map_err(Error::Local)?;
        self.received(bytes.len() as u64)
    }

    /// The hash of the first bytes of the file.
    fn hash_back(&mut self, len: u64) -> Result<Xxh3_128> {
        let mut hash = Xxh3_128::default();
        let mut at = 0;
        while at < len {
            let bytes = self.read_back(at, CHUNK.min(len - at))?;
            hash.update(&bytes);
            at += CHUNK;
            self.received(0)?;
        }
        Ok(hash)
    }

    fn read_back(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let read = self.file.read_at(&mut bytes, offset);
        bytes.truncate(read.map_err(Error::Local)?);
        Ok(bytes)
    }

    /// Writes the extents behind the first one.
    fn apply_end(&mut self, layout: &Layout<'_>, hash: Option<&mut Xxh3_128>) -> Result<()> {
        let mut end = End {
            places: layout.index.places().collect(),
            hash,
        };
        let (in_memory, bytes) = &layout.end;
        let (bucket, first) = (self.bucket, layout.first_len);
        if *in_memory > first {
            let range = first..(*in_memory).min(layout.body_len());
            read(bucket, layout.name, &range, &mut |chunk| {
                end.put(self, chunk.0, &chunk.1)
            })?;
        }
        let begin = first.max(*in_memory);
        let bytes = part_of(
            bytes,
            begin - in_memory,
            layout.body_len().saturating_sub(begin),
        );
        end.put(self, begin, bytes)
    }
}

/// The extents whose bytes come one after the other.
struct End<'a> {
    /// Offset in the file, offset in the object, and length.
    places: Vec<(u64, u64, u64)>,
    hash: Option<&'a mut Xxh3_128>,
}

impl End<'_> {
    /// Writes bytes that begin at `at` in the object.
    fn put(&mut self, to: &mut Restoring<'_>, at: u64, bytes: &[u8]) -> Result<()> {
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        let end = at + bytes.len() as u64;
        let begun = self
            .places
            .partition_point(|(_, begin, len)| begin + len <= at);
        let places = self.places.get(begun..).unwrap_or_default();
        for (offset, begin, len) in places.iter().take_while(|(_, begin, _)| *begin < end) {
            let from = at.max(*begin);
            let len = end.min(begin + len) - from;
            to.write(part_of(bytes, from - at, len), offset + (from - begin))?;
        }
        to.received(bytes.len() as u64)
    }
}

/// A part of some bytes.
fn part_of(bytes: &[u8], at: u64, len: u64) -> &[u8] {
    let at = usize::try_from(at).unwrap_or(bytes.len());
    let rest = bytes.get(at..).unwrap_or_default();
    let len = usize::try_from(len).unwrap_or(rest.len());
    rest.get(..len).unwrap_or(rest)
}

/// Reads a range of an object in chunks.
fn read(
    bucket: &dyn Bucket,
    name: &str,
    range: &Range<u64>,
    sink: &mut dyn FnMut(Chunk) -> Result<()>,
) -> Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let (mut at, mut bytes) = (range.start, Vec::new());
    bucket.stream(name, at, range.end - at, &mut |more| {
        bytes.extend_from_slice(more);
        if bytes.len() as u64 >= CHUNK {
            let chunk = std::mem::take(&mut bytes);
            let begin = at;
            at += chunk.len() as u64;
            sink((begin, chunk))?;
        }
        Ok(())
    })?;
    match bytes.is_empty() {
        true => Ok(()),
        false => sink((at, bytes)),
    }
}

/// Sends the chunks of a range to the thread that writes, and an error at the end.
fn send_range(
    bucket: &dyn Bucket,
    name: &str,
    range: &Range<u64>,
    send: &SyncSender<Result<Chunk>>,
) {
    let read = read(bucket, name, range, &mut |chunk| {
        send.send(Ok(chunk)).map_err(|_| Error::Stopped)
    });
    if let Err(e) = read {
        // If it cannot be sent, the thread that writes has stopped already.
        let _ = send.send(Err(e));
    }
}

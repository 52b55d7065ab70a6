//! The file as of one restore point.

use crate::bucket::RemoteObject;
use crate::error::{Error, Result};
use crate::extents::{Index, Object};
use crate::format::Footer;
use crate::log_place::is_of_file;
use crate::overlay::{Overlay, Part};
use densite_store::{CommitId, PREAMBLE_LEN};
use std::sync::Arc;

/// Where bytes of the file are.
#[derive(Clone)]
pub(super) enum Holder {
    Memory(Arc<Object>),
    Remote(Arc<dyn RemoteObject>),
    /// The beginning of the file, which is made for a commit.
    Made(Arc<Vec<u8>>),
}

/// A part of the file.
#[derive(Clone)]
struct Piece {
    holder: Holder,
    at: u64,
    len: u64,
}

impl Part for Piece {
    fn len(&self) -> u64 {
        self.len
    }

    fn slice(&self, from: u64, len: u64) -> Piece {
        Piece {
            holder: self.holder.clone(),
            at: self.at + from,
            len,
        }
    }
}

/// The file as of one restore point. It never changes.
#[derive(Clone)]
pub struct Snapshot {
    generation: String,
    footer: Footer,
    chain: [u8; 16],
    pieces: Overlay<Piece>,
    /// Bytes of deltas in memory that could be merged ones.
    kept: u64,
}

impl Snapshot {
    /// A base.
    pub(super) fn base(generation: &str, holder: &Holder, index: &Index) -> Snapshot {
        let mut snapshot = Snapshot {
            generation: generation.to_owned(),
            footer: index.footer.clone(),
            chain: index.chain,
            pieces: Overlay::default(),
            kept: 0,
        };
        snapshot.lay(holder, index);
        // A base has the fields of the preamble at its end. So its beginning is not read for them.
        if let Some(mark) = &index.footer.to {
            let made = made(mark);
            let len = made.len() as u64;
            let holder = Holder::Made(Arc::new(made));
            snapshot.pieces.put(0, Piece { holder, at: 0, len });
        }
        snapshot
    }

    /// The number of the restore point, and when it was taken in milliseconds since 1970.
    #[must_use]
    pub fn point(&self) -> (u64, u64) {
        (self.footer.last, self.footer.time_ms)
    }

    /// The commit.
    #[must_use]
    pub fn mark(&self) -> Option<CommitId> {
        self.footer.to
    }

    /// The name of the generation.
    #[must_use]
    pub fn generation(&self) -> &str {
        &self.generation
    }

    /// Bytes of the file.
    #[must_use]
    pub fn image_len(&self) -> u64 {
        self.footer.image_len
    }

    /// The number of the restore point.
    pub(super) fn last(&self) -> u64 {
        self.footer.last
    }

    /// Bytes of deltas in memory that could be merged ones.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// Reads from `offset` on, until `buf` is full or the file ends. Returns the number of bytes.
    ///
    /// # Errors
    /// [`Error::Bucket`].
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let left = self.image_len().saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let buf = buf.get_mut(..len).unwrap_or_default();
        buf.fill(0);
        let end = offset + len as u64;
        let mut at = offset;
        while at < end {
            let next = self.pieces.at(at).filter(|(start, _)| *start < end);
            let Some((start, piece)) = next else {
                break;
            };
            at = at.max(start);
            let n = (start + piece.len).min(end) - at;
            let (from, to) = (usize_of(at - offset), usize_of(at + n - offset));
            let part = buf.get_mut(from..to).unwrap_or_default();
            piece.read(part, at - start)?;
            at += n;
        }
        Ok(len)
    }

    /// Lays a merged object or a large delta over the file.
    pub(super) fn lay(&mut self, holder: &Holder, index: &Index) {
        let of_file = index.places().filter(|(offset, ..)| is_of_file(*offset));
        for (offset, at, len) in of_file {
            let holder = holder.clone();
            self.pieces.put(offset, Piece { holder, at, len });
        }
        self.footer = index.footer.clone();
        self.chain = index.chain;
    }

    /// Lays a delta that stays in memory over the file.
    pub(super) fn lay_kept(&mut self, object: Object, len: u64) {
        let object = Arc::new(object);
        self.lay(&Holder::Memory(Arc::clone(&object)), &object.index);
        self.kept += len;
    }

    /// Whether this is a later state than another one, or the same one with less in memory.
    pub(super) fn is_after(&self, other: &Snapshot) -> bool {
        let is_new = self.generation != other.generation;
        let [own, others] = [self, other].map(|snapshot| snapshot.footer.last);
        is_new || own > others || (own == others && self.kept < other.kept)
    }

    /// Checks that an object follows.
    pub(super) fn must_precede(&self, name: &str, footer: &Footer) -> Result<()> {
        match footer.previous == self.chain && footer.first == self.footer.last + 1 {
            true => Ok(()),
            false => Err(Error::Damaged {
                object: name.to_owned(),
                problem: "it does not follow the object before it".to_owned(),
            }),
        }
    }
}

impl Piece {
    fn read(&self, buf: &mut [u8], from: u64) -> Result<()> {
        let n = match &self.holder {
            Holder::Memory(object) => {
                let bytes = object.bytes(self.at + from, buf.len() as u64);
                if let Some(buf) = buf.get_mut(..bytes.len()) {
                    buf.copy_from_slice(bytes);
                }
                bytes.len()
            }
            Holder::Remote(object) => object.read_at(buf, self.at + from)?,
            Holder::Made(bytes) => {
                let from = usize_of(self.at + from);
                let bytes = bytes.get(from..).unwrap_or_default();
                let n = bytes.len().min(buf.len());
                buf.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
                n
            }
        };
        match n == buf.len() {
            true => Ok(()),
            false => Err(Error::Bucket("an object became shorter".to_owned())),
        }
    }
}

/// The preamble of the file as of a commit.
fn made(mark: &CommitId) -> Vec<u8> {
    let mut made = vec![0; usize_of(PREAMBLE_LEN)];
    for (offset, bytes) in densite_store::preamble(mark) {
        let place = made.iter_mut().skip(usize_of(offset));
        place.zip(bytes).for_each(|(to, byte)| *to = byte);
    }
    made
}

fn usize_of(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

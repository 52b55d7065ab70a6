//! Writing and reading the extents of an object.

use crate::bucket::Upload;
use crate::error::{Error, Result};
use crate::format::{EXTENT_LEN, FOOTER_LEN, Footer};
use densite_disk::Fields;
use densite_disk::hash::{Xxh3_128, xxh3_128};

/// Where the bytes of an object go.
pub(crate) trait Sink {
    /// Appends bytes.
    ///
    /// # Errors
    /// The bucket's.
    fn put(&mut self, bytes: &[u8]) -> Result<()>;
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

impl Sink for Box<dyn Upload + '_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(bytes)
    }
}

/// So many bytes at the end of a base are read first. Its table is there, and what a first query
/// needs.
pub(crate) const BASE_END: u64 = 448 << 10;

/// Writes an object.
pub(crate) struct Writer<S> {
    sink: S,
    table: Vec<(u64, u64)>,
    hash: Xxh3_128,
    body_len: u64,
}

impl<S: Sink> Writer<S> {
    pub(crate) fn new(sink: S) -> Writer<S> {
        Writer {
            sink,
            table: Vec::new(),
            hash: Xxh3_128::default(),
            body_len: 0,
        }
    }

    /// Adds bytes of the file at `offset`. They win over what was added before.
    ///
    /// # Errors
    /// The bucket's.
    pub(crate) fn put(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let len = bytes.len() as u64;
        match self.table.last_mut() {
            Some((start, have)) if *start + *have == offset => *have += len,
            _ => self.table.push((offset, len)),
        }
        self.hash.update(bytes);
        self.body_len += len;
        self.sink.put(bytes)
    }

    /// Bytes of the extents so far.
    pub(crate) fn body_len(&self) -> u64 {
        self.body_len
    }

    /// Ends the object. Fills in what `footer` has to say of the extents. Returns the sink, the
    /// length of the object, and its chain value.
    ///
    /// # Errors
    /// The bucket's.
    pub(crate) fn finish(mut self, mut footer: Footer) -> Result<(S, u64, [u8; 16])> {
        let mut end = Vec::with_capacity(self.table.len() * EXTENT_LEN + FOOTER_LEN);
        for (offset, len) in &self.table {
            end.extend_from_slice(&offset.to_le_bytes());
            end.extend_from_slice(&len.to_le_bytes());
        }
        footer.table_hash = xxh3_128(&end).to_le_bytes();
        footer.body_hash = self.hash.digest().to_le_bytes();
        footer.body_len = self.body_len;
        footer.extents = u32::try_from(self.table.len()).unwrap_or(u32::MAX);
        end.extend_from_slice(&footer.encode());
        let (_, chain) = Footer::decode("", &end)?;
        self.sink.put(&end)?;
        Ok((self.sink, self.body_len + end.len() as u64, chain))
    }
}

/// The footer and the table of an object.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) footer: Footer,
    /// The chain value of its last restore point.
    pub(crate) chain: [u8; 16],
    /// Offset in the file and length of each extent, in the order of their bytes.
    pub(crate) extents: Vec<(u64, u64)>,
}

impl Index {
    /// Reads the index in the last bytes of an object of `len` bytes. Returns how many bytes it
    /// needs if these are not enough.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Newer`].
    pub(crate) fn decode(
        name: &str,
        end: &[u8],
        len: u64,
    ) -> Result<std::result::Result<Index, u64>> {
        let damaged = |problem: &str| Error::Damaged {
            object: name.to_owned(),
            problem: problem.to_owned(),
        };
        let (footer, chain) = Footer::decode(name, end)?;
        if footer.body_len.checked_add(footer.end_len()) != Some(len) {
            return Err(damaged("its length is wrong"));
        }
        let Some(at) = (end.len() as u64).checked_sub(footer.end_len()) else {
            return Ok(Err(footer.end_len()));
        };
        let table = usize::try_from(at).ok().and_then(|at| end.get(at..));
        let table = table.and_then(|table| table.get(..table.len() - FOOTER_LEN));
        let table = table.ok_or_else(|| damaged("its length is wrong"))?;
        if xxh3_128(table).to_le_bytes() != footer.table_hash {
            return Err(damaged("the checksum of its table is wrong"));
        }
        let mut fields = Fields::new(table);
        let mut extents = Vec::with_capacity(footer.extents as usize);
        let mut sum = 0u64;
        while let (Some(offset), Some(len)) = (fields.u64(), fields.u64()) {
            sum = sum.saturating_add(len);
            if offset.checked_add(len).is_none() {
                return Err(damaged("an extent is out of range"));
            }
            extents.push((offset, len));
        }
        match sum == footer.body_len {
            true => Ok(Ok(Index {
                footer,
                chain,
                extents,
            })),
            false => Err(damaged("its extents have another length")),
        }
    }
}

impl Index {
    /// The extents that have bytes: offset in the file, offset in the object, and length.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let mut at = 0;
        let places = self.extents.iter().map(move |(offset, len)| {
            let begin = at;
            at += len;
            (*offset, begin, *len)
        });
        places.filter(|(.., len)| *len > 0)
    }
}

/// A whole object in memory.
pub(crate) struct Object {
    pub(crate) index: Index,
    bytes: Vec<u8>,
}

impl Object {
    /// Decodes and verifies an object.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Newer`].
    pub(crate) fn decode(name: &str, bytes: Vec<u8>) -> Result<Object> {
        let damaged = |problem: &str| Error::Damaged {
            object: name.to_owned(),
            problem: problem.to_owned(),
        };
        let index = Index::decode(name, &bytes, bytes.len() as u64)?;
        let index = index.map_err(|_| damaged("its length is wrong"))?;
        let object = Object { index, bytes };
        match xxh3_128(object.body()).to_le_bytes() == object.index.footer.body_hash {
            true => Ok(object),
            false => Err(damaged("the checksum of its bytes is wrong")),
        }
    }

    fn body(&self) -> &[u8] {
        let len = usize::try_from(self.index.footer.body_len).unwrap_or_default();
        self.bytes.get(..len).unwrap_or_default()
    }

    /// Bytes of the extents, which lie one after the other; fewer at their end.
    pub(crate) fn bytes(&self, at: u64, len: u64) -> &[u8] {
        let body = self.body();
        let at = usize::try_from(at).unwrap_or(body.len()).min(body.len());
        let rest = body.get(at..).unwrap_or_default();
        let len = usize::try_from(len).unwrap_or(rest.len());
        rest.get(..len).unwrap_or(rest)
    }

    /// The extents: offset in the file, and bytes.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let places = self.index.places();
        places.map(|(offset, at, len)| (offset, self.bytes(at, len)))
    }
}

/// Reads the table and the footer of an object of `len` bytes, of which `read` fills a buffer from
/// an offset on: first the last `end` bytes.
///
/// # Errors
/// Those of `read`; [`Error::Damaged`], [`Error::Newer`].
pub(crate) fn index(
    name: &str,
    len: u64,
    end: u64,
    read: &mut dyn FnMut(&mut [u8], u64) -> Result<usize>,
) -> Result<Index> {
    let mut wanted = end;
    for _ in 0..2 {
        let from = len.saturating_sub(wanted);
        let mut end = vec![0; usize::try_from(len - from).unwrap_or_default()];
        let n = read(&mut end, from)?;
        end.truncate(n);
        match Index::decode(name, &end, len)? {
            Ok(index) => return Ok(index),
            Err(needed) => wanted = needed,
        }
    }
    Err(Error::Damaged {
        object: name.to_owned(),
        problem: "its length is wrong".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Kind, NO_HASH};

    fn footer() -> Footer {
        Footer {
            kind: Kind::Delta,
            first: 1,
            last: 1,
            writer: 1,
            time_ms: 0,
            from: None,
            to: None,
            image_len: 0,
            body_len: 0,
            extents: 0,
            log: None,
            previous: NO_HASH,
            chain: NO_HASH,
            body_hash: NO_HASH,
            table_hash: NO_HASH,
        }
    }

    #[test]
    fn extents_come_back_and_adjacent_ones_are_one() {
        let mut writer = Writer::new(Vec::new());
        for (offset, bytes) in [(10, "ab"), (12, "cd"), (0, "x"), (11, "B"), (50, "")] {
            writer.put(offset, bytes.as_bytes()).expect("put");
        }
        let (bytes, len, chain) = writer.finish(footer()).expect("finish");
        assert_eq!(bytes.len() as u64, len);
        let object = Object::decode("x", bytes.clone()).expect("decode");
        let extents: Vec<_> = object.extents().collect();
        assert_eq!(extents, [(10, &b"abcd"[..]), (0, b"x"), (11, b"B")]);
        assert_eq!(object.index.chain, chain);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            assert!(Object::decode("x", changed).is_err(), "byte {at}");
        }
        for len in 0..bytes.len() {
            assert!(Object::decode("x", bytes[..len].to_vec()).is_err());
        }
    }

    #[test]
    fn an_index_says_how_many_bytes_it_needs() {
        let mut writer = Writer::new(Vec::new());
        for n in 0..40u64 {
            writer.put(n * 100, &[1; 7]).expect("put");
        }
        let (bytes, len, _) = writer.finish(footer()).expect("finish");
        let end = &bytes[bytes.len() - FOOTER_LEN..];
        let needed = Index::decode("x", end, len)
            .expect("a footer")
            .expect_err("too few");
        assert_eq!(needed, 40 * 16 + FOOTER_LEN as u64);
        let end = &bytes[bytes.len() - needed as usize..];
        let index = Index::decode("x", end, len)
            .expect("a footer")
            .expect("enough");
        assert_eq!(index.extents.len(), 40);
    }
}

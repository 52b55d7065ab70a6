//! Pages of SQLite's freelist. SQLite never reads its leaves, so a copy can have zeros in their
//! place.
//!
//! A trunk page holds the next trunk's number, a count of leaves and that many leaf numbers (all
//! big-endian u32). The list is used only if all of it is valid. Every number must be within the
//! database and occur once, and none may be a pointer-map page or the lock page. The total must be
//! the header's. SQLite reads trunk pages, so they are never among the leaves.

use super::header::{Header, u32_at};

/// The byte offset of SQLite's locks; SQLite never uses the page that holds it.
pub const LOCK_BYTE: u64 = 0x4000_0000;

/// The words of a chunk, each for 64 pages.
const WORDS: usize = 64;
const CHUNK: usize = WORDS * 64;

/// A set of page numbers. Its memory grows with the number of chunks that have pages.
#[derive(Debug, Default)]
pub struct PageSet {
    chunks: Vec<Option<Box<[u64; WORDS]>>>,
    count: u64,
}

impl PageSet {
    /// Whether `page` is in the set.
    pub fn contains(&self, page: u32) -> bool {
        let chunk = self.chunks.get(page as usize / CHUNK);
        let word = chunk.and_then(|c| c.as_ref()?.get(page as usize % CHUNK / 64));
        word.is_some_and(|w| w & (1 << (page % 64)) != 0)
    }

    /// The number of pages in the set.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The pages of the set, ascending.
    pub fn pages(&self) -> impl Iterator<Item = u32> {
        let chunks = self.chunks.iter().zip(0u32..);
        let words = chunks.flat_map(|(chunk, i)| {
            let words = chunk.iter().flat_map(|words| words.iter()).zip(0u32..);
            words.map(move |(word, at)| (word, i * WORDS as u32 + at))
        });
        words.flat_map(|(word, i)| {
            let set = (0..64u32).filter(move |bit| word & (1u64 << bit) != 0);
            set.map(move |bit| i * 64 + bit)
        })
    }

    /// Adds all pages of `other`. Returns whether all of them were new.
    pub fn merge(&mut self, other: &PageSet) -> bool {
        let mut apart = true;
        for page in other.pages() {
            apart &= self.insert(page);
        }
        apart
    }

    /// Adds `page`. Returns whether it was new.
    pub fn insert(&mut self, page: u32) -> bool {
        let at = page as usize / CHUNK;
        if at >= self.chunks.len() {
            self.chunks.resize_with(at + 1, || None);
        }
        let Some(chunk) = self.chunks.get_mut(at) else {
            return false;
        };
        let chunk = chunk.get_or_insert_with(|| Box::new([0; WORDS]));
        let Some(word) = chunk.get_mut(page as usize % CHUNK / 64) else {
            return false;
        };
        let bit = 1u64 << (page % 64);
        let new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(new);
        new
    }
}

/// A whole freelist.
#[derive(Debug)]
pub struct Freelist {
    /// Trunks and leaves.
    pub all: PageSet,
    /// Leaves.
    pub leaves: PageSet,
}

/// The freelist of a database of `count` pages; `None` if it is malformed. `read` fills a buffer
/// with a page.
///
/// # Errors
/// Those of `read`.
pub fn list<E>(
    count: u32,
    header: &Header,
    mut read: impl FnMut(u32, &mut [u8]) -> Result<(), E>,
) -> Result<Option<Freelist>, E> {
    let size = u64::from(header.page_size);
    let lock_page = LOCK_BYTE / size + 1;
    let map_every = u64::from(header.usable / 5) + 1;
    let allowed = |page: u32| {
        page >= 2
            && page <= count
            && u64::from(page) != lock_page
            && !(header.auto_vacuum && (u64::from(page) - 2) % map_every == 0)
    };
    let mut seen = PageSet::default();
    let mut leaves = PageSet::default();
    let mut trunk = header.free_trunk;
    let mut buf = vec![0u8; header.page_size as usize];
    while trunk != 0 {
        if !allowed(trunk) || !seen.insert(trunk) {
            return Ok(None);
        }
        read(trunk, &mut buf)?;
        let (Some(next), Some(n)) = (u32_at(&buf, 0), u32_at(&buf, 4)) else {
            return Ok(None);
        };
        if n > header.usable / 4 - 2 {
            return Ok(None);
        }
        for i in 0..n as usize {
            match u32_at(&buf, 8 + 4 * i) {
                Some(leaf) if allowed(leaf) && seen.insert(leaf) => {
                    leaves.insert(leaf);
                }
                _ => return Ok(None),
            }
        }
        trunk = next;
    }
    let all = seen;
    Ok((all.len() == u64::from(header.free_pages)).then_some(Freelist { all, leaves }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 512;

    fn header(free_trunk: u32, free_pages: u32) -> Header {
        Header {
            page_size: SIZE as u32,
            usable: SIZE as u32,
            wal: false,
            free_trunk,
            free_pages,
            auto_vacuum: false,
        }
    }

    /// A file of ten pages. Each `words` is written to the start of its page.
    fn file(trunks: &[(usize, &[u32])]) -> Vec<u8> {
        let mut file = vec![0u8; SIZE * 10];
        for (page, words) in trunks {
            for (i, w) in words.iter().enumerate() {
                let at = (page - 1) * SIZE + 4 * i;
                file[at..at + 4].copy_from_slice(&w.to_be_bytes());
            }
        }
        file
    }

    fn list(trunks: &[(usize, &[u32])], h: Header) -> Option<Vec<u32>> {
        let file = file(trunks);
        let read = |page: u32, buf: &mut [u8]| {
            let at = (page as usize - 1) * SIZE;
            buf.copy_from_slice(&file[at..at + SIZE]);
            Ok::<(), ()>(())
        };
        let set = super::list(10, &h, read)
            .expect("memory does not fail")?
            .leaves;
        Some((0..=10).filter(|p| set.contains(*p)).collect())
    }

    #[test]
    fn walks_trunks() {
        assert_eq!(
            list(&[(3, &[5, 2, 7, 8]), (5, &[0, 1, 2])], header(3, 5)),
            Some(vec![2, 7, 8])
        );
        assert_eq!(list(&[], header(0, 0)), Some(vec![]));
    }

    #[test]
    fn a_malformed_list_is_not_used() {
        type Trunks<'a> = &'a [(usize, &'a [u32])];
        let bad: &[(Trunks<'_>, Header)] = &[
            (&[(3, &[0, 2, 7, 8])], header(3, 4)),  // count differs
            (&[(3, &[0, 2, 7, 7])], header(3, 3)),  // twice
            (&[(3, &[3, 1, 7])], header(3, 2)),     // a loop
            (&[(3, &[0, 1, 11])], header(3, 2)),    // past the end
            (&[(3, &[0, 1, 1])], header(3, 2)),     // page 1
            (&[(3, &[0, 127, 4])], header(3, 128)), // more leaves than fit
            (&[], header(11, 1)),                   // trunk past the end
            (
                &[(3, &[0, 1, 7])],
                Header {
                    auto_vacuum: true,
                    ..header(2, 2)
                },
            ), // pointer map
        ];
        for (trunks, h) in bad {
            assert_eq!(list(trunks, *h), None, "{trunks:?}");
        }
    }
}

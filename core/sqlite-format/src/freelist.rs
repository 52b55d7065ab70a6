//! The freelist: pages that no b-tree uses
//! (<https://www.sqlite.org/fileformat2.html#the_freelist>). SQLite never reads its leaves, so a copy
//! can have zeros in their place.
//!
//! | from | bytes | what a trunk page holds |
//! |---|---|---|
//! | 0 | 4 | the next trunk page, or 0 |
//! | 4 | 4 | number of leaves |
//! | 8 | 4 each | the leaves |
//!
//! The list is used only if all of it is valid. Every number must be within the database and occur
//! once, and none may be a pointer map or the lock page. The total must be the header's. SQLite reads
//! trunk pages, so they are never among the leaves.

use crate::fixed::{is_pointer_map, lock_page};
use crate::{AutoVacuum, Header, PageSet, be32};

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
    let Header {
        page_size,
        usable,
        auto_vacuum,
        ..
    } = *header;
    let lock_page = lock_page(page_size);
    let allowed = |page: u32| {
        (2..=count).contains(&page)
            && page != lock_page
            && (auto_vacuum == AutoVacuum::None || !is_pointer_map(page, page_size, usable))
    };
    let mut all = PageSet::default();
    let mut leaves = PageSet::default();
    let mut trunk = header.free_trunk;
    let mut buf = vec![0u8; page_size as usize];
    while trunk != 0 {
        if !allowed(trunk) || !all.insert(trunk) {
            return Ok(None);
        }
        read(trunk, &mut buf)?;
        let (Some(next), Some(n)) = (be32(&buf, 0), be32(&buf, 4)) else {
            return Ok(None);
        };
        if n > usable / 4 - 2 {
            return Ok(None);
        }
        for i in 0..n as usize {
            match be32(&buf, 8 + 4 * i) {
                Some(leaf) if allowed(leaf) && all.insert(leaf) => {
                    leaves.insert(leaf);
                }
                _ => return Ok(None),
            }
        }
        trunk = next;
    }
    Ok((all.len() == u64::from(header.free_pages)).then_some(Freelist { all, leaves }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 512;

    fn header(free_trunk: u32, free_pages: u32) -> Header {
        Header {
            free_trunk,
            free_pages,
            ..Header::new(SIZE as u32)
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
                    auto_vacuum: AutoVacuum::Full,
                    ..header(2, 2)
                },
            ), // pointer map
        ];
        for (trunks, h) in bad {
            assert_eq!(list(trunks, *h), None, "{trunks:?}");
        }
    }
}

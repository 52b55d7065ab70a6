//! Pages whose number says what they are: the page of the lock bytes, which SQLite never uses, and
//! pointer maps (<https://www.sqlite.org/fileformat2.html#pointer_map_or_ptrmap_pages>).
//!
//! With auto_vacuum, page 2 is a pointer map. It has an entry of 5 bytes for each of the pages that
//! follow, and the next map is behind these. A map whose place is the lock page is the page after it.

use crate::{AutoVacuum, Header};

/// The byte offset of SQLite's locks.
pub const LOCK_BYTE: u64 = 0x4000_0000;
/// Bytes of an entry of a pointer map.
const MAP_ENTRY: u32 = 5;

/// The page that holds the lock bytes.
pub fn lock_page(page_size: u32) -> u32 {
    u32::try_from(LOCK_BYTE / u64::from(page_size.max(1)) + 1).unwrap_or(u32::MAX)
}

/// Whether a page is a pointer map, if the database has them.
pub fn is_pointer_map(page: u32, page_size: u32, usable: u32) -> bool {
    let lock = lock_page(page_size);
    let is_place = |page: u32| page >= 2 && (page - 2).is_multiple_of(usable / MAP_ENTRY + 1);
    page != lock && is_place(page) || page == lock.saturating_add(1) && is_place(lock)
}

/// The pointer maps of a database of `count` pages. The last one can be behind its end.
pub fn pointer_maps(header: &Header, count: u32) -> impl Iterator<Item = u32> + use<> {
    let lock = lock_page(header.page_size);
    let last = match header.auto_vacuum {
        AutoVacuum::None => 0,
        AutoVacuum::Full | AutoVacuum::Incremental => count,
    };
    let places = (2..=last).step_by((header.usable / MAP_ENTRY + 1) as usize);
    places.map(move |page| if page == lock { page + 1 } else { page })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_where_their_number_says() {
        // With 1024 bytes, a map would be the lock page.
        for page_size in [512, 1024, 4096, 65536] {
            let header = Header {
                auto_vacuum: AutoVacuum::Full,
                ..Header::new(page_size)
            };
            let lock = lock_page(page_size);
            let maps: Vec<u32> = pointer_maps(&header, lock + 9).collect();
            let is_map = |page: &u32| is_pointer_map(*page, page_size, page_size);
            assert!((1..=lock + 9).filter(is_map).eq(maps.iter().copied()));
            assert!(!maps.contains(&lock));
            assert_eq!(maps.contains(&(lock + 1)), page_size == 1024, "{page_size}");
        }
        assert_eq!(pointer_maps(&Header::new(512), 1000).count(), 0);
    }
}

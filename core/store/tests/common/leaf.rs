//! Leaf pages as SQLite leaves them after rows were deleted.

use rand::RngExt;
use rand::rngs::SmallRng;

/// Bytes of a leaf's header.
const HEADER: usize = 8;
/// Bytes of a row and its pointer.
const ROW: usize = 16;

/// The leaf at page `number` of a table of a number and a text, whose row ids follow the pages. It
/// is full at first; then about `kept` of each ten rows stay. The space of the others is zero,
/// except for the headers of freeblocks.
pub(crate) fn leaf(rng: &mut SmallRng, page_size: usize, kept: u32, number: u32) -> Vec<u8> {
    let mut page = vec![0; page_size];
    let mut pointers = Vec::new();
    // From, to; from the page's end downwards.
    let mut gaps: Vec<(usize, usize)> = Vec::new();
    let mut at = page_size;
    // Row ids of three bytes, ascending from page to page.
    let rows = (page_size - HEADER) / ROW;
    let first = 20_000 + number % 500 * rows as u32;
    for rowid in first..first + rows as u32 {
        let text: Vec<u8> = (0..5).map(|_| rng.random_range(b'a'..b'q')).collect();
        let number = rng.random_range(300..30_000u16).to_be_bytes();
        let types = [3, 2, 13 + 2 * text.len() as u8];
        let head = [
            types.len() as u8 + 2 + text.len() as u8,
            0x80 | (rowid >> 14) as u8,
            0x80 | (rowid >> 7) as u8,
            rowid as u8 & 0x7f,
        ];
        let cell = [&head[..], &types, &number, &text].concat();
        let end = at;
        at -= cell.len();
        if rng.random_range(0..10) < kept {
            page[at..end].copy_from_slice(&cell);
            pointers.push(at as u16);
        } else {
            match gaps.last_mut() {
                Some(gap) if gap.0 == end => gap.0 = at,
                _ => gaps.push((at, end)),
            }
        }
    }
    page[0] = 13;
    let mut next = 0u16;
    for (from, to) in &gaps {
        page[*from..from + 2].copy_from_slice(&next.to_be_bytes());
        page[from + 2..from + 4].copy_from_slice(&((to - from) as u16).to_be_bytes());
        next = *from as u16;
    }
    page[1..3].copy_from_slice(&next.to_be_bytes());
    page[3..5].copy_from_slice(&(pointers.len() as u16).to_be_bytes());
    page[5..7].copy_from_slice(&(at as u16).to_be_bytes());
    for (i, pointer) in pointers.iter().enumerate() {
        page[HEADER + 2 * i..HEADER + 2 * i + 2].copy_from_slice(&pointer.to_be_bytes());
    }
    page
}

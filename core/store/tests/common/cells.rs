//! Leaf pages of a table, made of cells.

/// Bytes of a leaf's header.
const HEADER: usize = 8;

/// A leaf with as many of the first of these cells as it takes.
pub(crate) fn leaf(page_size: usize, cells: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut page = vec![0; page_size];
    let mut end = page_size;
    let mut count = 0;
    for cell in cells {
        let pointer = HEADER + 2 * count;
        if end < cell.len() + pointer + 2 {
            break;
        }
        end -= cell.len();
        page[end..end + cell.len()].copy_from_slice(&cell);
        page[pointer..pointer + 2].copy_from_slice(&(end as u16).to_be_bytes());
        count += 1;
    }
    page[0] = 13;
    page[3..5].copy_from_slice(&(count as u16).to_be_bytes());
    page[5..7].copy_from_slice(&(end as u16).to_be_bytes());
    page
}

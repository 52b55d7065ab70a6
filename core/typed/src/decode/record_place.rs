//! Where a record lies in the page that is being written, and how texts are copied there.

/// Where the parts of a record lie in the page.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) types: usize,
    pub(super) values: usize,
    pub(super) end: usize,
}

/// Copies a text into a place of its length. Most texts are short, and a processor cannot predict
/// how short. So copying some bytes twice is faster than a call, or a branch for each length.
#[inline(always)]
pub(super) fn put_exactly(from: &[u8], to: &mut [u8]) -> Option<()> {
    match from.len() {
        16..=64 => {
            let last = from.len() - 16;
            for at in [0, last.min(16), last.min(32), last] {
                *to.get_mut(at..)?.first_chunk_mut::<16>()? = *from.get(at..)?.first_chunk()?;
            }
        }
        4..16 => {
            let last = from.len() - 4;
            for at in [0, last.min(4), last.saturating_sub(4), last] {
                *to.get_mut(at..)?.first_chunk_mut::<4>()? = *from.get(at..)?.first_chunk()?;
            }
        }
        0..4 => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        _ => to.copy_from_slice(from),
    }
    Some(())
}

//! Runs of pages of which some begin with a link: overflow pages.
//!
//! An overflow page begins with the number of the next one, mostly its own number plus one, or with
//! 0 at the end of its chain. Such links follow from the page's number, so they are taken out. The
//! text of a chain is then in one piece, which zstd codes. See docs/FORMAT.md, Linked pages.

use super::encode::{Encoded, encode};
use super::{CodecId, Dictionary, blocks::decode_blocks};
use crate::CodecChoice;
use densite_sqlite_format::page::next_overflow;

/// The bytes of a link.
const LINK: usize = 4;
/// The bytes before the links: log2 of the page size, number of the first page.
const HEAD: usize = 5;
/// Links in one byte.
const IN_BYTE: usize = 4;
/// The most pages in a run.
const PAGES: usize = 64;
/// The beginning of a page, as 2 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    /// The page is stored whole.
    Whole = 0,
    /// The number of the next page.
    Next = 1,
    /// 0.
    End = 2,
}

impl Link {
    /// The link of a page.
    fn of(page: &[u8], number: u32) -> Link {
        match next_overflow(page) {
            Some(0) => Link::End,
            Some(next) if number.checked_add(1) == Some(next) => Link::Next,
            _ => Link::Whole,
        }
    }

    fn from_bits(bits: u8) -> Option<Link> {
        match bits {
            0 => Some(Link::Whole),
            1 => Some(Link::Next),
            2 => Some(Link::End),
            _ => None,
        }
    }

    /// Bytes of the page that are not stored.
    fn taken(self) -> usize {
        match self {
            Link::Whole => 0,
            _ => LINK,
        }
    }
}

/// Appends the payload of a run of pages of `page_size` bytes, the first of which is `number`.
/// Returns `None` and appends nothing if no link follows from its page's number, if the payload is
/// not worthwhile, or if it does not decode to these pages.
pub(super) fn encode_linked(
    raw: &[u8],
    page_size: usize,
    number: u32,
    level: i32,
    dict: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Option<Encoded> {
    let pages = raw.chunks(page_size.max(1)).zip(number..);
    let links: Vec<Link> = pages.map(|(page, number)| Link::of(page, number)).collect();
    if links.len() < 2 || !links.contains(&Link::Next) {
        return None;
    }
    let before = out.len();
    out.push(page_size.trailing_zeros() as u8);
    out.extend_from_slice(&number.to_le_bytes());
    let bits = links.chunks(IN_BYTE).map(|links| {
        let each = links.iter().zip(0..);
        each.fold(0, |byte, (link, i)| byte | (*link as u8) << (2 * i))
    });
    out.extend(bits);
    let mut text = Vec::with_capacity(raw.len());
    for (page, link) in raw.chunks(page_size).zip(&links) {
        text.extend_from_slice(page.get(link.taken()..).unwrap_or_default());
    }
    let coded = encode(&text, level, dict, CodecChoice::Zstd, out);
    let good = matches!(coded.codec, CodecId::ZSTD | CodecId::ZSTD_DICT);
    let mut back = vec![0; raw.len()];
    let used = dict.filter(|_| coded.dict_id != 0);
    let mut same = |payload: &[u8]| decode_linked(payload, used, &mut back).is_ok() && back == raw;
    let payload = out.get(before..).unwrap_or_default();
    if !good || payload.len() >= raw.len() || !same(payload) {
        out.truncate(before);
        return None;
    }
    Some(Encoded {
        codec: CodecId::LINKED,
        ..coded
    })
}

/// Decodes the payload of a run.
pub(super) fn decode_linked(
    payload: &[u8],
    dict: Option<&Dictionary>,
    out: &mut [u8],
) -> Result<(), String> {
    let wrong = || "linked payload that no run of pages has".to_owned();
    let run = Run::of(payload, out.len()).ok_or_else(wrong)?;
    let taken: usize = run.links().map(Link::taken).sum();
    // The text goes to the end, and each page is moved down to its place.
    let text = out.get_mut(taken..).ok_or_else(wrong)?;
    decode_blocks(run.blocks, dict, text)?;
    let mut from = taken;
    for (i, link) in run.links().enumerate() {
        let (page, skip) = (i * run.page_size, link.taken());
        let end = from + run.page_size - skip;
        out.copy_within(from..end, page + skip);
        from = end;
        let next = match link {
            Link::Whole => continue,
            Link::Next => run.number.wrapping_add(i as u32).wrapping_add(1),
            Link::End => 0,
        };
        if let Some(place) = out.get_mut(page..page + LINK) {
            place.copy_from_slice(&next.to_be_bytes());
        }
    }
    Ok(())
}

/// A payload, taken apart.
struct Run<'a> {
    page_size: usize,
    /// The first page.
    number: u32,
    pages: usize,
    links: &'a [u8],
    blocks: &'a [u8],
}

impl<'a> Run<'a> {
    /// Takes apart the payload of a run of `len` bytes.
    fn of(payload: &'a [u8], len: usize) -> Option<Run<'a>> {
        let (head, rest) = payload.split_first_chunk::<HEAD>()?;
        let [log2, number @ ..] = *head;
        let page_size = (9..=16).contains(&log2).then(|| 1usize << log2)?;
        let pages = len / page_size;
        if !len.is_multiple_of(page_size) || !(2..=PAGES).contains(&pages) {
            return None;
        }
        let (links, blocks) = rest.split_at_checked(pages.div_ceil(IN_BYTE))?;
        let run = Run {
            page_size,
            number: u32::from_le_bytes(number),
            pages,
            links,
            blocks,
        };
        (run.links().count() == pages).then_some(run)
    }

    /// The links, up to the first that is none.
    fn links(&self) -> impl Iterator<Item = Link> {
        let bits = |i: usize| Some(self.links.get(i / IN_BYTE)? >> (2 * (i % IN_BYTE)) & 3);
        (0..self.pages).map_while(move |i| Link::from_bits(bits(i)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{dictionary, page};
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    /// Pages of which each begins with one of these: its successor's number, 0, or other bytes.
    fn pages(links: &[u8], page_size: usize, number: u32) -> Vec<u8> {
        let each = links.iter().zip(number..).map(|(link, number)| {
            let mut page = page(u64::from(number), page_size);
            match link {
                0 => page[..LINK].copy_from_slice(&number.wrapping_add(1).to_be_bytes()),
                1 => page[..LINK].fill(0),
                _ => {}
            }
            page
        });
        each.collect::<Vec<_>>().concat()
    }

    proptest! {
        #[test]
        fn linked_pages_come_back(
            links in proptest::collection::vec(0u8..4, 0..66),
            log2 in 9u32..13,
            number in prop_oneof![1u32..9000, Just(u32::MAX - 70)],
            with in any::<bool>(),
        ) {
            static DICT: LazyLock<Dictionary> = LazyLock::new(|| dictionary(3));
            let page_size = 1 << log2;
            let dict = Some(&*DICT).filter(|_| with);
            let raw = pages(&links, page_size, number);
            let mut out = vec![7; 3];
            let coded = encode_linked(&raw, page_size, number, 3, dict, &mut out);
            let wanted = (2..=PAGES).contains(&links.len()) && links.contains(&0);
            prop_assert_eq!(coded.is_some(), wanted);
            prop_assert_eq!(&out[..3], [7; 3]);
            let Some(coded) = coded else {
                prop_assert_eq!(out.len(), 3);
                return Ok(());
            };
            prop_assert_eq!(coded.dict_id, if with { 3 } else { 0 });
            let mut back = vec![0x55; raw.len()];
            decode_linked(&out[3..], dict, &mut back).expect("own payload");
            prop_assert!(back == raw);
        }

        #[test]
        fn damaged_payloads_are_errors_or_other_pages(
            flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
            len in 0usize..9000,
        ) {
            let raw = pages(&[0, 0, 2, 1], 2048, 9);
            let mut out = Vec::new();
            encode_linked(&raw, 2048, 9, 3, None, &mut out).expect("linked");
            for (at, bits) in flips {
                let at = at % out.len();
                out[at] ^= bits;
            }
            let _ = decode_linked(&out, None, &mut vec![0; raw.len()]);
            let _ = decode_linked(&out, None, &mut vec![0; len]);
            let _ = decode_linked(&out[..len.min(out.len())], None, &mut vec![0; raw.len()]);
        }
    }

    #[test]
    fn the_links_of_a_chain_cost_two_bytes_for_eight_pages() {
        let mut sizes = [&[0; 8][..], &[2; 8]].map(|links| {
            let raw = pages(links, 4096, 70_001);
            let mut out = Vec::new();
            if encode_linked(&raw, 4096, 70_001, 3, None, &mut out).is_none() {
                encode(&raw, 3, None, CodecChoice::Zstd, &mut out);
            }
            out.len()
        });
        sizes[1] += HEAD + 8 / IN_BYTE;
        assert!(
            sizes[0] <= sizes[1],
            "{sizes:?}: no more than text without links"
        );
    }
}

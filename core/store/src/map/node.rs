//! Map nodes in memory and as payloads.
//!
//! The payload of a leaf is 512 entries column by column, so that zstd finds repetitions. Offsets,
//! versions, lengths and models are little-endian differences to the previous entry, each as four
//! or eight byte planes. Then follow codecs, run_log2, slots. The payload of an inner node is 256
//! references of 20 bytes. Both are stored with codec zstd if that is smaller.

use crate::format::entry::{Entry, NodeRef};
use densite_disk::Fields;

/// Pages of one leaf.
pub(crate) const LEAF_FANOUT: usize = 512;
/// Children of one inner node.
pub(crate) const INNER_FANOUT: usize = 256;

const LEAF_RAW: usize = LEAF_FANOUT * 27;
const INNER_RAW: usize = INNER_FANOUT * 20;

/// A decoded node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Leaf(Box<[Entry]>),
    Inner(Box<[NodeRef]>),
}

impl Node {
    pub(crate) fn empty(level: u32) -> Node {
        if level == 0 {
            Node::Leaf(vec![Entry::NONE; LEAF_FANOUT].into_boxed_slice())
        } else {
            Node::Inner(vec![NodeRef::default(); INNER_FANOUT].into_boxed_slice())
        }
    }

    /// Whether it has no entries.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Node::Leaf(e) => e.iter().all(Entry::is_none),
            Node::Inner(r) => r.iter().all(NodeRef::is_none),
        }
    }

    /// Bytes of the decoded payload at `level`.
    pub(crate) fn raw_len(level: u32) -> usize {
        if level == 0 { LEAF_RAW } else { INNER_RAW }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Node::Inner(refs) => {
                let mut out = Vec::with_capacity(INNER_RAW);
                refs.iter().for_each(|r| r.put(&mut out));
                out
            }
            Node::Leaf(entries) => {
                let mut out = vec![0u8; LEAF_RAW];
                let mut at = 0;
                at = planes(&mut out, at, 8, entries.iter().map(|e| e.off));
                at = planes(&mut out, at, 8, entries.iter().map(|e| e.version));
                at = planes(&mut out, at, 4, entries.iter().map(|e| u64::from(e.len)));
                at = planes(&mut out, at, 4, entries.iter().map(|e| u64::from(e.model)));
                for get in [
                    |e: &Entry| e.codec,
                    |e: &Entry| e.run_log2,
                    |e: &Entry| e.slot,
                ] {
                    for (o, e) in out.iter_mut().skip(at).zip(entries.iter()) {
                        *o = get(e);
                    }
                    at += LEAF_FANOUT;
                }
                out
            }
        }
    }

    /// Decodes the result of [`Node::encode`]. `None` if a field is out of range.
    pub(crate) fn decode(level: u32, raw: &[u8]) -> Option<Node> {
        if raw.len() != Node::raw_len(level) {
            return None;
        }
        if level > 0 {
            let mut f = Fields::new(raw);
            let refs = (0..INNER_FANOUT)
                .map(|_| NodeRef::take(&mut f))
                .collect::<Option<_>>()?;
            return Some(Node::Inner(refs));
        }
        let mut f = Fields::new(raw);
        let off = unplanes(f.bytes(8 * LEAF_FANOUT)?, 8);
        let version = unplanes(f.bytes(8 * LEAF_FANOUT)?, 8);
        let len = unplanes(f.bytes(4 * LEAF_FANOUT)?, 4);
        let model = unplanes(f.bytes(4 * LEAF_FANOUT)?, 4);
        let codec = f.bytes(LEAF_FANOUT)?;
        let run = f.bytes(LEAF_FANOUT)?;
        let slot = f.bytes(LEAF_FANOUT)?;
        let small = codec.iter().zip(run).zip(slot);
        let wide = off.iter().zip(&version).zip(len.iter().zip(&model));
        let entries = wide.zip(small).map(
            |(((&off, &version), (&len, &model)), ((&codec, &run_log2), &slot))| {
                let e = Entry {
                    off,
                    version,
                    len: u32::try_from(len).ok()?,
                    model: u32::try_from(model).ok()?,
                    codec,
                    run_log2,
                    slot,
                };
                e.plausible().then_some(e)
            },
        );
        Some(Node::Leaf(entries.collect::<Option<_>>()?))
    }
}

/// Writes values as differences to their predecessors, zigzag coded, byte plane by byte plane.
fn planes(out: &mut [u8], at: usize, width: usize, values: impl Iterator<Item = u64>) -> usize {
    let mut prev = 0u64;
    for (i, v) in values.enumerate() {
        let d = v.wrapping_sub(prev) as i64;
        prev = v;
        // Zigzag-coded differences of 32-bit values need 33 bits. In four-byte columns they wrap at
        // 32 bits instead.
        let z = if width == 8 {
            ((d << 1) ^ (d >> 63)) as u64
        } else {
            let d = d as i32;
            u64::from(((d << 1) ^ (d >> 31)) as u32)
        };
        for (b, byte) in z.to_le_bytes().iter().take(width).enumerate() {
            if let Some(o) = out.get_mut(at + b * LEAF_FANOUT + i) {
                *o = *byte;
            }
        }
    }
    at + width * LEAF_FANOUT
}

fn unplanes(bytes: &[u8], width: usize) -> Vec<u64> {
    let mut out = vec![0u64; LEAF_FANOUT];
    for (b, plane) in bytes.chunks_exact(LEAF_FANOUT).enumerate() {
        for (o, byte) in out.iter_mut().zip(plane) {
            *o |= u64::from(*byte) << (8 * b);
        }
    }
    let mut prev = 0u64;
    for o in &mut out {
        let z = *o;
        if width == 8 {
            let d = (z >> 1) as i64 ^ -((z & 1) as i64);
            prev = prev.wrapping_add(d as u64);
        } else {
            let z = z as u32;
            let d = (z >> 1) as i32 ^ -((z & 1) as i32);
            prev = u64::from((prev as u32).wrapping_add(d as u32));
        }
        *o = prev;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn leaf_round_trip(seed in proptest::collection::vec((0u64..1 << 48, 0u64..u64::MAX, 36u32..9999, any::<u32>(), any::<u8>(), 0u8..7), 0..LEAF_FANOUT)) {
            let mut n = vec![Entry::NONE; LEAF_FANOUT];
            for (i, (off, version, len, model, codec, run_log2)) in seed.iter().copied().enumerate() {
                n[i] = Entry { off, version, len, model, codec, run_log2, slot: (i % (1 << run_log2)) as u8 };
            }
            let node = Node::Leaf(n.into_boxed_slice());
            prop_assert_eq!(Node::decode(0, &node.encode()), Some(node));
        }

        #[test]
        fn hostile_bytes_do_not_panic(raw in proptest::collection::vec(any::<u8>(), LEAF_RAW)) {
            let _ = Node::decode(0, &raw);
            let _ = Node::decode(1, &raw[..INNER_RAW]);
            let _ = Node::decode(0, &raw[1..]);
        }
    }
}

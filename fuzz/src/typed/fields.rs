//! Where fields are in the bytes of each target.

use crate::target::{Fields, row};

/// Flags, reserved bytes, cells, then a page's header and first pointers.
pub(super) fn btree(bytes: &[u8]) -> Fields {
    let mut out = vec![(0, 1), (1, 1), (2, 2)];
    let header = 4 + if bytes.first().is_some_and(|f| f & 1 != 0) {
        100
    } else {
        0
    };
    row(header, &[1, 2, 2, 2, 1, 4, 2, 2, 2, 2, 2, 2], &mut out);
    out
}

/// A model behind its length: length, version, length of the bits, the first bytes of the bits;
/// then the first bytes behind the model.
fn model_at(at: usize, bytes: &[u8], out: &mut Fields) {
    row(at, &[3, 1, 3, 2, 1, 1, 1, 1, 1, 1], out);
    let len = bytes
        .get(at..at + 3)
        .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], 0]) as usize);
    let behind = (at + 3 + len).min(bytes.len());
    // Twice, so that the mutator takes these more often.
    for _ in 0..2 {
        row(behind, &[1, 1, 1, 1, 1, 1, 1, 1], out);
    }
}

pub(super) fn model(bytes: &[u8]) -> Fields {
    let mut out = Fields::new();
    model_at(0, bytes, &mut out);
    out
}

pub(super) fn defaults(bytes: &[u8]) -> Fields {
    (0..bytes.len().min(300)).map(|at| (at, 1)).collect()
}

pub(super) fn typed(bytes: &[u8]) -> Fields {
    let mut out = vec![(0, 1)];
    model_at(1, bytes, &mut out);
    out
}

pub(super) fn symbols(_: &[u8]) -> Fields {
    vec![(0, 1), (1, 3), (4, 1), (5, 1), (6, 1)]
}

/// Size; of a payload how many blobs it has, then lengths, and the first bytes of its bits.
pub(super) fn postings(bytes: &[u8]) -> Fields {
    let mut out = vec![(0, 1)];
    row(1, &[1, 2, 2, 2, 2], &mut out);
    out.extend((10..bytes.len().min(200)).map(|at| (at, 1)));
    out
}

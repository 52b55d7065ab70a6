//! Where fields lie in the bytes of each target, for a mutator that knows what it changes.

use super::repair::{Found, scan};
use crate::format::record::{Kind, RECORD_LEN};
use crate::format::{HEADER_OFF, SLOT_COPY, SLOT_OFF, TIP_OFF};

type Field = (usize, usize);

/// Sizes of fields, one behind the other from `at`.
fn row(at: usize, sizes: &[usize], out: &mut Vec<Field>) {
    let mut at = at;
    for size in sizes {
        out.push((at, *size));
        at += size;
    }
}

const HEADER: &[usize] = &[16, 4, 4, 8];
const TIP: &[usize] = &[8, 8, 4, 4, 16];
const RECORD: &[usize] = &[1, 1, 4, 3, 3, 6, 4];
const TRAILER: &[usize] = &[8, 8, 4, 4, 8, 8, 8, 8, 8, 8, 4, 4, 16, 100, 4, 4, 4];

pub(super) fn none(_: &[u8]) -> Vec<Field> {
    Vec::new()
}

pub(super) fn header(_: &[u8]) -> Vec<Field> {
    let mut out = Vec::new();
    row(0, HEADER, &mut out);
    out
}

fn slot_at(at: usize, out: &mut Vec<Field>) {
    row(at, &[4, 4, 8, 8], out);
    row(at + 24, TIP, out);
    row(at + 64, &[4, 4], out);
}

pub(super) fn slot(_: &[u8]) -> Vec<Field> {
    let mut out = Vec::new();
    slot_at(0, &mut out);
    out
}

pub(super) fn tip(_: &[u8]) -> Vec<Field> {
    let mut out = Vec::new();
    row(0, TIP, &mut out);
    out
}

pub(super) fn record(_: &[u8]) -> Vec<Field> {
    let mut out = Vec::new();
    row(0, RECORD, &mut out);
    out
}

pub(super) fn frame(_: &[u8]) -> Vec<Field> {
    vec![(0, 1), (1, 1), (2, 1), (3, 2)]
}

/// Flags, reserved bytes, cells; then a page's header and first pointers.
pub(super) fn btree(bytes: &[u8]) -> Vec<Field> {
    let mut out = vec![(0, 1), (1, 1), (2, 2)];
    let header = 4 + if bytes.first().is_some_and(|f| f & 1 != 0) {
        100
    } else {
        0
    };
    row(header, &[1, 2, 2, 2, 1, 4, 2, 2, 2, 2, 2, 2], &mut out);
    out
}

/// A model that is told with its length: length, version, length of the bits, their first bytes; and what lies behind it.
fn model_at(at: usize, bytes: &[u8], out: &mut Vec<Field>) {
    row(at, &[3, 1, 3, 2, 1, 1, 1, 1, 1, 1], out);
    let len = bytes
        .get(at..at + 3)
        .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], 0]) as usize);
    let behind = (at + 3 + len).min(bytes.len());
    // Twice, for it is what is of interest.
    for _ in 0..2 {
        row(behind, &[1, 1, 1, 1, 1, 1, 1, 1], out);
    }
}

pub(super) fn model(bytes: &[u8]) -> Vec<Field> {
    let mut out = Vec::new();
    model_at(0, bytes, &mut out);
    out
}

pub(super) fn defaults(bytes: &[u8]) -> Vec<Field> {
    (0..bytes.len().min(300)).map(|at| (at, 1)).collect()
}

pub(super) fn typed(bytes: &[u8]) -> Vec<Field> {
    let mut out = vec![(0, 1)];
    model_at(1, bytes, &mut out);
    out
}

pub(super) fn symbols(_: &[u8]) -> Vec<Field> {
    vec![(0, 1), (1, 3), (4, 1), (5, 1), (6, 1)]
}

pub(super) fn trailer(bytes: &[u8]) -> Vec<Field> {
    let mut out = Vec::new();
    trailer_at(0, bytes, &mut out);
    out
}

fn trailer_at(at: usize, bytes: &[u8], out: &mut Vec<Field>) {
    row(at, TRAILER, out);
    let word = |i: usize| {
        bytes
            .get(at + i..at + i + 4)
            .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
            .min(64)
    };
    let (flags, pieces, dicts, deltas) = (word(16), word(196), word(200), word(204));
    let mut next = at + 208;
    let mut rows = |sizes: &[usize], count: usize| {
        for _ in 0..count {
            row(next, sizes, out);
            next += sizes.iter().sum::<usize>();
        }
    };
    if flags & 1 != 0 {
        rows(&[8, 8, 4, 4, 4, 8, 4, 4, 4], 1);
        rows(&[8, 8, 4, 4, 8], word(208 + 36));
        rows(&[4, 4], word(208 + 44));
    }
    rows(&[8, 8], pieces);
    rows(&[4, 8, 8, 4, 2, 8], dicts);
    rows(&[4, 8, 8, 4, 4, 1, 1, 1, 1], deltas);
}

pub(super) fn file(bytes: &[u8]) -> Vec<Field> {
    let mut out = Vec::new();
    // The preamble is named as often as some records are, for it is what everything begins with.
    for _ in 0..4 {
        row(HEADER_OFF as usize, HEADER, &mut out);
        for off in SLOT_OFF {
            slot_at(off as usize, &mut out);
            slot_at((off + SLOT_COPY) as usize, &mut out);
        }
        row(TIP_OFF as usize, TIP, &mut out);
    }
    for Found { at, record, .. } in scan(bytes) {
        match record.kind {
            Kind::Trailer => trailer_at(at + RECORD_LEN, bytes, &mut out),
            Kind::Jump => row(at + RECORD_LEN, &[8], &mut out),
            _ => {}
        }
        row(at, RECORD, &mut out);
    }
    out
}

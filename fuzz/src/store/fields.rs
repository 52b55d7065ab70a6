//! Where fields are in the bytes of each target, for a mutator that knows what it changes.

use super::layout::{RECORD_LEN, SLOT_COPY, SLOT_OFF, TIP_OFF, kind};
use super::repair::{Found, scan};
use crate::target::{Fields, row};

const HEADER: &[usize] = &[16, 4, 4, 8];
const TIP: &[usize] = &[8, 8, 4, 4, 16];
const RECORD: &[usize] = &[1, 1, 4, 3, 3, 6, 4];
const TRAILER: &[usize] = &[
    8, 8, 4, 4, 8, 8, 8, 8, 8, 8, 4, 4, 16, 100, 4, 4, 4, 4, 4, 4, 4, 4,
];

pub(super) fn header(_: &[u8]) -> Fields {
    let mut out = Fields::new();
    row(0, HEADER, &mut out);
    out
}

fn slot_at(at: usize, out: &mut Fields) {
    row(at, &[4, 4, 8, 8], out);
    row(at + 24, TIP, out);
    row(at + 64, &[4, 4], out);
}

pub(super) fn slot(_: &[u8]) -> Fields {
    let mut out = Fields::new();
    slot_at(0, &mut out);
    out
}

pub(super) fn tip(_: &[u8]) -> Fields {
    let mut out = Fields::new();
    row(0, TIP, &mut out);
    out
}

pub(super) fn record(_: &[u8]) -> Fields {
    let mut out = Fields::new();
    row(0, RECORD, &mut out);
    out
}

pub(super) fn frame(_: &[u8]) -> Fields {
    vec![(0, 1), (1, 1), (2, 1), (3, 2)]
}

pub(super) fn trailer(bytes: &[u8]) -> Fields {
    let mut out = Fields::new();
    trailer_at(0, bytes, &mut out);
    out
}

fn trailer_at(at: usize, bytes: &[u8], out: &mut Fields) {
    row(at, TRAILER, out);
    let word = |i: usize| {
        bytes
            .get(at + i..at + i + 4)
            .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
            .min(64)
    };
    let (flags, pieces, dicts, deltas) = (word(16), word(216), word(220), word(224));
    let mut next = at + 228;
    let mut rows = |sizes: &[usize], count: usize| {
        for _ in 0..count {
            row(next, sizes, out);
            next += sizes.iter().sum::<usize>();
        }
    };
    if flags & 1 != 0 {
        rows(&[8, 8, 4, 4, 4, 8, 4, 4, 4], 1);
        rows(&[8, 8, 4, 4, 8], word(228 + 36));
        rows(&[4, 4], word(228 + 44));
    }
    rows(&[8, 8], pieces);
    rows(&[4, 8, 8, 4, 2, 8], dicts);
    rows(&[4, 8, 8, 4, 4, 1, 1, 1, 1], deltas);
}

pub(super) fn file(bytes: &[u8]) -> Fields {
    let mut out = Fields::new();
    // Everything begins with the preamble, so it is named as often as some records are.
    for _ in 0..4 {
        row(0, HEADER, &mut out);
        for off in SLOT_OFF {
            slot_at(off, &mut out);
            slot_at(off + SLOT_COPY, &mut out);
        }
        row(TIP_OFF, TIP, &mut out);
    }
    for Found { at, header, .. } in scan(bytes) {
        match header.kind {
            kind::TRAILER => trailer_at(at + RECORD_LEN, bytes, &mut out),
            kind::JUMP => row(at + RECORD_LEN, &[8], &mut out),
            _ => {}
        }
        row(at, RECORD, &mut out);
    }
    out
}

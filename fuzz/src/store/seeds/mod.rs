//! Valid inputs of each target. Here those of the structures, byte by byte as docs/FORMAT.md has
//! them.

mod frames;
mod whole_files;

use super::layout::{INDEX_RAW, INNER_FANOUT, LEAF_FANOUT, first_hash, kind};
use super::{SALT, repair};
use crate::target::Seeds;
use densite_store::CodecChoice;
use densite_store::codec::{self, CodecId};

pub(super) use frames::{dictionary, frame, page};
pub(super) use whole_files::file;

/// Numbers and their lengths in bytes, one behind the other.
fn numbers(fields: &[(u64, usize)]) -> Vec<u8> {
    let bytes = fields
        .iter()
        .flat_map(|(v, len)| v.to_le_bytes().into_iter().take(*len));
    bytes.collect()
}

/// Bytes with a checksum of eight bytes behind them.
fn checked(fields: &[&[u8]], repair: fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = [&fields.concat(), [0; 8].as_slice()].concat();
    repair(&mut bytes);
    bytes
}

/// The 40 bytes of a tip without its checksum.
fn tip_at(commit: u64, off: u64, len: u64, hash: [u8; 16]) -> Vec<u8> {
    [
        numbers(&[(commit, 8), (off, 8), (len, 4), (0, 4)]),
        hash.to_vec(),
    ]
    .concat()
}

fn some_tip() -> Vec<u8> {
    tip_at(7, 70_000, 300, *b"0123456789abcdef")
}

/// Offset, version and length of a record.
fn place(off: u64) -> Vec<u8> {
    numbers(&[(off, 8), (7, 8), (900, 4)])
}

/// The fields of an entry of the page map: offset, version, length, model, codec, run, slot.
fn entry(i: u64) -> [u64; 7] {
    [16384 + i * 700, 3 + i / 5, 600 + i % 90, i % 3, 2, 0, 0]
}

pub(super) fn header() -> Seeds {
    let of = |version| {
        let fields = numbers(&[(version, 4), (0, 4), (SALT, 8)]);
        checked(&[b"Densite format\r\n", &fields], repair::header)
    };
    vec![
        ("version-1", of(1)),
        ("newer", of(2)),
        ("sqlite", b"SQLite format 3\0".to_vec()),
    ]
}

pub(super) fn slot() -> Seeds {
    let of = |seq, flags| {
        let head = numbers(&[(1, 4), (seq, 8), (SALT, 8)]);
        let flags = numbers(&[(flags, 4), (0, 4)]);
        checked(&[b"DSLT", &head, &some_tip(), &flags], repair::slot)
    };
    vec![
        ("clean", of(9, 1)),
        ("open", of(u64::from(u32::MAX), 0)),
        ("none", of(0, 0)),
    ]
}

pub(super) fn tip() -> Seeds {
    let empty = tip_at(0, 0, 0, first_hash(SALT));
    vec![
        ("tip", checked(&[&some_tip()], repair::tip)),
        ("empty", checked(&[&empty], repair::tip)),
    ]
}

pub(super) fn record() -> Seeds {
    // Kind and codec, log2s, number, check of the decoded payload.
    let of = |kind: u8, log2s: u64, number, raw_check, payload: &[u8]| {
        let len = payload.len() as u64;
        let head = [(u64::from(kind), 1), (log2s, 1), (number, 4), (len, 3)];
        let model_and_version = [(0, 3), (7, 6), (raw_check, 4), (0, 8)];
        let head = [numbers(&head), numbers(&model_and_version)].concat();
        let mut bytes = [&head, payload].concat();
        repair::record(&mut bytes);
        bytes
    };
    let frame = kind::FRAME | CodecId::ZSTD.0 << 3;
    let target = 131_072u64.to_le_bytes();
    vec![
        (
            "frame",
            of(frame, 12 | 1 << 5, 3, 77, b"not looked at by this target"),
        ),
        ("jump", of(kind::JUMP, 0, 0, 0, &target)),
        ("empty", of(kind::SPACE, 0, 0, 0, b"")),
    ]
}

pub(super) fn trailer() -> Seeds {
    // The counts are those of pieces, dictionaries and deltas.
    let of = |flags, deltas: u64, root: &[u8]| {
        let open_end = u64::MAX;
        let head = numbers(&[(8, 8), (99, 8), (flags, 4), (4096, 4), (40960, 8)]);
        let ends = numbers(&[(90_000, 8), (open_end, 8), (90_000, 8)]);
        let learned = numbers(&[(9, 4), (2, 4), (5, 4), (9, 4), (3, 4)]);
        let counts = numbers(&[(2, 4), (1, 4), (deltas, 4)]);
        let pieces = numbers(&[(70_300, 8), (89_000, 8), (131_072, 8), (140_000, 8)]);
        let dictionary = [
            numbers(&[(2, 4)]),
            place(80_000),
            numbers(&[(0x2103, 2), (0, 8)]),
        ];
        let delta = |i| {
            let [off, version, len, model, codec, run, slot] = entry(i);
            let wide = [(i + 1, 4), (off, 8), (version, 8), (len, 4), (model, 4)];
            let small = [(codec, 1), (run, 1), (slot, 1), (0, 1)];
            [numbers(&wide), numbers(&small)].concat()
        };
        let deltas: Vec<u8> = (0..deltas).flat_map(delta).collect();
        let rest = [
            &pieces,
            &dictionary.concat(),
            &deltas,
            b"hash hash hash h".as_slice(),
        ];
        let page_1 = [5; 100].as_slice();
        [
            &head,
            &ends,
            &some_tip(),
            page_1,
            &learned,
            &counts,
            root,
            &rest.concat(),
        ]
        .concat()
    };
    // The map's root and its level, next dictionary, units; count, level and moved units of parts.
    let root = [
        place(80_000),
        numbers(&[(1, 4), (3, 4), (1500, 8), (2, 4), (0, 4), (2, 4)]),
        part(80_000, 4, 60_000_000),
        part(100, 900, 7_000_000),
        numbers(&[(3, 4), (1400, 4), (9, 4), (1399, 4)]),
    ];
    vec![
        ("deltas", of(0, 5, &[])),
        ("root", of(1, 0, &root.concat())),
    ]
}

/// A part of the space table.
fn part(off: u64, free: u64, live: u64) -> Vec<u8> {
    [place(off), numbers(&[(free, 4), (live, 8)])].concat()
}

/// A payload behind these bytes and the number of its codec.
fn coded(head: &[u8], raw: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    let codec = codec::encode(raw, 3, None, CodecChoice::Zstd, &mut payload).codec;
    [head, &[codec.0], &payload].concat()
}

/// The decoded payload of a leaf: its entries column by column. A wide column has differences to
/// the entry before, zigzag coded, as byte planes.
fn leaf(entries: &[[u64; 7]]) -> Vec<u8> {
    let mut out = Vec::new();
    for (column, width) in [8, 8, 4, 4, 1, 1, 1].into_iter().enumerate() {
        let values = entries.iter().map(|entry| entry[column]);
        if width == 1 {
            out.extend(values.map(|v| v as u8));
            continue;
        }
        let mut before = 0;
        let coded: Vec<[u8; 8]> = values
            .map(|v| {
                let difference = v.wrapping_sub(before) as i64;
                before = v;
                (difference << 1 ^ difference >> 63).to_le_bytes()
            })
            .collect();
        for plane in 0..width {
            out.extend(coded.iter().map(|bytes| bytes[plane]));
        }
    }
    out
}

pub(super) fn node() -> Seeds {
    // Each tenth page has no frame.
    let entries: Vec<[u64; 7]> = (0..LEAF_FANOUT as u64)
        .map(|i| if i % 10 == 9 { [0; 7] } else { entry(i) })
        .collect();
    let leaf = leaf(&entries);
    let inner: Vec<u8> = (0..INNER_FANOUT as u64)
        .flat_map(|i| match i {
            0..40 => place(20_000 + i * 1000),
            _ => vec![0; 20],
        })
        .collect();
    vec![
        ("leaf", coded(&[0], &leaf)),
        ("leaf-raw", [&[0, CodecId::RAW.0], leaf.as_slice()].concat()),
        ("inner", coded(&[1], &inner)),
        (
            "inner-raw",
            [&[2, CodecId::RAW.0], inner.as_slice()].concat(),
        ),
        ("empty", vec![0, CodecId::ZERO.0]),
    ]
}

pub(super) fn chunk() -> Seeds {
    let raw: Vec<u8> = (0..1024u32)
        .flat_map(|i| (if i % 7 == 0 { 0 } else { i * 60 }).to_le_bytes())
        .collect();
    vec![("some", coded(&[], &raw)), ("none", vec![CodecId::ZERO.0])]
}

pub(super) fn index() -> Seeds {
    let mut some: Vec<u8> = (0..200)
        .flat_map(|i| part(20_000 + i * 3000, i * 5, 67_000_000 - i * 100_000))
        .collect();
    some.resize(INDEX_RAW, 0);
    vec![("some", coded(&[], &some)), ("none", vec![CodecId::ZERO.0])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OFFSET;
    use densite_store::decoders;
    use std::collections::BTreeSet;

    /// Mutants of frames and files reach the decoder of each codec, and of packed dictionaries.
    #[test]
    fn every_codec_is_in_a_seed() {
        let frames = frame();
        let of_frames: BTreeSet<u8> = frames.iter().map(|(_, bytes)| bytes[0]).collect();
        assert_eq!(
            of_frames,
            CodecId::ALL.iter().map(|codec| codec.0).collect()
        );
        let files: Vec<_> = file().into_iter().map(|(_, bytes)| bytes).collect();
        let found = files.iter().flat_map(|bytes| repair::scan(bytes));
        let found: BTreeSet<_> = found.map(|f| (f.header.kind, f.header.codec)).collect();
        for wanted in [
            (kind::FRAME, CodecId::LINKED.0),
            (kind::DICTIONARY, CodecId::ZSTD.0),
            (kind::DICTIONARY, CodecId::TYPED.0),
        ] {
            assert!(found.contains(&wanted), "{wanted:?} is missing: {found:?}");
        }
    }

    /// Seeds are written without the encoders. So this also compares these with docs/FORMAT.md.
    #[test]
    fn seeds_of_structures_round_trip() {
        let same = |seeds: Seeds, decode: &dyn Fn(&[u8]) -> Option<decoders::Decoded>| {
            for (name, bytes) in seeds {
                if ["sqlite", "newer", "none"].contains(&name) {
                    assert_eq!(decode(&bytes), None, "{name} is refused");
                    continue;
                }
                let decoded = decode(&bytes).unwrap_or_else(|| panic!("{name} is refused"));
                assert_eq!(decoded.encode(), bytes, "{name}");
            }
        };
        same(header(), &|bytes| decoders::header(bytes).ok());
        same(slot(), &decoders::slot);
        same(tip(), &|bytes| decoders::tip(bytes, SALT));
        same(record(), &|bytes| decoders::record(bytes, SALT, OFFSET));
        same(trailer(), &decoders::trailer);
        let raw = |target: Seeds, name| {
            let seed = target.into_iter().find(|seed| seed.0 == name);
            seed.expect("a seed").1.split_off(2)
        };
        for (level, name) in [(0, "leaf-raw"), (2, "inner-raw")] {
            let raw = raw(node(), name);
            let node = decoders::node(level, &raw).expect("a node");
            assert_eq!(node.encode(), raw, "{name}");
        }
    }
}

//! Valid inputs of each target: here those of the store's own structures.

mod files;
mod pages;

use super::{OFFSET, SALT};
use crate::CodecChoice;
use crate::codec::{self, CodecId};
use crate::format::header::Header;
use crate::format::record::{Kind, Record};
use crate::format::slot::Slot;
use crate::format::tip::Tip;
use crate::format::trailer::{DictInfo, HEAD_LEN, OPEN_END, RootSection, Trailer};
use crate::map::node::{INNER_FANOUT, LEAF_FANOUT, Node};
use crate::map::{Entry, NodeRef, Root};
use crate::space::Table;
use crate::space::table::{Part, encode_index};

pub(super) use files::file;
pub(super) use pages::{btree, defaults, dictionary, frame, model, page, symbols, typed};

type Seeds = Vec<(&'static str, Vec<u8>)>;

const TIP: Tip = Tip {
    commit: 7,
    off: 70_000,
    len: 300,
    hash: *b"0123456789abcdef",
};
const PLACE: NodeRef = NodeRef {
    off: 80_000,
    version: 7,
    len: 900,
};

fn entry(i: u64) -> Entry {
    Entry {
        off: 16384 + i * 700,
        version: 3 + i / 5,
        len: 600 + (i % 90) as u32,
        model: (i % 3) as u32,
        codec: 2,
        run_log2: 0,
        slot: 0,
    }
}

pub(super) fn header() -> Seeds {
    let of = |version| {
        Header {
            version,
            salt: SALT,
        }
        .encode()
    };
    vec![
        ("version-1", of(1)),
        ("newer", of(2)),
        ("sqlite", b"SQLite format 3\0".to_vec()),
    ]
}

pub(super) fn slot() -> Seeds {
    let of = |seq, flags| {
        Slot {
            version: 1,
            seq,
            salt: SALT,
            tip: TIP,
            flags,
        }
        .encode()
    };
    vec![
        ("clean", of(9, 1)),
        ("open", of(u64::from(u32::MAX), 0)),
        ("none", of(0, 0)),
    ]
}

pub(super) fn tip() -> Seeds {
    vec![
        ("tip", TIP.encode(SALT).to_vec()),
        (
            "empty",
            Tip {
                hash: crate::state::first_hash(SALT),
                ..Tip::default()
            }
            .encode(SALT)
            .to_vec(),
        ),
    ]
}

pub(super) fn record() -> Seeds {
    let put = |r: Record, payload: &[u8]| {
        let mut out = Vec::new();
        r.put(payload, SALT, OFFSET, &mut out);
        out
    };
    let frame = Record {
        codec: 1,
        page_log2: 12,
        run_log2: 1,
        raw_check: 77,
        ..Record::plain(Kind::Frame, 3, 7)
    };
    vec![
        ("frame", put(frame, b"not looked at by this target")),
        (
            "jump",
            put(Record::plain(Kind::Jump, 0, 7), &131_072u64.to_le_bytes()),
        ),
        ("empty", put(Record::plain(Kind::Space, 0, 7), b"")),
    ]
}

pub(super) fn trailer() -> Seeds {
    let mut t = Trailer {
        commit: 8,
        epoch: 99,
        page_size: 4096,
        logical_len: 40960,
        next_off: 90_000,
        room_end: OPEN_END,
        tail_off: 90_000,
        prev: TIP,
        head: [5; HEAD_LEN],
        root: None,
        pieces: vec![(70_300, 89_000), (131_072, 140_000)],
        dicts: vec![DictInfo {
            id: 2,
            family: 0x2103,
            place: PLACE,
            uses: 0,
        }],
        deltas: (0..5).map(|i| (i as u32 + 1, entry(i))).collect(),
    };
    let bytes = |t: &Trailer| {
        let mut out = t.encode();
        out.extend_from_slice(b"hash hash hash h");
        out
    };
    let plain = bytes(&t);
    t.deltas.clear();
    let map = Root {
        node: PLACE,
        level: 1,
    };
    t.root = Some(RootSection {
        map,
        next_dict: 3,
        space: Table {
            units: 1500,
            level: 0,
            parts: vec![
                Part {
                    place: PLACE,
                    free: 4,
                    live: 60_000_000,
                },
                Part {
                    place: NodeRef { off: 100, ..PLACE },
                    free: 900,
                    live: 7_000_000,
                },
            ],
            moved: vec![(3, 700), (9, -700)],
        },
    });
    vec![("deltas", plain), ("root", bytes(&t))]
}

fn coded(head: &[u8], raw: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    let codec = codec::encode(raw, 3, None, CodecChoice::Zstd, &mut payload).codec;
    [head, &[codec.0], &payload].concat()
}

pub(super) fn node() -> Seeds {
    let leaf: Vec<Entry> = (0..LEAF_FANOUT as u64)
        .map(|i| if i % 10 == 9 { Entry::NONE } else { entry(i) })
        .collect();
    let inner = (0..INNER_FANOUT as u64).map(|i| {
        if i < 40 {
            NodeRef {
                off: 20_000 + i * 1000,
                ..PLACE
            }
        } else {
            NodeRef::default()
        }
    });
    let (leaf, inner) = (
        Node::Leaf(leaf.into()).encode(),
        Node::Inner(inner.collect()).encode(),
    );
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
    let part = |i: u64| Part {
        place: NodeRef {
            off: 20_000 + i * 3000,
            ..PLACE
        },
        free: i as u32 * 5,
        live: 67_000_000 - i * 100_000,
    };
    let some: Vec<Part> = (0..200).map(part).collect();
    vec![
        ("some", coded(&[], &encode_index(&some))),
        ("none", vec![CodecId::ZERO.0]),
    ]
}

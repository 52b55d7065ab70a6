//! Valid inputs of each target. Files are made by the store itself, with random salts: they differ from run to run.

use super::{MemFile, OFFSET, SALT};
use crate::codec::{self, CodecId};
use crate::format::header::Header;
use crate::format::record::{Kind, Record};
use crate::format::slot::Slot;
use crate::format::tip::Tip;
use crate::format::trailer::{DictInfo, HEAD_LEN, OPEN_END, RootSection, Trailer};
use crate::map::node::{INNER_FANOUT, LEAF_FANOUT, Node};
use crate::map::{Entry, NodeRef, Root};
use crate::{CodecChoice, Handle, Options, Readahead};
use densite_disk::SyncKind;
use std::sync::atomic::{AtomicU64, Ordering};

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
        units: 1500,
        chunks: vec![(PLACE, 4), (NodeRef { off: 100, ..PLACE }, 900)],
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

/// A page that looks a little like one of SQLite's: a table leaf with three columns.
fn sqlite_page(len: usize, salt: u32) -> Vec<u8> {
    let mut page = vec![0; len];
    let mut end = len;
    let mut cells = Vec::new();
    for i in 0..(len / 40) as u32 {
        let text = format!("name {} of {}", i.wrapping_mul(salt) % 97, salt % 7);
        let mut cell = vec![
            0,
            i as u8 & 0x7F,
            4,
            1,
            13 + 2 * text.len() as u8,
            1,
            i as u8,
        ];
        cell.extend_from_slice(text.as_bytes());
        cell.push(salt as u8);
        cell[0] = cell.len() as u8 - 2;
        end -= cell.len();
        page[end..end + cell.len()].copy_from_slice(&cell);
        cells.push(end as u16);
    }
    page[0] = 0x0D;
    page[3..5].copy_from_slice(&(cells.len() as u16).to_be_bytes());
    page[5..7].copy_from_slice(&(end as u16).to_be_bytes());
    for (i, cell) in cells.iter().enumerate() {
        page[8 + 2 * i..10 + 2 * i].copy_from_slice(&cell.to_be_bytes());
    }
    page
}

fn trained() -> Vec<u8> {
    let samples: Vec<Vec<u8>> = (1..200).map(|i| sqlite_page(1024, i)).collect();
    zstd::dict::from_samples(&samples, 3000).unwrap_or_default()
}

pub(super) fn frame() -> Seeds {
    let page = sqlite_page(4096, 3);
    let dict = codec::Dictionary::new(7, trained());
    let frame = |codec: CodecId, dict: &[u8], payload: &[u8]| {
        [
            &[codec.0, 3, 0],
            (dict.len() as u16).to_le_bytes().as_slice(),
            dict,
            payload,
        ]
        .concat()
    };
    let encode = |dict: Option<&codec::Dictionary>| {
        let mut payload = Vec::new();
        let c = codec::encode(&page, 3, dict, CodecChoice::Auto, &mut payload).codec;
        frame(c, dict.map_or(&[], |d| d.bytes()), &payload)
    };
    vec![
        ("zstd", encode(None)),
        ("zstd-dict", encode(Some(&dict))),
        (
            "raw-512",
            [&[0, 0, 0, 0, 0], sqlite_page(512, 5).as_slice()].concat(),
        ),
        ("zero", frame(CodecId::ZERO, b"", b"")),
    ]
}

pub(super) fn dictionary() -> Seeds {
    vec![
        ("trained", trained()),
        ("content", sqlite_page(600, 3)),
        ("none", Vec::new()),
    ]
}

pub(super) fn page() -> Seeds {
    let first = |page: &[u8]| [&[10], page].concat();
    let mut one = b"SQLite format 3\0".to_vec();
    one.resize(100, 0);
    one.extend_from_slice(&sqlite_page(412, 3));
    vec![
        ("leaf", first(&sqlite_page(1024, 3))),
        ("page-1", first(&one)),
        ("zeros", first(&[0; 512])),
    ]
}

fn open(file: &MemFile, options: Options) -> Handle {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let identity = format!("seed {}", NEXT.fetch_add(1, Ordering::Relaxed));
    Handle::open(Box::new(file.clone()), &identity, options).expect("a seed opens")
}

/// A file made by `make`; `close`: as the last user leaves it.
fn made(close: bool, options: &Options, make: impl FnOnce(&mut Handle)) -> Vec<u8> {
    let file = MemFile::default();
    let mut handle = open(&file, options.clone());
    make(&mut handle);
    if close {
        handle.close_clean().expect("close");
    }
    drop(handle);
    let mut bytes = file.bytes();
    // The reserve at the end means nothing and weighs much.
    while bytes.len() > 20_000 && bytes.ends_with(&[0; 64]) {
        bytes.truncate(bytes.len() - 64);
    }
    bytes
}

fn put(h: &mut Handle, size: usize, numbers: impl IntoIterator<Item = u64>, salt: u32) {
    for n in numbers {
        h.write_at(
            &sqlite_page(size, salt.wrapping_add(n as u32)),
            n * size as u64,
        )
        .expect("write");
    }
}

pub(super) fn file() -> Seeds {
    let small = Options {
        threads: 0,
        run_pages: 1,
        decoded_cache_bytes: 1 << 20,
        readahead: Readahead::Off,
        ..Options::default()
    };
    let runs = Options {
        run_pages: 8,
        ..small.clone()
    };
    let unborn = made(false, &small, |h| {
        h.write_at(&[1; 512], 0).expect("write");
        h.discard();
    });
    let one = made(true, &small, |h| put(h, 512, 0..5, 1));
    let open_end = made(false, &small, |h| {
        for i in 0..4 {
            put(h, 512, i..i + 4, i as u32);
            h.publish().expect("publish");
        }
    });
    let folded = made(true, &runs, |h| {
        let zeros = vec![0; 512 * 2100];
        h.write_at(&zeros, 0).expect("write");
        put(h, 512, [3, 700, 2099], 5);
        h.publish().expect("publish");
        put(h, 512, 8..24, 9);
        h.set_len(512 * 2000 + 100).expect("set_len");
        h.publish().expect("publish");
    });
    let dict = made(true, &small, |h| {
        let samples: Vec<Vec<u8>> = (0..200).map(|i| sqlite_page(2048, i * 31)).collect();
        h.learn(&samples, 1 << 20).expect("learn");
        put(h, 2048, 0..30, 77);
        h.sync(SyncKind::Data).expect("sync");
    });
    vec![
        ("unborn", unborn),
        ("one", one),
        ("open-end", open_end),
        ("folded", folded),
        ("dict", dict),
        ("reuse", reuse(&small)),
    ]
}

/// A file whose units are written again: it has jumps. Too large to be kept.
fn reuse(options: &Options) -> Vec<u8> {
    let options = Options {
        codec: CodecChoice::Raw,
        ..options.clone()
    };
    made(false, &options, |h| {
        for round in 0..40u32 {
            let from = u64::from(round % 3) * 20;
            put(h, 1024, from..from + 60, round);
            h.sync(SyncKind::Data).expect("sync");
        }
    })
}

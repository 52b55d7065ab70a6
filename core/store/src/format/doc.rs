//! Tests that docs/FORMAT.md, the tables in the modules and the encoded bytes agree.

use super::header::{self, Header};
use super::record::{self, Chain, JUMP_LEN, Kind, MAX_PAYLOAD, RECORD_LEN, Record};
use super::slot::{self, Slot};
use super::tip::{TIP_LEN, Tip};
use super::trailer::{DictInfo, HEAD_LEN, Learned, OPEN_END, RootSection, Trailer, payload_len};
use crate::CodecChoice;
use crate::codec::{self, CodecId, Dictionary, PageSettings, encode_pages};
use crate::format::entry::{Entry, NodeRef, Root};
use crate::format::space_table::Part;
use crate::format::space_table::Table;
use crate::map::node::{INNER_FANOUT, LEAF_FANOUT, Node};
use crate::space::Space;
use crate::space::chunk_tree::{decode_index, encode_index};
use densite_disk::hash::{xxh3_64, xxh3_64_with_seed, xxh3_128, xxh3_128_with_seed};
use densite_format_doc::{TEXT, Tables, le2, le4, le8};
use densite_typed::PageContext;

/// The mark of the store's tables in FORMAT.md.
const KIND: &str = "table";

/// Checks one table against the bytes of an example.
fn check(name: &str, bytes: &[u8], fields: &[(&str, Vec<u8>)]) {
    Tables::of(KIND).check(name, bytes, fields);
}

const SALT: u64 = 0x5A17_5A17_1122_3344;
const TIP: Tip = Tip {
    commit: 0x0102_0304_0506,
    off: 0x1112_1314_1516,
    len: 0x0012_2324,
    hash: *b"0123456789abcdef",
};
const PLACE: NodeRef = NodeRef {
    off: 0x3132_3334_3536,
    version: 0x4142_4344,
    len: 0x0051_5253,
};
const ENTRY: Entry = Entry {
    off: 0x6162_6364_6566,
    version: 0x7172_7374,
    len: 0x0071_8283,
    model: 0x9192_9394,
    codec: 2,
    run_log2: 5,
    slot: 17,
};

fn tip_bytes() -> Vec<u8> {
    [
        le8(TIP.commit),
        le8(TIP.off),
        le4(TIP.len),
        le4(0),
        TIP.hash.to_vec(),
    ]
    .concat()
}
fn place_bytes() -> Vec<u8> {
    [le8(PLACE.off), le8(PLACE.version), le4(PLACE.len)].concat()
}
fn entry_bytes() -> Vec<u8> {
    [
        le8(ENTRY.off),
        le8(ENTRY.version),
        le4(ENTRY.len),
        le4(ENTRY.model),
        vec![2, 5, 17, 0],
    ]
    .concat()
}

#[test]
fn header_bytes() {
    let b = Header {
        version: 1,
        salt: SALT,
    }
    .encode();
    let sum = xxh3_64(&b[..32]);
    let magic = b"Densite format\r\n".to_vec();
    check(
        "header",
        &b,
        &[
            ("magic", magic),
            ("version", le4(1)),
            ("reserved", le4(0)),
            ("salt", le8(SALT)),
            ("checksum", le8(sum)),
        ],
    );
}

#[test]
fn slot_bytes() {
    let b = Slot {
        version: 1,
        seq: 0xABCD_EF01_0203,
        salt: SALT,
        tip: TIP,
        flags: slot::CLEAN,
    }
    .encode();
    check(
        "slot",
        &b,
        &[
            ("magic", b"DSLT".to_vec()),
            ("version", le4(1)),
            ("seq", le8(0xABCD_EF01_0203)),
            ("salt", le8(SALT)),
            ("tip", tip_bytes()),
            ("flags", le4(1)),
            ("reserved", le4(0)),
            ("checksum", le8(xxh3_64(&b[..72]))),
        ],
    );
}

#[test]
fn tip_bytes_and_checksum() {
    let b = TIP.encode(SALT);
    check(
        "tip",
        &b,
        &[
            ("commit", le8(TIP.commit)),
            ("off", le8(TIP.off)),
            ("len", le4(TIP.len)),
            ("reserved", le4(0)),
            ("hash", TIP.hash.to_vec()),
            ("checksum", le8(xxh3_64_with_seed(&b[..40], SALT))),
        ],
    );
    assert_eq!(
        crate::state::first_hash(SALT),
        xxh3_128_with_seed(b"Densite", SALT).to_le_bytes()
    );
}

#[test]
fn record_bytes() {
    let fields = Record {
        codec: 2,
        page_log2: 12,
        run_log2: 3,
        model: 0x21_2223,
        raw_check: 0x3132_3334,
        ..Record::plain(Kind::Frame, 0x4142_4344, 0x5152_5354_5556)
    };
    let (payload, offset) = (b"some payload", 0x9_8765_4321);
    let mut b = Vec::new();
    fields.put(payload, SALT, offset, &mut b);
    let sum = xxh3_64_with_seed(payload, xxh3_64_with_seed(&b[..22], SALT ^ offset));
    assert_eq!(&b[RECORD_LEN..], payload);
    check(
        "record",
        &b[..RECORD_LEN],
        &[
            ("kind", vec![1 | 2 << 3]),
            ("log2s", vec![12 | 3 << 5]),
            ("number", le4(0x4142_4344)),
            ("stored_len", vec![12, 0, 0]),
            ("model", vec![0x23, 0x22, 0x21]),
            ("version", vec![0x56, 0x55, 0x54, 0x53, 0x52, 0x51]),
            ("raw_check", le4(0x3132_3334)),
            ("checksum", le8(sum)),
        ],
    );
    assert_eq!(record::raw_check(b"page"), xxh3_64(b"page") as u32);
}

#[test]
fn entry_place_and_jump_bytes() {
    let mut b = Vec::new();
    ENTRY.put(&mut b);
    check(
        "entry",
        &b,
        &[
            ("off", le8(ENTRY.off)),
            ("version", le8(ENTRY.version)),
            ("len", le4(ENTRY.len)),
            ("model", le4(ENTRY.model)),
            ("codec", vec![2]),
            ("run_log2", vec![5]),
            ("slot", vec![17]),
            ("reserved", vec![0]),
        ],
    );
    let mut b = Vec::new();
    PLACE.put(&mut b);
    check(
        "place",
        &b,
        &[
            ("off", le8(PLACE.off)),
            ("version", le8(PLACE.version)),
            ("len", le4(PLACE.len)),
        ],
    );

    // A jump as the appender writes it. The extent has room only for the jump, so the next record
    // goes to the free units 5 and 6.
    let mut space = Space::default();
    space.add(0, 8 * 65536);
    space.sub(5 * 65536, 2 * 65536, 1);
    space.slot_durable(1, (0, 1));
    let mut appender =
        crate::append::Appender::new(SALT, 65536, 65536 + JUMP_LEN, 8 * 65536, &TIP.hash);
    appender.make_room(&mut space, 100, 2).expect("room");
    let b = appender
        .read(&empty_file(), 65536, JUMP_LEN as u32)
        .expect("buffered");
    assert_eq!(
        Record::open(&b, SALT, 65536).expect("a record").0.kind,
        Kind::Jump
    );
    check("jump", &b[RECORD_LEN..], &[("target", le8(5 * 65536))]);
}

/// An empty file, so all bytes that are read come from a buffer.
fn empty_file() -> impl densite_disk::File {
    let disk = densite_sim_disk::SimDisk::new(1);
    disk.open("/empty", densite_disk::OpenMode::Create)
        .expect("the file is created")
}

fn a_trailer() -> Trailer {
    let mut head = [0; HEAD_LEN];
    head.iter_mut().zip(100..).for_each(|(b, v)| *b = v);
    Trailer {
        commit: 0x0A0B_0C0D,
        epoch: 0xE1E2_E3E4_E5E6_E7E8,
        page_size: 8192,
        logical_len: 0x0B12_1314_1516,
        next_off: 0x0421_2223,
        room_end: 0x0431_0000,
        tail_off: 0x0541_4243,
        prev: Tip {
            commit: 0x0506,
            ..TIP
        },
        head,
        learned: Learned {
            pages: 0xA1A2_A3A4,
            first: 0xB1B2,
            next: 0xC1C2_C3C4,
            tried: 0xE1E2_E3E4,
            hot: 0xE5E6,
        },
        root: None,
        pieces: vec![(0x4001, 0x5002), (0x6003, 0x7004)],
        dicts: vec![
            DictInfo {
                id: 0xD1D2,
                family: 0xFA01,
                place: PLACE,
                uses: 0x0102_0304
            };
            2
        ],
        deltas: vec![
            (0xDE01_DE02, ENTRY),
            (0xDE01_DE03, ENTRY),
            (0xDE01_DE04, ENTRY),
        ],
    }
}

#[test]
fn trailer_bytes() {
    let mut t = a_trailer();
    let b = t.encode();
    let prev = [le8(0x0506), tip_bytes()[8..].to_vec()].concat();
    let learned = [
        le4(0xA1A2_A3A4),
        le4(0xB1B2),
        le4(0xC1C2_C3C4),
        le4(0xE1E2_E3E4),
        le4(0xE5E6),
    ]
    .concat();
    let fixed = |flags: u32, deltas: u32| {
        vec![
            ("commit", le8(t.commit)),
            ("epoch", le8(t.epoch)),
            ("flags", le4(flags)),
            ("page_size", le4(8192)),
            ("logical_len", le8(t.logical_len)),
            ("next_off", le8(t.next_off)),
            ("room_end", le8(t.room_end)),
            ("tail_off", le8(t.tail_off)),
            ("prev", prev.clone()),
            ("head", (100..200).collect()),
            ("learned", learned.clone()),
            ("pieces", le4(2)),
            ("dicts", le4(2)),
            ("deltas", le4(deltas)),
        ]
    };
    check("trailer", &b[..228], &fixed(0, 3));
    check(
        "learned",
        &b[196..216],
        &[
            ("pages", le4(0xA1A2_A3A4)),
            ("first", le4(0xB1B2)),
            ("next", le4(0xC1C2_C3C4)),
            ("tried", le4(0xE1E2_E3E4)),
            ("hot", le4(0xE5E6)),
        ],
    );
    check(
        "piece",
        &b[228..244],
        &[("start", le8(0x4001)), ("end", le8(0x5002))],
    );
    let dict = [
        ("id", le4(0xD1D2)),
        ("place", place_bytes()),
        ("family", le2(0xFA01)),
        ("uses", le8(0x0102_0304)),
    ];
    check("dict", &b[228 + 32..228 + 32 + 34], &dict);
    let deltas = &b[228 + 32 + 68..];
    check(
        "delta",
        &deltas[..32],
        &[("page", le4(0xDE01_DE02)), ("entry", entry_bytes())],
    );
    assert_eq!(deltas.len(), 3 * 32);

    let (root_fixed, deltas) = (fixed(1, 0), Vec::new());
    let part = Part {
        place: PLACE,
        free: 0xF1F2,
        live: 0xE1E2_E3E4,
    };
    let section = RootSection {
        map: Root {
            node: PLACE,
            level: 2,
        },
        next_dict: 0xD1D3,
        space: Table {
            units: 1029,
            level: 1,
            parts: vec![part; 2],
            moved: vec![(0x0102, -3), (0x0103, 0x0102)],
        },
    };
    t = Trailer {
        root: Some(section),
        deltas,
        ..a_trailer()
    };
    let b = t.encode();
    check("trailer", &b[..228], &root_fixed);
    let root = [
        ("map", place_bytes()),
        ("level", le4(2)),
        ("next_dict", le4(0xD1D3)),
        ("units", le8(1029)),
        ("parts", le4(2)),
        ("space_level", le4(1)),
        ("moved", le4(2)),
    ];
    check("root", &b[228..276], &root);
    check(
        "part",
        &b[276..308],
        &[
            ("place", place_bytes()),
            ("free", le4(0xF1F2)),
            ("live", le8(0xE1E2_E3E4)),
        ],
    );
    check(
        "moved",
        &b[340..348],
        &[("unit", le4(0x0102)), ("change", le4(5))],
    );
    check(
        "moved",
        &b[348..356],
        &[("unit", le4(0x0103)), ("change", le4(0x0204))],
    );
    check(
        "piece",
        &b[356..372],
        &[("start", le8(0x4001)), ("end", le8(0x5002))],
    );
    assert_eq!(b.len() + 16, payload_len(Some((2, 2)), 2, 2, 0));
    let mut whole = b.clone();
    whole.extend_from_slice(&[9; 16]);
    assert_eq!(Trailer::decode(&whole), Some((t, [9; 16])));
}

#[test]
fn chain_hash() {
    let mut chain = Chain::after(b"hash of the last");
    chain.record(0x0102_0304_0506_0708);
    chain.record(0x1112_1314_1516_1718);
    let all = [
        b"hash of the last".to_vec(),
        le8(0x0102_0304_0506_0708),
        le8(0x1112_1314_1516_1718),
        b"fields".to_vec(),
    ]
    .concat();
    assert_eq!(chain.finish(b"fields"), xxh3_128(&all).to_le_bytes());
}

/// The expected contents of a column of byte planes.
fn planes(width: usize, values: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut out = vec![0; width * 512];
    let mut before = 0u64;
    for (i, v) in values.enumerate() {
        // A difference modulo 2^64 or 2^32, zigzag coded by the definition: n becomes 2n, or -2n -
        // 1 if it is negative.
        let z = if width == 8 {
            let d = v.wrapping_sub(before) as i64;
            if d >= 0 {
                2 * d as u64
            } else {
                (2 * i128::from(d.unsigned_abs()) - 1) as u64
            }
        } else {
            let d = (v as u32).wrapping_sub(before as u32) as i32;
            if d >= 0 {
                2 * d as u64
            } else {
                2 * u64::from(d.unsigned_abs()) - 1
            }
        };
        before = v;
        for b in 0..width {
            out[b * 512 + i] = (z >> (8 * b)) as u8;
        }
    }
    out
}

#[test]
fn node_bytes() {
    let mut entries = vec![Entry::NONE; 512];
    for (i, e) in entries.iter_mut().enumerate().filter(|(i, _)| i % 7 != 3) {
        let k = i as u64;
        *e = Entry {
            off: ((k * 0x0123_4567_89AB) % (1 << 48)) | 1,
            version: k.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            len: 36 + (i as u32 * 7919) % 8000,
            model: (k as u32).wrapping_mul(0x9E37_79B9),
            codec: i as u8,
            run_log2: (i % 7) as u8,
            slot: 0,
        };
        e.slot = (i % (1 << e.run_log2)) as u8;
    }
    let b = Node::Leaf(entries.clone().into_boxed_slice()).encode();
    let bytes = |f: fn(&Entry) -> u8| entries.iter().map(f).collect::<Vec<u8>>();
    check(
        "leaf",
        &b,
        &[
            ("off", planes(8, entries.iter().map(|e| e.off))),
            ("version", planes(8, entries.iter().map(|e| e.version))),
            ("len", planes(4, entries.iter().map(|e| u64::from(e.len)))),
            (
                "model",
                planes(4, entries.iter().map(|e| u64::from(e.model))),
            ),
            ("codec", bytes(|e| e.codec)),
            ("run_log2", bytes(|e| e.run_log2)),
            ("slot", bytes(|e| e.slot)),
        ],
    );
    let mut refs = vec![NodeRef::default(); INNER_FANOUT];
    refs[255] = PLACE;
    let b = Node::Inner(refs.into_boxed_slice()).encode();
    assert_eq!(b.len(), 5120);
    check(
        "place",
        &b[255 * 20..],
        &[
            ("off", le8(PLACE.off)),
            ("version", le8(PLACE.version)),
            ("len", le4(PLACE.len)),
        ],
    );
}

#[test]
fn space_chunk_bytes() {
    let mut space = Space::default();
    space.add(1025 * 65536 + 10, 1234);
    let (b, _) = space.chunk(1);
    assert_eq!(b.len(), 4096);
    assert_eq!(&b[4..8], &le4(1234));
    assert_eq!(b.iter().filter(|b| **b != 0).count(), 2);
}

#[test]
fn space_index_bytes() {
    let part = Part {
        place: PLACE,
        free: 0xF1F2,
        live: 0xE1E2_E3E4,
    };
    let b = encode_index(&[Part::default(), part]);
    assert_eq!(b.len(), 8192);
    check(
        "part",
        &b[32..64],
        &[
            ("place", place_bytes()),
            ("free", le4(0xF1F2)),
            ("live", le8(0xE1E2_E3E4)),
        ],
    );
    assert_eq!(decode_index(&b).map(|parts| parts[1]), Some(part));
}

#[test]
fn modules_have_the_tables_of_format_md() {
    let tables = Tables::of(KIND);
    for (name, source) in [
        ("header", include_str!("header.rs")),
        ("slot", include_str!("slot.rs")),
        ("tip", include_str!("tip.rs")),
        ("record", include_str!("record.rs")),
        ("trailer", include_str!("trailer.rs")),
        ("entry", include_str!("entry.rs")),
    ] {
        tables.check_module(name, source);
    }
    let tested = [
        "archive", "delta", "dict", "entry", "header", "jump", "leaf", "learned", "linked",
        "moved", "packed", "part", "piece", "place", "record", "root", "run", "slot", "tip",
        "trailer",
    ];
    assert_eq!(
        tables.names(),
        tested,
        "every table of FORMAT.md has a test here"
    );
}

#[test]
fn codecs_are_as_documented() {
    let (_, rest) = TEXT.split_once("### Codecs").expect("the section");
    let rows = rest
        .lines()
        .filter(|l| l.starts_with("| "))
        .skip(1)
        .take_while(|l| l.starts_with('|'));
    let numbers: Vec<(u8, &str)> = rows
        .map_while(|l| {
            let mut cells = l.split('|').map(str::trim).skip(1);
            Some((cells.next()?.parse().ok()?, cells.next()?))
        })
        .collect();
    let known = CodecId::ALL.iter().map(|codec| (codec.0, codec.name()));
    assert_eq!(numbers, known.collect::<Vec<_>>());
}

/// A run of four leaves of a table of a text and a number.
fn a_run() -> Vec<u8> {
    (0..4u8).flat_map(a_leaf).collect()
}

fn a_leaf(number: u8) -> Vec<u8> {
    const CELL: usize = 32;
    let mut page = vec![0; 1024];
    let rows = 24u8;
    page[0] = 13;
    page[4] = rows;
    for row in 0..rows {
        let text = format!("customer of city {:06}", 7919 * u32::from(row) % 1000);
        let head = [30, row, 3, 13 + 2 * 23, 4];
        let value = [1, number, row, row % 5];
        let cell = [&head, text.as_bytes(), &value].concat();
        let at = 1024 - CELL * (usize::from(row) + 1);
        page[at..at + CELL].copy_from_slice(&cell);
        let pointer = 8 + 2 * usize::from(row);
        page[pointer..pointer + 2].copy_from_slice(&(at as u16).to_be_bytes());
    }
    let content = (1024 - CELL * usize::from(rows)) as u16;
    page[5..7].copy_from_slice(&content.to_be_bytes());
    page
}

fn encode_run(raw: &[u8], page_size: usize, choice: CodecChoice) -> (CodecId, Vec<u8>) {
    let settings = PageSettings {
        level: 3,
        choice,
        family: None,
        other: None,
        checked: true,
    };
    let context = PageContext {
        number: 5,
        pages: 100,
        reserved: 0,
    };
    let (mut kept, mut payload) = (Vec::new(), Vec::new());
    let coded = encode_pages(raw, page_size, &context, &settings, &mut kept, &mut payload);
    (coded.codec, payload)
}

#[test]
fn run_and_archive_bytes() {
    let raw = a_run();
    let pages: Vec<Vec<u8>> = raw
        .chunks(1024)
        .map(|page| encode_run(page, 1024, CodecChoice::Typed))
        .map(|(codec, payload)| {
            assert_eq!(codec, CodecId::TYPED);
            payload
        })
        .collect();
    let (codec, run) = encode_run(&raw, 1024, CodecChoice::Typed);
    assert_eq!(codec, CodecId::TYPED_RUN);
    let le3 = |len: usize| le4(len as u32)[..3].to_vec();
    check(
        "run",
        &run[..4],
        &[("page_log2", vec![10]), ("len", le3(pages[0].len()))],
    );
    let others: Vec<u8> = pages[1..].iter().flat_map(|page| le3(page.len())).collect();
    assert_eq!(&run[4..], [others, pages.concat()].concat());

    let (codec, archive) = encode_run(&raw, 1024, CodecChoice::Archive);
    assert_eq!(codec, CodecId::ARCHIVE);
    check("archive", &archive[..4], &[("len", le4(run.len() as u32))]);
    let mut inner = vec![0; run.len()];
    codec::decode(CodecId::ZSTD, &archive[4..], None, &mut inner).expect("as codec 1");
    assert_eq!(inner, run);
}

/// A run of five overflow pages: two chains, and a page that follows none.
#[test]
fn linked_bytes() {
    let page = |link: u32| {
        [
            &link.to_be_bytes()[..],
            "a word, a word. ".repeat(64).as_bytes(),
        ]
        .concat()
    };
    let pages = [6, 7, 0, 3, 10, 11, 12, 0].map(|link| {
        let mut page = page(link);
        page.truncate(1024);
        page
    });
    let raw = pages.concat();
    let (codec, payload) = encode_run(&raw, 1024, CodecChoice::Auto);
    assert_eq!(codec, CodecId::LINKED);
    check(
        "linked",
        &payload[..5],
        &[("page_log2", vec![10]), ("number", le4(5))],
    );
    // From the lowest bits on: next, next, end, whole; next, next, next, end.
    assert_eq!(payload[5..7], [0b00_10_01_01, 0b10_01_01_01]);
    let text: Vec<u8> = pages
        .iter()
        .enumerate()
        .flat_map(|(i, page)| &page[if i == 3 { 0 } else { 4 }..])
        .copied()
        .collect();
    let mut inner = vec![0; text.len()];
    codec::decode(CodecId::ZSTD, &payload[7..], None, &mut inner).expect("as codec 1");
    assert!(inner == text);
    let rows = densite_format_doc::cells("links");
    let names: Vec<_> = rows.iter().map(|row| &row[..2]).collect();
    assert_eq!(names, [["0", "whole"], ["1", "next"], ["2", "end"]]);
}

#[test]
fn packed_dictionary_bytes() {
    let dict = Dictionary::new(1, CodecId::ZSTD_DICT, b"the same words again. ".repeat(40));
    let (codec, payload) = dict.to_stored();
    assert_eq!(codec, CodecId::ZSTD);
    let len = dict.bytes().len();
    check("packed", &payload[..4], &[("len", le4(len as u32))]);
    let mut inner = vec![0; len];
    codec::decode(CodecId::ZSTD, &payload[4..], None, &mut inner).expect("as codec 1");
    assert_eq!(inner, dict.bytes());
}

/// A dictionary's record names its codec. Early files have 0, and any number other than 3 means
/// zstd.
#[test]
fn dictionary_codecs() {
    for (byte, codec) in [
        (0, CodecId::ZSTD_DICT),
        (1, CodecId::ZSTD_DICT),
        (2, CodecId::ZSTD_DICT),
        (3, CodecId::TYPED),
        (255, CodecId::ZSTD_DICT),
    ] {
        assert_eq!(
            Dictionary::new(1, CodecId(byte), vec![1, 2, 3]).codec(),
            codec
        );
    }
}

/// Existing files depend on these constants. A change here changes the format: it needs a new
/// version, an entry in CHANGELOG.md and one in FORMAT.md.
#[test]
fn constants_are_pinned() {
    let kinds = [
        Kind::Frame,
        Kind::Node,
        Kind::Dictionary,
        Kind::Space,
        Kind::Jump,
        Kind::Trailer,
    ]
    .map(|k| k as u8);
    let codecs: Vec<u8> = CodecId::ALL.iter().map(|codec| codec.0).collect();
    let now = format!(
        "version {}\nmagic {:?}\noffsets {} {:?} {} {} {}\nunit {} lock unit {} max {:#x}\nlengths header {} slot {} tip {TIP_LEN} \
         record {RECORD_LEN} jump {JUMP_LEN} head {HEAD_LEN} payload {MAX_PAYLOAD}\nkinds {kinds:?}\ncodecs {codecs:?}\n\
         fanout {LEAF_FANOUT} {INNER_FANOUT} raw {} {} chunk {} {} index {}\nopen end {OPEN_END:#x} clean {}\n",
        super::FORMAT_VERSION,
        std::str::from_utf8(header::MAGIC).expect("text"),
        super::HEADER_OFF,
        super::SLOT_OFF,
        super::SLOT_COPY,
        super::TIP_OFF,
        super::DATA_OFF,
        super::UNIT_LEN,
        super::LOCK_UNIT,
        super::MAX_OFF,
        header::HEADER_LEN,
        slot::SLOT_LEN,
        Node::raw_len(0),
        Node::raw_len(1),
        crate::format::space_table::CHUNK_UNITS,
        crate::space::CHUNK_RAW,
        crate::format::space_table::FANOUT,
        slot::CLEAN,
    );
    let pinned = "version 1\nmagic \"Densite format\\r\\n\"\noffsets 0 [4096, 8192] 2048 12288 16384\nunit 65536 lock unit 16384 max \
                  0x1000000000000\nlengths header 40 slot 80 tip 48 record 30 jump 38 head 100 payload 8388608\nkinds [1, 2, 3, 4, 5, 6]\n\
                  codecs [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\nfanout 512 256 raw 13824 5120 chunk 1024 4096 index 256\nopen end 0xffffffffffffffff clean 1\n";
    assert_eq!(now, pinned);
}

/// Checksums of examples: a library with another hash would make every file unreadable.
#[test]
fn hashes_are_pinned() {
    let tail = |b: &[u8]| u64::from_le_bytes(b[b.len() - 8..].try_into().expect("eight bytes"));
    let mut b = Vec::new();
    let hashes = [
        tail(
            &Header {
                version: 1,
                salt: SALT,
            }
            .encode(),
        ),
        tail(
            &Slot {
                version: 1,
                seq: 2,
                salt: SALT,
                tip: TIP,
                flags: 1,
            }
            .encode(),
        ),
        tail(&TIP.encode(SALT)),
        Record::plain(Kind::Dictionary, 7, 8).put(b"payload", SALT, 99, &mut b),
        tail(&Chain::after(&[1; 16]).finish(b"x")),
        tail(&crate::state::first_hash(SALT)),
    ];
    let pinned = [
        0xB726_13C6_0825_1D1F,
        0xC642_0D6E_6702_574F,
        0x5255_22B3_4457_6593,
        0xA469_247E_DDEE_7AD2,
        0xCDFA_7CF5_91D8_86F3,
        0x2A85_A0B1_66ED_9397,
    ];
    assert_eq!(hashes, pinned);
}

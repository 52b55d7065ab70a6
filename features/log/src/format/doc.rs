//! Tests that docs/FORMAT.md, the tables in the modules and the encoded bytes say the same.

use super::record_header::{ENDS, Kind, MAX_PAYLOAD, RECORD_LEN, RecordHeader};
use super::segment::{HEADER_LEN, SegmentHeader};
use super::slot::{SLOT_LEN, WriterSlot};
use super::times::{self, Moment, TIMES_LEN};
use super::word::{EndWord, SEALED, WORD_LEN};
use super::{DATA_OFF, LOG_FORMAT_VERSION};
use crate::LogId;
use crate::rows::{RowsBuilder, Value};
use crate::state::State;
use crate::table::Table;
use densite_disk::hash::{xxh3_64, xxh3_64_with_seed};
use densite_format_doc::{Tables, le4, le8};

/// How FORMAT.md marks the log's tables.
const KIND: &str = "log table";
const ID: LogId = LogId(*b"0123456789abcdef");

/// Checks one table: against the one in its module, and against the bytes of an example.
fn check(name: &str, source: &str, bytes: &[u8], fields: &[(&str, Vec<u8>)]) {
    let tables = Tables::of(KIND);
    tables.check_module(name, source);
    tables.check(name, bytes, fields);
}

#[test]
fn segment_header() {
    let header = SegmentHeader {
        version: 1,
        id: ID,
        number: 0x0102_0304,
        first_seq: 0x1112_1314_1516,
        prev_end: 0x2122_2324,
        prev_check: 0x3132_3334_3536_3738,
        salt: 0x4142_4344_4546_4748,
    };
    let b = header.encode();
    assert_eq!(SegmentHeader::decode(&b), Ok(header));
    check(
        "segment",
        include_str!("segment.rs"),
        &b,
        &[
            ("magic", b"Densite log\r\n\0\0\0".to_vec()),
            ("version", le4(1)),
            ("reserved", le4(0)),
            ("log_id", ID.0.to_vec()),
            ("number", le8(0x0102_0304)),
            ("first_seq", le8(0x1112_1314_1516)),
            ("prev_end", le8(0x2122_2324)),
            ("prev_check", le8(0x3132_3334_3536_3738)),
            ("salt", le8(0x4142_4344_4546_4748)),
            ("check", le8(xxh3_64(&b[..80]))),
        ],
    );
}

#[test]
fn record_header() {
    let (salt, offset) = (0x5A17_5A17_1122_3344, 8192);
    let mut header = RecordHeader {
        kind: Kind::Batch,
        op: 3,
        codec: 1,
        flags: ENDS,
        stored_len: 0x0102_0304,
        raw_len: 0x1112_1314,
        count: 0x0022_2324,
        table: 0x3132_3334,
        synced: 0x4142_4344,
        first_seq: 0x5152_5354_5556,
        txn: 0x6162_6364_6566_6768,
        payload_check: 0x7172_7374_7576_7778,
        prev: 0x8182_8384_8586_8788,
        check: 0,
    };
    let mut b = Vec::new();
    header.put(salt, offset, &mut b);
    assert_eq!(RecordHeader::decode(&b, salt, offset), Some(header));
    assert_eq!(RecordHeader::decode(&b, salt, offset + 8), None, "moved");
    assert_eq!(
        RecordHeader::decode(&b, salt + 1, offset),
        None,
        "an earlier use of the file"
    );
    check(
        "log record",
        include_str!("record_header.rs"),
        &b,
        &[
            ("magic", b"DLRC".to_vec()),
            ("kind", vec![2]),
            ("op", vec![3]),
            ("codec", vec![1]),
            ("flags", vec![1]),
            ("stored_len", le4(0x0102_0304)),
            ("raw_len", le4(0x1112_1314)),
            ("count", le4(0x0022_2324)),
            ("table", le4(0x3132_3334)),
            ("synced", le4(0x4142_4344)),
            ("reserved", le4(0)),
            ("first_seq", le8(0x5152_5354_5556)),
            ("txn", le8(0x6162_6364_6566_6768)),
            ("payload_check", le8(0x7172_7374_7576_7778)),
            ("prev", le8(0x8182_8384_8586_8788)),
            ("check", le8(xxh3_64_with_seed(&b[..64], salt ^ offset))),
        ],
    );
}

#[test]
fn end_word() {
    let word = EndWord {
        id: ID,
        segment: 0x0102_0304,
        off: 0x1112_1314,
        check: 0x2122_2324_2526_2728,
        next_seq: 0x3132_3334_3536,
        writers: 5,
        flags: SEALED,
    };
    let b = word.encode();
    assert_eq!(EndWord::decode(&b, ID), Some(word));
    assert_eq!(EndWord::decode(&b, LogId([0; 16])), None, "another log's");
    check(
        "end word",
        include_str!("word.rs"),
        &b,
        &[
            ("log_id", ID.0.to_vec()),
            ("segment", le8(0x0102_0304)),
            ("off", le8(0x1112_1314)),
            ("check", le8(0x2122_2324_2526_2728)),
            ("next_seq", le8(0x3132_3334_3536)),
            ("writers", le4(5)),
            ("flags", le4(1)),
            ("checksum", le8(xxh3_64(&b[..56]))),
        ],
    );
}

#[test]
fn writer_slot() {
    let slot = WriterSlot {
        nonce: 0x0102_0304_0506_0708,
        prepared: 0x1112_1314_1516,
        cancels: 3,
    };
    let b = slot.encode();
    assert_eq!(WriterSlot::decode(&b), Some(slot));
    check(
        "writer slot",
        include_str!("slot.rs"),
        &b,
        &[
            ("nonce", le8(0x0102_0304_0506_0708)),
            ("prepared", le8(0x1112_1314_1516)),
            ("cancels", le8(3)),
            ("checksum", le8(xxh3_64(&b[..24]))),
        ],
    );
}

#[test]
fn times() {
    let at = |millis, last| Moment { millis, last };
    let moments = [at(0x0102_0304_0506, 0), at(0x0102_0304_0607, 77)];
    let b = times::encode(ID, &moments);
    assert_eq!(b.len(), TIMES_LEN);
    assert_eq!(times::decode(&b, ID).as_deref(), Some(&moments[..]));
    assert_eq!(times::decode(&b, LogId([0; 16])), None, "another log's");
    let mut list = [0x0102_0304_0506, 0, 0x0102_0304_0607, 77]
        .map(le8)
        .concat();
    list.resize(4064, 0);
    check(
        "log times",
        include_str!("times.rs"),
        &b,
        &[
            ("log_id", ID.0.to_vec()),
            ("count", le8(2)),
            ("times", list),
            ("checksum", le8(xxh3_64(&b[..4088]))),
        ],
    );
}

#[test]
fn state() {
    let mut state = State::new(ID, true);
    state.first_segment = 0x0102_0304;
    state.config.max_unapplied_bytes = 0x1112_1314_1516;
    state.config.retain_bytes = 0x2122_2324_2526;
    state.config.max_retained_bytes = 0x3132_3334_3536;
    state.config.max_transaction_bytes = 0x4142_4344_4546;
    state.subscribers.insert("indexer".into(), 77);
    state.cancel(20, 29);
    state.cancel(5, 9);
    state.cancel(10, 12);
    assert_eq!(state.cancelled, [(5, 12), (20, 29)]);
    let b = state.encode();
    assert_eq!(State::decode(&b), Ok(state));
    check(
        "log state",
        include_str!("../state.rs"),
        &b[..88],
        &[
            ("magic", b"Densite logst\r\n\0".to_vec()),
            ("version", le4(1)),
            ("flags", le4(1)),
            ("log_id", ID.0.to_vec()),
            ("first_segment", le8(0x0102_0304)),
            ("max_unapplied_bytes", le8(0x1112_1314_1516)),
            ("retain_bytes", le8(0x2122_2324_2526)),
            ("max_retained_bytes", le8(0x3132_3334_3536)),
            ("max_transaction_bytes", le8(0x4142_4344_4546)),
            ("subscribers", le4(1)),
            ("cancelled", le4(2)),
        ],
    );
    let rest = [
        le8(77),
        vec![7],
        b"indexer".to_vec(),
        [5, 12, 20, 29].map(le8).concat(),
    ];
    let body = [b[..88].to_vec(), rest.concat()].concat();
    assert_eq!(b, [body.clone(), le8(xxh3_64(&body))].concat());
}

#[test]
fn table_and_rows() {
    let table = Table::new("vote", ["id", "by"], 1, "note").expect("a table");
    let want = [
        &[4, 0][..],
        b"vote",
        &[1, 0, 2, 0],
        &[2, 0],
        b"id",
        &[2, 0],
        b"by",
        b"note",
    ];
    assert_eq!(table.encoded().to_vec(), want.concat());
    let mut rows = RowsBuilder::new(3);
    rows.push(&[Value::Int(500), Value::Null, Value::Text(b"a")]);
    rows.push(&[Value::Int(499), Value::Real(1.5), Value::Int(7)]);
    let want = [
        vec![3, 0],
        vec![1],
        le8(499),
        vec![1, 1, 0],
        vec![0x82, 0b01],
        le8(0),
        le8(1.5f64.to_bits()),
        vec![5, 3, 1],
        vec![1, 1, 8],
        b"a".to_vec(),
        le8(7),
    ];
    assert_eq!(rows.encode(), want.concat());
}

#[test]
fn every_table_is_tested() {
    assert_eq!(
        Tables::of(KIND).names(),
        [
            "end word",
            "log record",
            "log state",
            "log times",
            "message record",
            "piece batch",
            "segment",
            "writer slot"
        ]
    );
}

/// What logs that exist depend on. A change here is a change of the format.
#[test]
fn constants_are_pinned() {
    assert_eq!(LOG_FORMAT_VERSION, 1);
    assert_eq!(
        (HEADER_LEN, RECORD_LEN, WORD_LEN, SLOT_LEN, TIMES_LEN),
        (88, 72, 64, 32, 4096)
    );
    assert_eq!((DATA_OFF, MAX_PAYLOAD), (4096, 1 << 30));
    assert_eq!([Kind::Table as u8, Kind::Batch as u8], [1, 2]);
}

use super::*;
use crate::member::unreadable::Unreadable;
use densite_disk::hash::{xxh3_64, xxh3_64_with_seed};
use densite_format_doc::{Tables, le4, le8};
use densite_log::{Batch, Op, Table, TxnId, Value, pack_records};

fn record(first: Seq, rows: usize, ends_transaction: bool) -> Record {
    let table = Table::new("vote", ["id", "name"], 1, []).expect("a table");
    let mut batch = Batch::new(&table, Op::Insert);
    for i in 0..rows {
        let text = Value::Text(b"the same text for each row");
        batch.push(&[Value::Int(i as i64), text]).expect("a row");
    }
    Record {
        first,
        skip: 0,
        txn: TxnId(1),
        ends_transaction,
        rows: batch.rows().expect("rows"),
        table,
        op: Op::Insert,
    }
}

fn message(body: Body) -> Message {
    Message {
        log: LogId([7; 16]),
        from: 4,
        to: 40,
        last: LastTransaction { row: 39, txn: 5 },
        body,
    }
}

#[test]
fn the_bytes_are_those_of_the_documentation() {
    let bytes = message(Body::Left).encode().expect("it is encoded");
    let (header, body) = bytes.split_at(HEADER_LEN);
    assert_eq!(body, b"{}");
    let tables = Tables::of("ingest table");
    tables.check_module("message", include_str!("mod.rs"));
    tables.check(
        "message",
        header,
        &[
            ("magic", MAGIC.to_vec()),
            ("version", vec![1]),
            ("kind", vec![3]),
            ("codec", vec![0]),
            ("zeros", vec![0]),
            ("raw_len", le4(2)),
            ("zeros", vec![0; 4]),
            ("log", vec![7; 16]),
            ("from", le8(4)),
            ("to", le8(40)),
            ("last_row", le8(39)),
            ("last_txn", le8(5)),
            (
                "check",
                le8(xxh3_64_with_seed(body, xxh3_64(&header[..64]))),
            ),
        ],
    );
}

#[test]
fn messages_come_back() {
    let bodies = [
        Body::Rows(vec![record(5, 2, false), record(7, 30, true)]),
        Body::Rows(vec![]),
        Body::Joined(Joined {
            is_empty: true,
            applied: 7,
        }),
        Body::Left,
        Body::DigestsWanted,
        Body::Digests(Digests {
            message: 9,
            tables: [("vote".to_owned(), "ab".to_owned())].into(),
        }),
    ];
    for body in bodies {
        let sent = message(body);
        let bytes = sent.encode().expect("it is encoded");
        let found = Message::decode(&bytes).expect("a message");
        assert_eq!((found.log, found.from, found.to), (sent.log, 4, 40));
        match (&sent.body, &found.body) {
            (Body::Rows(sent), Body::Rows(found)) => {
                let packed = pack_records(sent).expect("packed").len();
                assert!(sent.is_empty() || bytes.len() < packed);
                let numbers = |r: &[Record]| -> Vec<_> {
                    r.iter()
                        .map(|r| (r.first, r.rows.len(), r.ends_transaction))
                        .collect()
                };
                assert_eq!(numbers(sent), numbers(found));
            }
            (sent, found) => assert_eq!(format!("{sent:?}"), format!("{found:?}")),
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 4;
            assert!(Message::decode(&other).is_err(), "byte {at}");
            assert!(Message::decode(&bytes[..at]).is_err(), "{at} bytes");
        }
    }
}

#[test]
fn a_newer_message_is_told_from_one_that_is_not_densites() {
    let bytes = message(Body::Left).encode().expect("it is encoded");
    let changed = |at: usize, value: u8, is_whole: bool| {
        let mut other = bytes.clone();
        other[at] = value;
        if is_whole {
            let (head, body) = other.split_at(HEADER_LEN);
            let check = xxh3_64_with_seed(body, xxh3_64(&head[..64]));
            other[64..72].copy_from_slice(&check.to_le_bytes());
        }
        Message::decode(&other).map(drop)
    };
    for (at, value) in [(4, 2), (5, 6), (6, 2)] {
        assert_eq!(
            changed(at, value, true),
            Err(Unreadable::Newer),
            "byte {at}"
        );
        let found = changed(at, value, false);
        assert!(matches!(found, Err(Unreadable::Foreign(_))), "byte {at}");
    }
    let found = changed(39, 1, true);
    assert!(matches!(found, Err(Unreadable::Invalid(_))), "{found:?}");
    for other in [&b""[..], b"hello", b"DMSG\x02"] {
        let found = Message::decode(other).map(drop);
        assert!(matches!(found, Err(Unreadable::Foreign(_))), "{found:?}");
    }
}

#[test]
fn rows_outside_of_the_range_and_parts_of_transactions_are_refused() {
    for records in [
        vec![record(4, 1, true)],
        vec![record(40, 2, true)],
        vec![record(5, 1, false)],
    ] {
        let bytes = message(Body::Rows(records)).encode().expect("encoded");
        assert!(Message::decode(&bytes).is_err());
    }
}

//! The messages of a stream as functions of bytes, for the fuzzer (`fuzz/`).
//!
//! Only the feature `fuzz` compiles this module, so no production build has it.

use crate::member::{Body, Digests, Joined, LastTransaction, Message};
use densite_log::{Batch, LogId, Op, Record, Seq, Table, TxnId, Value, pack_records};

/// Bytes before the body of a message; its checksum is the last eight of them.
pub const HEADER_LEN: usize = crate::member::HEADER_LEN;

/// A valid message.
pub struct Found {
    /// All that it says.
    pub text: String,
    /// How many records it has.
    pub records: usize,
    /// The bytes that it has when it is encoded again.
    pub encoded: Vec<u8>,
}

/// Reads a message.
///
/// # Errors
/// Why the bytes are no message that is read.
pub fn read(bytes: &[u8]) -> Result<Found, String> {
    let message = Message::decode(bytes).map_err(|why| format!("{why:?}"))?;
    let mut count = 0;
    if let Body::Rows(records) = &message.body {
        check(records, message.from, message.to);
        count = records.len();
    }
    Ok(Found {
        text: format!("{message:?}"),
        records: count,
        encoded: message.encode().expect("a message that was read is small"),
    })
}

/// What the worker takes for granted.
fn check(records: &[Record], from: Seq, to: Seq) {
    let mut last = from;
    for record in records {
        assert!(record.first > last && record.last() <= to, "numbers ascend");
        last = record.last();
        for row in 0..record.rows.len() {
            let values = record.rows.row(row).count();
            assert_eq!(
                values,
                record.table.columns().len(),
                "a row has all columns"
            );
        }
    }
    let is_whole = records.last().is_none_or(|record| record.ends_transaction);
    assert!(is_whole, "transactions are whole");
    assert!(pack_records(records).is_ok(), "they can be packed");
}

/// A valid message of each kind.
pub fn valid() -> Vec<(&'static str, Vec<u8>)> {
    let votes = Table::new("vote", ["id", "name"], 1, []).expect("a table");
    let schema = Table::new(crate::member::SCHEMA, ["sql"], 0, []).expect("a table");
    let text = "ALTER TABLE vote ADD COLUMN at TEXT";
    let long = "many words ".repeat(9);
    let record = |first: Seq, rows: &[Vec<Value<'_>>], table: &std::sync::Arc<Table>| {
        let mut batch = Batch::new(table, Op::Insert);
        for row in rows {
            batch.push(row).expect("it has all columns");
        }
        Record {
            first,
            skip: 0,
            txn: TxnId(first),
            ends_transaction: true,
            rows: batch.rows().expect("they are small"),
            table: table.clone(),
            op: Op::Insert,
        }
    };
    let rows: Vec<Vec<Value<'_>>> = (0..40)
        .map(|n| vec![Value::Int(n), Value::Text(long.as_bytes())])
        .collect();
    let bodies = [
        (
            "rows",
            Body::Rows(vec![
                record(5, &rows, &votes),
                record(45, &rows[..1], &votes),
            ]),
        ),
        (
            "row",
            Body::Rows(vec![record(
                5,
                &[vec![Value::Null, Value::Real(0.5)]],
                &votes,
            )]),
        ),
        ("rolled-back", Body::Rows(Vec::new())),
        (
            "schema",
            Body::Rows(vec![record(
                5,
                &[vec![Value::Text(text.as_bytes())]],
                &schema,
            )]),
        ),
        (
            "joined",
            Body::Joined(Joined {
                is_empty: true,
                applied: 3,
            }),
        ),
        ("left", Body::Left),
        ("wanted", Body::DigestsWanted),
        (
            "digests",
            Body::Digests(Digests {
                message: 9,
                tables: [("vote".to_owned(), "1-00".to_owned())].into(),
            }),
        ),
    ];
    let encoded = |(name, body)| {
        let message = Message {
            log: LogId([7; 16]),
            from: 4,
            to: 45,
            last: LastTransaction { row: 45, txn: 1 },
            body,
        };
        (name, message.encode().expect("it is small"))
    };
    bodies.into_iter().map(encoded).collect()
}

//! Records as one value outside the log, with the numbers of their rows: what a member of a stream
//! sends to the others (docs/FORMAT.md, Message of a stream).
//!
//! It begins with two bytes, the number of tables. The tables follow, each with four bytes of length
//! and then as in the log's record of it. The records follow, up to the end. Each has this header,
//! and then its rows as in the payload of a record that is not compressed:
//!
//! ```text
//! offset  size  field
//!      0     2  table      place of its table among those of the value
//!      2     1  op         1 insert, 2 update, 3 delete
//!      3     1  flags      1: the last record of its transaction
//!      4     4  count      rows in it
//!      8     4  raw_len    bytes of the rows
//!     12     8  first_seq  number of its first row
//! ```

use crate::batch::TxnId;
use crate::format::record_header::{ENDS, MAX_ROWS};
use crate::op::Op;
use crate::reader::Record;
use crate::rows::{Payload, Rows};
use crate::table::Table;
use crate::{Error, Result};
use densite_disk::Fields;
use std::sync::Arc;

impl Record {
    /// The most bytes that this record adds to a value of [`pack_records`].
    pub fn packed_max(&self) -> usize {
        self.table.packed_max(self.rows.bytes())
    }
}

/// These records as one value, whole: also the rows that [`Record::skip`] passes over.
///
/// # Errors
/// `Limit` for more than 65535 tables.
pub fn pack_records(records: &[Record]) -> Result<Vec<u8>> {
    let mut tables: Vec<&Arc<Table>> = Vec::new();
    let mut places = Vec::with_capacity(records.len());
    for record in records {
        let is_it = |t: &&Arc<Table>| Arc::ptr_eq(t, &record.table) || **t == record.table;
        let known = tables.iter().rposition(is_it);
        if known.is_none() {
            tables.push(&record.table);
        }
        places.push(known.unwrap_or(tables.len() - 1) as u16);
    }
    let count = u16::try_from(tables.len())
        .map_err(|_| Error::Limit("a message of a stream has at most 65535 tables"))?;
    let mut out = Vec::from(count.to_le_bytes());
    for table in tables {
        let encoded = table.encoded();
        out.extend_from_slice(&(encoded.len() as u32).to_le_bytes());
        out.extend_from_slice(encoded);
    }
    for (record, place) in records.iter().zip(places) {
        let flags = if record.ends_transaction { ENDS } else { 0 };
        out.extend_from_slice(&place.to_le_bytes());
        out.extend_from_slice(&[record.op as u8, flags]);
        for field in [record.rows.len(), record.rows.bytes()] {
            out.extend_from_slice(&(field as u32).to_le_bytes());
        }
        out.extend_from_slice(&record.first.to_le_bytes());
        out.extend_from_slice(record.rows.payload());
    }
    Ok(out)
}

/// The records of a value; `None` if it is not valid. Their transactions have the number of their
/// first row as id.
pub fn unpack_records(bytes: &[u8]) -> Option<Vec<Record>> {
    let mut take = Fields::new(bytes);
    let count = take.u16()?;
    let mut tables = Vec::new();
    for _ in 0..count {
        let len = take.u32()?;
        tables.push(Table::decode(take.bytes(len as usize)?)?);
    }
    let mut records: Vec<Record> = Vec::new();
    while !take.rest().is_empty() {
        let (table, op, flags) = (take.u16()?, take.u8()?, take.u8()?);
        let (count, raw_len, first) = (take.u32()?, take.u32()?, take.u64()?);
        let table = tables.get(usize::from(table))?;
        let in_range = (1..=MAX_ROWS).contains(&count) && flags <= ENDS;
        let follows = records.last().is_none_or(|before| before.last() < first);
        first
            .checked_add(u64::from(count))
            .filter(|_| first > 0 && in_range && follows)?;
        let raw = take.bytes(raw_len as usize)?.to_vec();
        let rows = Rows::decode(Payload::Own(raw), count as usize)?;
        let begun = records.last().filter(|before| !before.ends_transaction);
        records.push(Record {
            first,
            skip: 0,
            txn: begun.map_or(TxnId(first), |before| before.txn),
            ends_transaction: flags & ENDS != 0,
            table: table.clone(),
            op: Op::of(op)?,
            rows: Some(rows).filter(|rows| rows.columns() == table.columns().len())?,
        });
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seq;
    use crate::batch::Batch;
    use crate::rows::Value;
    use crate::table::PACKED_HEADER_LEN;
    use densite_format_doc::{Tables, le2, le4, le8};

    fn record(table: &Arc<Table>, first: Seq, texts: &[&str], ends_transaction: bool) -> Record {
        let mut batch = Batch::new(table, Op::Insert);
        for (i, text) in texts.iter().enumerate() {
            let row = [Value::Int(i as i64), Value::Text(text.as_bytes())];
            batch.push(&row).expect("two columns");
        }
        Record {
            first,
            skip: 0,
            txn: TxnId(7),
            ends_transaction,
            table: table.clone(),
            op: Op::Insert,
            rows: batch.rows().expect("rows"),
        }
    }

    fn table(name: &str) -> Arc<Table> {
        Table::new(name, ["id", "name"], 1, b"note".to_vec()).expect("a table")
    }

    type Shown = (String, Seq, u64, bool, Vec<String>);

    fn shown(records: &[Record]) -> Vec<Shown> {
        let text = |record: &Record, row| format!("{:?}", record.rows.get(row, 1));
        let rows = |record: &Record| {
            (0..record.rows.len())
                .map(|row| text(record, row))
                .collect()
        };
        (records.iter())
            .map(|r| {
                (
                    r.table.name().to_owned(),
                    r.first,
                    r.txn.0,
                    r.ends_transaction,
                    rows(r),
                )
            })
            .collect()
    }

    fn records() -> Vec<Record> {
        let (votes, pages) = (table("vote"), table("page"));
        vec![
            record(&votes, 3, &["a", "b"], false),
            record(&pages, 5, &["c"], true),
            record(&votes, 9, &["d", "e", "f"], true),
        ]
    }

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let records = records();
        let value = pack_records(&records[..1]).expect("it is packed");
        let encoded = records[0].table.encoded();
        let (head, rest) = value.split_at(6 + encoded.len());
        let mut expected = vec![1, 0];
        expected.extend_from_slice(&(encoded.len() as u32).to_le_bytes());
        expected.extend_from_slice(encoded);
        assert_eq!(head, expected);
        let (header, rows) = rest.split_at(PACKED_HEADER_LEN);
        assert_eq!(rows, records[0].rows.payload());
        let tables = Tables::of("log table");
        tables.check_module("message record", include_str!("record_pack.rs"));
        tables.check(
            "message record",
            header,
            &[
                ("table", le2(0)),
                ("op", vec![1]),
                ("flags", vec![0]),
                ("count", le4(2)),
                ("raw_len", le4(rows.len() as u32)),
                ("first_seq", le8(3)),
            ],
        );
    }

    #[test]
    fn records_come_back_with_their_numbers_and_transactions() {
        let value = pack_records(&records()).expect("it is packed");
        let found = unpack_records(&value).expect("a value");
        let mut expected = shown(&records());
        for (record, txn) in expected.iter_mut().zip([3, 3, 9]) {
            record.2 = txn;
        }
        assert_eq!(shown(&found), expected);
        assert_eq!(
            unpack_records(&pack_records(&[]).expect("nothing")).map(|r| r.len()),
            Some(0)
        );
    }

    #[test]
    fn any_changed_byte_is_read_or_refused() {
        let value = pack_records(&records()).expect("it is packed");
        for at in 0..value.len() {
            for bit in [1, 0x80] {
                let mut other = value.clone();
                other[at] ^= bit;
                // Neither panics nor takes memory that the bytes do not justify.
                drop(unpack_records(&other));
            }
            let cut = unpack_records(&value[..at]);
            assert!(cut.is_none_or(|records| records.len() < 3), "{at}");
        }
    }
}

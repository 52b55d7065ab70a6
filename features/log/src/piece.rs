//! Batches as one value outside the log: a piece. The database stores what its tables became in
//! pieces (docs/FORMAT.md, What tables became).
//!
//! A piece begins with its version, a byte of 0 and two bytes, the number of tables. The tables
//! follow, each with four bytes of length and then as in the log's record of it. The batches follow,
//! up to the end. Each has this header, and then its payload as in the log's record of a batch:
//!
//! ```text
//! offset  size  field
//!      0     2  table        place of its table among those of the piece
//!      2     1  op           1 insert, 2 update, 3 delete
//!      3     1  codec        of the payload: 0 raw, 1 zstd
//!      4     4  count        rows in it
//!      8     4  raw_len      bytes of the payload once decoded
//!     12     4  stored_len   bytes of the payload
//! ```

use crate::encoded::{EncodedBatch, decoded};
use crate::format::record_header::{MAX_PAYLOAD, MAX_ROWS};
use crate::op::Op;
use crate::rows::{Payload, Rows};
use crate::table::Table;
use crate::{Error, Result};
use densite_disk::Fields;
use std::sync::Arc;

const VERSION: u8 = 1;

/// A batch that was read from a piece.
#[derive(Debug, Clone)]
pub struct PieceBatch {
    /// Its table.
    pub table: Arc<Table>,
    /// Its operation.
    pub op: Op,
    /// Its rows.
    pub rows: Rows,
}

/// The bytes of these batches as a piece.
///
/// # Errors
/// `Limit` for more than 65535 tables.
pub fn pack_piece(batches: &[Arc<EncodedBatch>]) -> Result<Vec<u8>> {
    let mut tables: Vec<&Arc<Table>> = Vec::new();
    let mut places = Vec::with_capacity(batches.len());
    for batch in batches {
        let known = tables.iter().position(|t| Arc::ptr_eq(t, batch.table()));
        let place = known.unwrap_or(tables.len());
        if known.is_none() {
            tables.push(batch.table());
        }
        places.push(place as u16);
    }
    let count = u16::try_from(tables.len())
        .map_err(|_| Error::Limit("a transaction changes at most 65535 tables"))?;
    let tables_bytes: usize = tables.iter().map(|table| 4 + table.encoded().len()).sum();
    let batches_bytes: usize = batches.iter().map(|b| 16 + b.payload().len()).sum();
    let mut out = Vec::with_capacity(4 + tables_bytes + batches_bytes);
    out.extend_from_slice(&[VERSION, 0]);
    out.extend_from_slice(&count.to_le_bytes());
    for table in tables {
        let encoded = table.encoded();
        out.extend_from_slice(&(encoded.len() as u32).to_le_bytes());
        out.extend_from_slice(encoded);
    }
    for (batch, place) in batches.iter().zip(places) {
        out.extend_from_slice(&place.to_le_bytes());
        out.extend_from_slice(&[batch.op() as u8, batch.codec()]);
        for field in [batch.len(), batch.bytes(), batch.payload().len()] {
            out.extend_from_slice(&(field as u32).to_le_bytes());
        }
        out.extend_from_slice(batch.payload());
    }
    Ok(out)
}

/// The batches of a piece; `None` if it is not valid.
///
/// # Errors
/// `Limit` if there is not enough memory.
pub fn unpack_piece(bytes: &[u8]) -> Result<Option<Vec<PieceBatch>>> {
    let mut take = Fields::new(bytes);
    let Some(tables) = read_tables(&mut take) else {
        return Ok(None);
    };
    let mut batches = Vec::new();
    while !take.rest().is_empty() {
        let Some(stored) = Stored::read(&mut take) else {
            return Ok(None);
        };
        let Some(batch) = stored.batch(&tables)? else {
            return Ok(None);
        };
        batches.push(batch);
    }
    Ok(Some(batches))
}

fn read_tables(take: &mut Fields<'_>) -> Option<Vec<Arc<Table>>> {
    if take.u8()? != VERSION {
        return None;
    }
    take.u8()?;
    let count = take.u16()?;
    let mut tables = Vec::new();
    for _ in 0..count {
        let len = take.u32()?;
        tables.push(Table::decode(take.bytes(len as usize)?)?);
    }
    Some(tables)
}

/// A batch as stored.
struct Stored<'a> {
    table: u16,
    op: u8,
    codec: u8,
    count: u32,
    raw_len: u32,
    payload: &'a [u8],
}

impl<'a> Stored<'a> {
    fn read(take: &mut Fields<'a>) -> Option<Stored<'a>> {
        let (table, op, codec) = (take.u16()?, take.u8()?, take.u8()?);
        let (count, raw_len, stored_len) = (take.u32()?, take.u32()?, take.u32()?);
        let in_range = (1..=MAX_ROWS).contains(&count) && raw_len <= MAX_PAYLOAD;
        Some(Stored {
            table,
            op,
            codec,
            count,
            raw_len,
            payload: take.bytes(stored_len as usize).filter(|_| in_range)?,
        })
    }

    fn batch(&self, tables: &[Arc<Table>]) -> Result<Option<PieceBatch>> {
        let Some(raw) = decoded(self.codec, self.payload, self.raw_len)? else {
            return Ok(None);
        };
        let rows = Rows::decode(Payload::Own(raw), self.count as usize);
        let (table, op) = (tables.get(usize::from(self.table)), Op::of(self.op));
        Ok(match (rows, table, op) {
            (Some(rows), Some(table), Some(op)) if rows.columns() == table.columns().len() => {
                Some(PieceBatch {
                    table: table.clone(),
                    op,
                    rows,
                })
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::rows::Value;
    use densite_format_doc::{Tables, le2, le4};

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let table = Table::new("vote", ["id"], 1, []).expect("a table");
        let mut batch = Batch::new(&table, Op::Delete);
        for id in 0..3 {
            batch.push(&[Value::Int(id)]).expect("a row");
        }
        let payload = batch.encode().expect("it is encoded");
        let piece = pack_piece(&[Arc::new(batch.encode().expect("it is encoded"))]);
        let piece = piece.expect("it is packed");
        let encoded = table.encoded();
        let (head, rest) = piece.split_at(8 + encoded.len());
        let mut expected = vec![VERSION, 0, 1, 0];
        expected.extend_from_slice(&(encoded.len() as u32).to_le_bytes());
        expected.extend_from_slice(encoded);
        assert_eq!(head, expected);
        let (header, stored) = rest.split_at(16);
        assert_eq!(stored, payload.payload());
        let tables = Tables::of("log table");
        tables.check_module("piece batch", include_str!("piece.rs"));
        let len = le4(stored.len() as u32);
        tables.check(
            "piece batch",
            header,
            &[
                ("table", le2(0)),
                ("op", vec![3]),
                ("codec", vec![0]),
                ("count", le4(3)),
                ("raw_len", len.clone()),
                ("stored_len", len),
            ],
        );
    }

    fn piece() -> Vec<u8> {
        let votes = Table::new("vote", ["id", "name"], 1, []).expect("a table");
        let pages = Table::new("page", ["n"], 1, []).expect("a table");
        let of = |table: &Arc<Table>, op, rows: &[&[Value<'_>]]| {
            let mut batch = Batch::new(table, op);
            for row in rows {
                batch.push(row).expect("it has all columns");
            }
            Arc::new(batch.encode().expect("it is encoded"))
        };
        let long = "many words ".repeat(100);
        let text = Value::Text(long.as_bytes());
        let batches = [
            of(&votes, Op::Insert, &[&[Value::Int(1), text]]),
            of(&pages, Op::Delete, &[&[Value::Int(7)], &[Value::Null]]),
            of(
                &votes,
                Op::Update,
                &[&[Value::Real(0.5), Value::Blob(b"x")]],
            ),
        ];
        pack_piece(&batches).expect("it is packed")
    }

    #[test]
    fn batches_come_back_in_order() {
        let batches = unpack_piece(&piece()).expect("memory").expect("a piece");
        let read: Vec<_> = (batches.iter())
            .map(|b| (b.table.name(), b.op, b.rows.len()))
            .collect();
        let expected = [
            ("vote", Op::Insert, 1),
            ("page", Op::Delete, 2),
            ("vote", Op::Update, 1),
        ];
        assert_eq!(read, expected);
        let rows = &batches.last().expect("three batches").rows;
        assert_eq!(rows.get(0, 0), Some(Value::Real(0.5)));
        assert_eq!(rows.get(0, 1), Some(Value::Blob(b"x")));
    }

    #[test]
    fn any_changed_byte_is_read_or_refused() {
        let piece = piece();
        for at in 0..piece.len() {
            for bit in [1, 0x80] {
                let mut other = piece.clone();
                other[at] ^= bit;
                // Neither panics nor takes memory that the bytes do not justify.
                drop(unpack_piece(&other));
            }
            assert!(
                at == piece.len()
                    || !matches!(unpack_piece(&piece[..at]), Ok(Some(b)) if b.len() == 3),
                "{at}"
            );
        }
    }
}

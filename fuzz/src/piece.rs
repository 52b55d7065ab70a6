//! The decoder of pieces, in which a database stores what its tables became.

use crate::target::{Fields, Seeds, Target, no_repair, row};
use densite_log::{Batch, EncodedBatch, Op, Table, Value, pack_piece, unpack_piece};
use std::sync::Arc;

/// A piece is refused or read. What is read can be read whole, and has as many values as its table
/// has columns.
pub(crate) const PIECE: Target = Target {
    name: "piece",
    run: |bytes| match unpack_piece(bytes) {
        Ok(Some(batches)) => {
            let mut seen = batches.len() as u64;
            for batch in &batches {
                for row in 0..batch.rows.len() {
                    let values = batch.rows.row(row).count();
                    assert_eq!(values, batch.table.columns().len(), "a row has all columns");
                }
                seen = seen * 31 + batch.op as u64;
            }
            seen
        }
        Ok(None) => 0,
        Err(e) => crate::target::outcome(&e.to_string()),
    },
    repair: no_repair,
    fields,
    seeds,
};

/// The fields of the head, and of the header behind each table and each batch.
fn fields(bytes: &[u8]) -> Fields {
    let mut out = Fields::new();
    row(0, &[1, 1, 2], &mut out);
    let le = |at: usize, size: usize| {
        let field = bytes.get(at..at + size).unwrap_or_default();
        field.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b))
    };
    let mut at = 4;
    for _ in 0..le(2, 2).min(8) {
        row(at, &[4, 2], &mut out);
        at += 4 + le(at, 4);
    }
    while at < bytes.len() && out.len() < 64 {
        row(at, &[2, 1, 1, 4, 4, 4, 2, 1], &mut out);
        at += 16 + le(at + 12, 4);
    }
    out
}

fn encoded(table: &Arc<Table>, op: Op, rows: &[&[Value<'_>]]) -> Arc<EncodedBatch> {
    let mut batch = Batch::new(table, op);
    for row in rows {
        batch.push(row).expect("it has all columns");
    }
    Arc::new(batch.encode().expect("it is small"))
}

fn seeds() -> Seeds {
    let votes = Table::new("vote", ["id", "name"], 1, []).expect("a table");
    let changed = Table::new("vote", ["id", "name", "id", "name"], 1, []).expect("a table");
    let pages = Table::new("page", ["n"], 1, []).expect("a table");
    let long = "many words ".repeat(60);
    let row = |n: i64| [Value::Int(n), Value::Text(long.as_bytes())];
    let long_rows = encoded(&votes, Op::Insert, &[&row(1), &row(-70_000)]);
    let short_rows = encoded(&pages, Op::Delete, &[&[Value::Int(7)], &[Value::Null]]);
    let forms = [
        Value::Real(0.5),
        Value::Blob(b"x"),
        Value::Int(9),
        Value::Text(b"y"),
    ];
    let update = encoded(&changed, Op::Update, &[&forms]);
    let piece = |batches: &[Arc<EncodedBatch>]| pack_piece(batches).expect("few tables");
    vec![
        ("update", piece(std::slice::from_ref(&update))),
        ("short", piece(std::slice::from_ref(&short_rows))),
        ("three", piece(&[long_rows, short_rows, update])),
    ]
}

//! Shared by the tests of the log: a workload with a model, and comparing a log with the model.

use densite_log::{Batch, Log, LogDir, LogId, Op, Options, Seq, Table, Txn, Value};
use densite_sim_disk::SimDisk;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const ID: LogId = LogId([7; 16]);
pub(crate) const DIR: &str = "/app.db-log";

/// Small segments, so that there are many.
pub(crate) fn options() -> Options {
    Options {
        create: true,
        segment_bytes: 12 << 10,
        grow_bytes: 2 << 10,
        group_bytes_max: 4 << 10,
        background: false,
        ..Options::new(ID)
    }
}

pub(crate) fn dir(disk: &SimDisk) -> LogDir {
    Arc::new(disk.dir(DIR))
}

pub(crate) fn open(disk: &SimDisk) -> Log {
    Log::open(dir(disk), options()).unwrap_or_else(|e| panic!("open: {e}"))
}

/// A row for comparison.
pub(crate) type Row = (String, Op, Vec<u8>);

pub(crate) fn tables() -> Vec<Arc<Table>> {
    let table =
        |name: &str, note: &[u8]| Table::new(name, ["id", "payload"], 1, note).expect("a table");
    vec![
        table("vote", b""),
        table("article", b"replace"),
        table("user", b"ignore"),
    ]
}

/// A transaction of random batches, and its rows.
pub(crate) fn random_txn(log: &Log, tables: &[Arc<Table>], rng: &mut SmallRng) -> (Txn, Vec<Row>) {
    let mut txn = Txn::new(log.new_txn());
    let mut rows = Vec::new();
    for _ in 0..[1, 1, 1, 2, 3][rng.random_range(0..5)] {
        let table = &tables[rng.random_range(0..tables.len())];
        let op = [Op::Insert, Op::Update, Op::Delete][rng.random_range(0..3)];
        let mut batch = Batch::new(table, op);
        let big = rng.random_range(0..40) == 0;
        for _ in 0..rng.random_range(1..if big { 60 } else { 6 }) {
            let mut payload = vec![b'x'; rng.random_range(0..if big { 400 } else { 60 })];
            let random = rng.random_range(0..=payload.len());
            rng.fill_bytes(&mut payload[random..]);
            let id = rng.random_range(0..1000i64);
            let row = [Value::Int(id), Value::Blob(&payload)];
            batch.push(&row).expect("push");
            let mut bytes = id.to_le_bytes().to_vec();
            bytes.extend_from_slice(&payload);
            rows.push((table.name().to_owned(), op, bytes));
        }
        txn.push(&batch).expect("push");
    }
    (txn, rows)
}

/// All rows after a position, by number.
pub(crate) fn read_all(log: &Log, after: Seq) -> densite_log::Result<BTreeMap<Seq, Row>> {
    let mut reader = log.read_after(after)?;
    let mut rows = BTreeMap::new();
    while let Some(record) = reader.next()? {
        for i in record.skip..record.rows.len() {
            let values: Vec<Value<'_>> = record.rows.row(i).collect();
            let [Value::Int(id), Value::Blob(payload)] = values[..] else {
                panic!("not what was written: {values:?}");
            };
            let mut bytes = id.to_le_bytes().to_vec();
            bytes.extend_from_slice(payload);
            let row = (record.table.name().to_owned(), record.op, bytes);
            assert!(rows.insert(record.first + i as u64, row).is_none(), "twice");
        }
    }
    Ok(rows)
}

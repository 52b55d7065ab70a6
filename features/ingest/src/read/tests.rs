//! Compares runs with a model: a list of all rows, sorted by key as SQLite compares values, then by
//! number.

use super::overlay::{Bounds, Overlay};
use super::run::{ClusteredSnapshot, Run, RunBuilder, Visibility, push, trim};
use crate::clustered::ClusteredProgress;
use crate::schema::collation::Collation;
use densite_log::{Batch, Op, Record, Seq, Table, TxnId};
use densite_sqlite::{Value, ValueRef};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::cmp::Ordering;
use std::sync::Arc;

/// A row of the model: its number, key and operation.
type Row = (Seq, Vec<Value>, Op);

struct Model {
    key: Vec<Collation>,
    tables: [Arc<Table>; 2],
    runs: Vec<Arc<Run>>,
    rows: Vec<Row>,
    next: Seq,
}

fn logged(value: &Value) -> densite_log::Value<'_> {
    crate::schema::affinity::to_log(value.as_ref())
}

impl Model {
    fn new(key: &[Collation]) -> Model {
        let names = ["a", "b", "c"].into_iter().take(key.len());
        let table = |note: u8| {
            let columns = names.clone().chain(["seq"]);
            Table::new("t", columns, key.len(), vec![note]).expect("a table")
        };
        Model {
            key: key.to_vec(),
            tables: [table(1), table(2)],
            runs: Vec::new(),
            rows: Vec::new(),
            next: 1,
        }
    }

    fn compare(&self, a: &[Value], b: &[Value]) -> Ordering {
        let columns = self.key.iter().zip(a).zip(b);
        columns.fold(Ordering::Equal, |so_far, ((how, a), b)| {
            so_far.then_with(|| how.compare(a.as_ref(), b.as_ref()))
        })
    }

    /// Appends rows in batches of different sizes. Numbers can be skipped between them.
    fn append(
        &mut self,
        random: &mut StdRng,
        rows: usize,
        key: impl Fn(&mut StdRng) -> Vec<Value>,
    ) {
        let mut builder = RunBuilder::default();
        let mut left = rows;
        while left > 0 {
            let some = [1, 1, 3, 700][random.random_range(0..4)].min(left);
            left -= some;
            let op = if random.random_bool(0.8) {
                Op::Insert
            } else {
                Op::Update
            };
            let table = &self.tables[random.random_range(0..2)].clone();
            let mut batch = Batch::new(table, op);
            let (first, skip) = (self.next, random.random_range(0..some.min(3)));
            for i in 0..some {
                let key = key(random);
                let seq = Value::Integer((first + i as u64) as i64);
                let row: Vec<_> = key.iter().chain([&seq]).map(logged).collect();
                batch.push(&row).expect("as many columns");
                if i >= skip {
                    self.rows.push((first + i as u64, key, op));
                }
            }
            self.next += some as u64 + random.random_range(0..2);
            let record = Record {
                first,
                skip,
                txn: TxnId(0),
                ends_transaction: true,
                table: table.clone(),
                op,
                rows: batch.rows().expect("rows"),
            };
            builder.add(record, &self.key);
        }
        push(&mut self.runs, builder.run(&self.key), &self.key);
    }

    /// All rows of a scan, by key and number.
    fn read(&self, visibility: &Visibility, bounds: &Bounds) -> Vec<Row> {
        let mut overlay = Overlay::new(self.runs.iter(), visibility.clone(), bounds, &self.key);
        let mut out = Vec::new();
        while !overlay.is_empty() {
            overlay.take(&self.key, |row| {
                let Some(seq) = row.value(self.key.len()).as_i64() else {
                    panic!("a row without its number");
                };
                let key = (0..self.key.len()).map(|i| row.value(i).to_owned());
                out.push((seq as u64, key.collect(), row.op()));
            });
        }
        out
    }

    fn expected(&self, visibility: &Visibility, bounds: &Bounds) -> Vec<Row> {
        let column = |row: &Row, i: usize| row.1[i].clone();
        let fits = |row: &&Row| {
            let order =
                |i: usize, v: &Value| self.key[i].compare(column(row, i).as_ref(), v.as_ref());
            let next = bounds.equal.len();
            let is_in = |end: &Option<(Value, bool)>, wanted: Ordering| {
                end.as_ref().is_none_or(|(v, strict)| match order(next, v) {
                    Ordering::Equal => !strict,
                    other => other == wanted,
                })
            };
            let place = |s: &ClusteredSnapshot| {
                let place = s
                    .progress
                    .permutation
                    .get((row.0 - visibility.from - 1) as usize);
                place.copied().unwrap_or(u32::MAX)
            };
            row.0 > visibility.from
                && row.0 <= visibility.to
                && visibility
                    .clustered
                    .as_ref()
                    .is_none_or(|s| place(s) >= s.progress.done)
                && bounds
                    .equal
                    .iter()
                    .enumerate()
                    .all(|(i, v)| order(i, v) == Ordering::Equal)
                && is_in(&bounds.lower, Ordering::Greater)
                && is_in(&bounds.upper, Ordering::Less)
        };
        let mut rows: Vec<&Row> = self.rows.iter().filter(fits).collect();
        rows.sort_by(|a, b| self.compare(&a.1, &b.1).then(a.0.cmp(&b.0)));
        rows.into_iter().cloned().collect()
    }
}

fn bounds(random: &mut StdRng, columns: usize, some: &[Value], other: &[Value]) -> Bounds {
    let equal = random.random_range(0..=columns);
    let mut bounds = Bounds {
        equal: some[..equal].to_vec(),
        ..Bounds::default()
    };
    if equal < columns {
        let mut end = |value: &Value| {
            let wanted = random.random_bool(0.5) && *value != Value::Null;
            wanted.then(|| (value.clone(), random.random_bool(0.5)))
        };
        (bounds.lower, bounds.upper) = (end(&some[equal]), end(&other[equal]));
    }
    bounds
}

#[test]
fn runs_return_the_same_rows_as_a_sorted_list() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let binary = Collation::Binary;
    for (kind, key) in [
        vec![binary],
        vec![binary, binary],
        vec![Collation::NoCase],
        vec![binary, Collation::RTrim, binary],
        vec![],
    ]
    .iter()
    .enumerate()
    {
        for spread in [8, 600, 1 << 40] {
            let mut model = Model::new(key);
            let value = move |random: &mut StdRng| {
                let n = random.random_range(0..spread);
                // If all are integers, the codes contain them, and they are stored nowhere else.
                let odd = if spread > 600 { 2 } else { 0 };
                match (kind, random.random_range(odd..40)) {
                    (_, 0) => Value::Null,
                    (0 | 1, 1) => Value::Real(n as f64 + 0.5),
                    (0, _) => Value::Integer((n << 23) - (1 << 62)),
                    (1, _) => Value::Integer(n),
                    // The texts differ only behind the bytes of a code.
                    (2, _) => Value::Text(format!("https://Example.org/{n}")),
                    _ => Value::Text(format!("{n} ")),
                }
            };
            let columns = key.len();
            let one =
                move |random: &mut StdRng| (0..columns).map(|_| value(random)).collect::<Vec<_>>();
            let mut applied = 0;
            for step in 0..12 {
                let rows = [1, 5, 300, 2500][random.random_range(0..4)];
                model.append(&mut random, rows, one);
                let what = format!("seed {seed}, kind {kind}, spread {spread}, step {step}");
                if step % 4 == 3 {
                    applied = random.random_range(applied..model.next);
                    trim(&mut model.runs, applied);
                }
                let from = random.random_range(applied..model.next);
                let visibility = Visibility {
                    from,
                    to: model.next - random.random_range(0..2),
                    clustered: random
                        .random_bool(0.5)
                        .then(|| clustered(&mut random, from)),
                };
                let all = Bounds::default();
                assert_eq!(
                    model.read(&visibility, &all),
                    model.expected(&visibility, &all),
                    "{what}"
                );
                for _ in 0..20 {
                    let some = |random: &mut StdRng| match random.random_bool(0.2) {
                        true => one(random),
                        false => model.rows[random.random_range(0..model.rows.len())]
                            .1
                            .clone(),
                    };
                    let (a, b) = (some(&mut random), some(&mut random));
                    if a.contains(&Value::Null) {
                        continue;
                    }
                    let bounds = bounds(&mut random, columns, &a, &b);
                    assert_eq!(
                        model.read(&visibility, &bounds),
                        model.expected(&visibility, &bounds),
                        "{what}: {bounds:?}"
                    );
                }
            }
        }
    }
}

/// A record that is a transaction of one batch.
fn record(first: Seq, batch: &Batch) -> Record {
    Record {
        first,
        skip: 0,
        txn: TxnId(0),
        ends_transaction: true,
        table: batch.table().clone(),
        op: batch.op(),
        rows: batch.rows().expect("rows"),
    }
}

/// Rows that come one by one take little more memory than large batches, and are found.
#[test]
fn small_batches_are_packed_together() {
    let key = [Collation::Binary];
    let mut runs = Vec::new();
    let table = Table::new("t", ["a", "b"], 1, vec![]).expect("a table");
    for seq in 1..=20_000u64 {
        let mut batch = Batch::new(&table, Op::Insert);
        let a = (seq * 7919 % 20_011) as i64;
        let row = [Value::Integer(a), Value::Integer(seq as i64)];
        batch
            .push(&row.each_ref().map(logged))
            .expect("two columns");
        let mut builder = RunBuilder::default();
        builder.add(record(seq, &batch), &key);
        push(&mut runs, builder.run(&key), &key);
    }
    let chunks: usize = runs
        .iter()
        .flat_map(|run| &run.kinds)
        .map(|kind| kind.chunks().0)
        .sum();
    assert!(chunks < 60, "{chunks}");
    assert!(runs.len() < 12, "{}", runs.len());
    let visibility = Visibility {
        from: 0,
        to: 20_000,
        clustered: None,
    };
    for seq in (1..=20_000u64).step_by(97) {
        let bounds = Bounds {
            equal: vec![Value::Integer((seq * 7919 % 20_011) as i64)],
            ..Bounds::default()
        };
        let overlay = Overlay::new(runs.iter(), visibility.clone(), &bounds, &key);
        let (_, row) = overlay.peek().expect("the row");
        assert_eq!(row.value(1), ValueRef::Integer(seq as i64));
    }
}

/// Integers of the key are stored only in the codes: all of them, or those of the first column if
/// they are large.
#[test]
fn integers_of_a_key_are_kept_once() {
    let key = [Collation::Binary, Collation::Binary];
    let table = Table::new("t", ["a", "b", "c"], 2, vec![]).expect("a table");
    for (factor, some, bytes) in [(1, 2000, 1), (1 << 47, 2000, 9), (1, 1, 1), (1 << 47, 1, 9)] {
        let mut builder = RunBuilder::default();
        for first in (1..=20_000u64).step_by(some) {
            let mut batch = Batch::new(&table, Op::Insert);
            for seq in first as i64..first as i64 + some as i64 {
                let row = [
                    seq * 7919 % 20_011 * factor,
                    (seq - 10_000) * factor,
                    seq % 100,
                ];
                batch
                    .push(&row.map(densite_log::Value::Int))
                    .expect("three columns");
            }
            builder.add(record(first, &batch), &key);
        }
        let run = builder.run(&key);
        let (chunks, kept) = run.kinds[0].chunks();
        let most = bytes * 20_000 + 64 * chunks;
        assert!(kept <= most, "{kept} bytes of at most {most}");
        for place in 0..run.len() {
            let item = run.at(place).expect("a row");
            let (row, seq) = (run.row(item).expect("its values"), item.seq as i64);
            let expected = [
                seq * 7919 % 20_011 * factor,
                (seq - 10_000) * factor,
                seq % 100,
            ];
            let values = [0, 1, 2].map(|column| row.value(column));
            assert_eq!(values, expected.map(ValueRef::Integer));
        }
    }
}

/// Some rows behind `from` are in the base table, in another order.
fn clustered(random: &mut StdRng, from: Seq) -> ClusteredSnapshot {
    let count = random.random_range(1..40u32);
    let permutation: Vec<u32> = (0..count).map(|_| random.random_range(0..count)).collect();
    ClusteredSnapshot {
        id: 1,
        progress: ClusteredProgress {
            before: from,
            permutation: permutation.into(),
            done: random.random_range(1..count + 1),
        },
    }
}

//! Orders keep the log's order within each key, share pages as a sorted order does, and take little
//! memory.

use super::*;
use crate::clustered::Lookup;
use densite_log::{Batch, Op, Table, TxnId, Value};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeSet, HashMap};

mod turns;

const KEY: [Collation; 1] = [Collation::Binary];

fn second() -> Second {
    Second {
        column: "B".into(),
        collation: Collation::Binary,
    }
}

/// A batch of these rows, in records of `a` and `b`. Sometimes a number between records is skipped.
/// The first record can have rows that are not part of the batch.
fn batch(rows: &[[Value<'_>; 2]], random: &mut StdRng, most: usize) -> ClusteredBatch {
    let table = Table::new("t", ["a", "b"], 1, b"").expect("a table");
    part_of(&[table], rows, random, most)
}

/// As [`batch`]. Each record has one of these tables, which have the first columns of a row.
fn part_of<const N: usize>(
    tables: &[Arc<Table>],
    rows: &[[Value<'_>; N]],
    random: &mut StdRng,
    most: usize,
) -> ClusteredBatch {
    let before = random.random_range(0..1000u64);
    let mut clustered = ClusteredBatch::default();
    let (mut rest, mut first) = (rows, before + 1);
    while !rest.is_empty() {
        let skip = match clustered.records.is_empty() {
            true => random.random_range(0..4).min(before as usize),
            false => 0,
        };
        let count = random.random_range(1..=most).min(rest.len());
        let table = &tables[random.random_range(0..tables.len())];
        let columns = table.columns().len();
        let mut batch = Batch::new(table, Op::Insert);
        for row in [[Value::Null; N]].iter().cycle().take(skip) {
            batch.push(&row[..columns]).expect("a row");
        }
        for row in &rest[..count] {
            batch.push(&row[..columns]).expect("a row");
        }
        let record = Record {
            first: first - skip as u64,
            skip,
            txn: TxnId(1),
            ends_transaction: true,
            table: table.clone(),
            op: Op::Insert,
            rows: batch.rows().expect("rows"),
        };
        first = record.last() + 1 + u64::from(random.random_range(0..20) == 0);
        clustered.last = record.last();
        clustered.records.push(record);
        rest = &rest[count..];
    }
    clustered.before = before;
    clustered.rows = rows.len();
    clustered
}

/// The rows of the batch in the order of their places, as indexes.
fn order(batch: &ClusteredBatch, permutation: &[u32]) -> Vec<usize> {
    let mut order = vec![usize::MAX; batch.rows];
    for (i, number) in batch.each().enumerate() {
        let place = permutation[number as usize] as usize;
        assert_eq!(order[place], usize::MAX, "two rows have the place {place}");
        order[place] = i;
    }
    let nowhere = permutation.iter().filter(|p| **p == NOWHERE).count();
    assert_eq!(nowhere, batch.numbers() - batch.rows);
    order
}

#[test]
fn rows_of_one_key_stay_in_order_and_kept_rows_keep_their_places() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut seen = 0;
    for round in 0..60 {
        // Some batches have more rows than there are buckets.
        let count = match round % 10 {
            0 => random.random_range(20_000..50_000),
            _ => random.random_range(20..600),
        };
        let keys = random.random_range(2..count as i64 * 2);
        let value = |random: &mut StdRng, from: i64| match random.random_range(0..3) {
            0 => Value::Real(random.random_range(0..from) as f64),
            _ => Value::Int(random.random_range(0..from)),
        };
        let of_second = random.random_range(1..1000);
        let rows: Vec<_> = (0..count)
            .map(|_| [value(&mut random, keys), value(&mut random, of_second)])
            .collect();
        let batch = batch(&rows, &mut random, 300);
        let second = Some(second()).filter(|_| random.random_bool(0.7));
        let together = random.random_range(1..count);
        let arrange = |kept| permutation(&batch, kept, &KEY, second.as_ref(), together);
        let what = format!("seed {seed}, round {round}");
        let key = |row: &[Value<'_>; 2]| match row[0] {
            Value::Real(x) => x as i64,
            Value::Int(n) => n,
            _ => unreachable!(),
        };
        let is_in_order = |order: &[usize]| {
            let mut last = HashMap::new();
            let in_turn = |i: &usize| last.insert(key(&rows[*i]), *i) < Some(*i);
            assert!(order.iter().all(in_turn), "{what}");
        };
        // A few keys can ascend by chance.
        let Some(permutation) = arrange(Kept::default()) else {
            continue;
        };
        seen += 1;
        let first = order(&batch, &permutation);
        is_in_order(&first);
        let done = random.random_range(0..count as u32);
        let permutation = &*permutation;
        for again in [
            arrange(Kept { permutation, done }),
            Some(log_order(&batch, Kept { permutation, done })),
        ] {
            // The remaining keys can ascend by chance.
            let Some(again) = again else { continue };
            let again = order(&batch, &again);
            assert_eq!(again[..done as usize], first[..done as usize], "{what}");
            is_in_order(&again);
        }
    }
    assert!(seen > 40, "seed {seed}: {seen}");
}

/// Number of index pages that the transactions touch, if each page has `page` rows.
fn pages(order: &[usize], together: usize, ranks: &[usize], page: usize) -> usize {
    let pages = |some: &[usize]| {
        some.iter()
            .map(|i| ranks[*i] / page)
            .collect::<BTreeSet<_>>()
            .len()
    };
    order.chunks(together).map(pages).sum()
}

/// The rank of each code in sorted order.
fn ranks(codes: &[i64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..codes.len()).collect();
    order.sort_by_key(|i| codes[*i]);
    let mut ranks = vec![0; codes.len()];
    for (rank, i) in order.into_iter().enumerate() {
        ranks[i] = rank;
    }
    ranks
}

/// As few pages as with sorted rows, whatever the values are.
#[test]
fn transactions_share_pages() {
    const ROWS: usize = 100_000;
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    // Numbers of all sizes; numbers close together and a few far away; numbers that are all far
    // apart.
    let values: [fn(&mut StdRng) -> i64; 3] = [
        |r| r.random::<i64>() >> r.random_range(0..63),
        |r| match r.random_range(0..8) {
            0 => i64::MAX,
            1 => 0,
            _ => 1_700_000_000 + r.random_range(0..3_000_000),
        },
        |r| r.random(),
    ];
    for (keys, seconds) in [(0, 1), (1, 0), (1, 1), (2, 2)] {
        let mut columns =
            |of: usize| -> Vec<i64> { (0..ROWS).map(|_| values[of](&mut random)).collect() };
        let columns = [columns(keys), columns(seconds)];
        let rows: Vec<_> = (0..ROWS)
            .map(|i| [Value::Int(columns[0][i]), Value::Int(columns[1][i])])
            .collect();
        let batch = batch(&rows, &mut random, 5000);
        let ranks = [ranks(&columns[0]), ranks(&columns[1])];
        for (together, second) in [(2000, Some(second())), (500, Some(second())), (500, None)] {
            let permutation = permutation(&batch, Kept::default(), &KEY, second.as_ref(), together);
            let ours = order(&batch, &permutation.expect("keys do not ascend"));
            let mut sorted: Vec<usize> = (0..ROWS).collect();
            let stripe = match second {
                Some(_) => (ROWS as f64 * together as f64).sqrt() as usize,
                None => 1,
            };
            sorted.sort_by_key(|i| {
                let stripe = ranks[0][*i] / stripe;
                let second = ranks[1][*i] as i64;
                (
                    stripe,
                    if stripe.is_multiple_of(2) {
                        second
                    } else {
                        -second
                    },
                )
            });
            let cost = |order: &[usize]| {
                let keys = pages(order, together, &ranks[0], 20);
                keys + second
                    .as_ref()
                    .map_or(0, |_| pages(order, together, &ranks[1], 20))
            };
            let (ours, sorted) = (cost(&ours), cost(&sorted));
            println!("{keys} {seconds} {together}: {ours} pages, sorted {sorted}");
            assert!(
                ours * 100 <= sorted * 110,
                "seed {seed}: {ours} pages instead of {sorted}"
            );
        }
    }
}

#[test]
fn keys_that_ascend_mostly_have_no_better_order() {
    let mut random = StdRng::seed_from_u64(1);
    let mut is_permuted = |disorder: i64| {
        let key = |i: i64| Value::Int(i * 10 + random.random_range(0..disorder));
        let rows: Vec<_> = (0..2000).map(key).map(|k| [k, Value::Int(1)]).collect();
        let batch = batch(&rows, &mut StdRng::seed_from_u64(1), 100);
        permutation(&batch, Kept::default(), &KEY, Some(&second()), 100).is_some()
    };
    assert!(!is_permuted(1));
    assert!(!is_permuted(20));
    assert!(is_permuted(1000));
}

#[test]
fn rows_are_found_by_their_numbers() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for most in [1, 2, 50, 1000] {
        let rows: Vec<_> = (0..1000).map(|i| [Value::Int(i), Value::Null]).collect();
        let batch = batch(&rows, &mut random, most);
        let lookup = Lookup::of(&batch);
        let numbers: Vec<u32> = batch.each().collect();
        let values = |numbers: &[usize], all: &[u32]| {
            let some = numbers.iter().map(|i| all[*i]);
            let values = lookup.units(&batch, some).map(|unit| {
                let record = &batch.records[unit.record as usize];
                record.rows.get(unit.row as usize, 0)
            });
            let expected = numbers.iter().map(|i| Some(Value::Int(*i as i64)));
            assert!(values.eq(expected), "seed {seed}");
        };
        let mut some: Vec<usize> = (0..1000).collect();
        values(&some, &numbers);
        some.retain(|_| random.random_bool(0.1));
        values(&some, &numbers);
        some.reverse();
        values(&some, &numbers);
        some.sort_by_key(|i| i * 7919 % 1000);
        values(&some, &numbers);
    }
}

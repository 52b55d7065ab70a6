//! Compares the whole order with that of a plain stable sort, for keys and columns of all kinds:
//! stripes, alternating shares, and rows of one key beside the first of them.

use super::*;
use std::cmp::Ordering;

const HOW: [Collation; 5] = [
    Collation::Binary,
    Collation::NoCase,
    Collation::RTrim,
    Collation::BinaryUtf16Le,
    Collation::BinaryUtf16Be,
];

/// Texts that are equal under some collation, that differ only behind the bytes of a code, and
/// invalid UTF-8.
const BYTES: [&[u8]; 14] = [
    b"",
    b" ",
    b"a",
    b"A",
    b"a  ",
    b"b",
    b"B ",
    b"a\0b",
    b"A\0c",
    b"a long text",
    b"a long Text",
    b"a long text, and more",
    "\u{1f600}".as_bytes(),
    b"\xff\xfe",
];

/// Equal numbers of different types, numbers with equal codes, and the extreme values.
fn number(random: &mut StdRng, some: i64) -> Value<'static> {
    let n = random.random_range(0..some);
    match random.random_range(0..8) {
        0 => Value::Int(i64::MIN + n % 12),
        1 => Value::Int(i64::MAX - n % 12),
        2 => Value::Real((n - some / 2) as f64 * 1e18),
        3 => Value::Real(n as f64 + 0.5),
        4 => Value::Real(n as f64),
        _ => Value::Int(n),
    }
}

/// A value of a column of this kind, one of about `some` values.
fn value(kind: u32, some: i64, random: &mut StdRng) -> Value<'static> {
    let bytes = BYTES[random.random_range(0..some.min(BYTES.len() as i64)) as usize];
    match kind {
        0 => Value::Int(random.random_range(0..some)),
        1 => number(random, some),
        2 => Value::Text(bytes),
        _ => match random.random_range(0..4) {
            0 => Value::Text(bytes),
            1 => Value::Blob(bytes),
            _ => number(random, some),
        },
    }
}

fn compare(key: &[Collation], a: &[ValueRef<'_>], b: &[ValueRef<'_>]) -> Ordering {
    let each = key.iter().zip(a.iter().zip(b));
    let mut each = each.map(|(how, (a, b))| how.compare(*a, *b));
    each.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

/// A row of a batch.
struct Row<'a> {
    key: Vec<ValueRef<'a>>,
    /// Codes of the key and of the second column.
    codes: (u64, u64),
    /// Its kept place, if it has one.
    kept: Option<u32>,
}

fn rows<'a>(batch: &'a ClusteredBatch, kept: Kept<'_>, order: &Order<'_>) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for record in &batch.records {
        let second = order.column_of_second(record);
        for row in record.skip..record.rows.len() {
            let value = |column| {
                record
                    .rows
                    .get(row, column)
                    .map_or(ValueRef::Null, from_log)
            };
            rows.push(Row {
                key: (0..order.key.len()).map(value).collect(),
                codes: (
                    order.code(record, row),
                    order.code_of_second(record, row, second),
                ),
                kept: kept.place(batch.number(record, row)),
            });
        }
    }
    rows
}

/// The indexes of the rows in the expected order; `None` if more than three of four remaining rows
/// follow a row whose key is not greater.
fn expected(rows: &[Row<'_>], key: &[Collation], buckets: &Buckets) -> Option<Vec<usize>> {
    let mut left: Vec<usize> = (0..rows.len())
        .filter(|i| rows[*i].kept.is_none())
        .collect();
    let codes = left.iter().map(|i| rows[*i].codes.0);
    let before = std::iter::once(0).chain(codes.clone());
    let ascending = codes.zip(before).filter(|(code, before)| code >= before);
    if ascending.count() > left.len() / 4 * 3 {
        return None;
    }
    // The first row of each row's key.
    let mut by_key = left.clone();
    by_key.sort_by(|a, b| compare(key, &rows[*a].key, &rows[*b].key));
    let mut first = vec![0; rows.len()];
    for same in by_key.chunk_by(|a, b| compare(key, &rows[*a].key, &rows[*b].key).is_eq()) {
        same.iter().for_each(|i| first[*i] = same[0]);
    }
    let reached = |bounds: &[u64], code| bounds.iter().filter(|bound| **bound <= code).count();
    let stripe = |i: usize| reached(&buckets.stripes, rows[i].codes.0);
    // Stripes are ranges of keys.
    assert!(by_key.iter().map(|i| stripe(*i)).is_sorted());
    left.sort_by_key(|i| {
        let stripe = stripe(*i);
        let share = reached(&buckets.shares, rows[first[*i]].codes.1) as i64;
        (
            stripe,
            if stripe.is_multiple_of(2) {
                share
            } else {
                -share
            },
        )
    });
    Some(behind_kept(rows, left))
}

/// The rows with kept places, followed by these rows.
fn behind_kept(rows: &[Row<'_>], left: Vec<usize>) -> Vec<usize> {
    let mut all: Vec<usize> = (0..rows.len())
        .filter(|i| rows[*i].kept.is_some())
        .collect();
    all.sort_by_key(|i| rows[*i].kept);
    all.extend(left);
    all
}

#[test]
fn stripes_go_up_and_down_in_turn() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (mut in_turn, mut in_log_order) = (0, 0);
    for round in 0..400 {
        let what = format!("seed {seed}, round {round}");
        let count = random.random_range(1..400);
        let how = |random: &mut StdRng| HOW[random.random_range(0..HOW.len())];
        let key: Vec<_> = (0..random.random_range(1..3))
            .map(|_| how(&mut random))
            .collect();
        // All rows in one bucket, each in its own, or anything between.
        let kinds: [(u32, i64); 3] =
            std::array::from_fn(|_| (random.random_range(0..4), 1 << random.random_range(0..12)));
        let mut all: Vec<[Value<'_>; 3]> = (0..count)
            .map(|_| kinds.map(|(kind, some)| value(kind, some, &mut random)))
            .collect();
        // Runs that ascend or descend.
        let piece = random.random_range(1..=count);
        let order = random.random_range(0..4);
        for batch in all.chunks_mut(piece).filter(|_| order < 2) {
            batch.sort_by(|a, b| key[0].compare(from_log(a[0]), from_log(b[0])));
            if order == 0 {
                batch.reverse();
            }
        }
        for row in all.iter_mut().filter(|_| random.random_bool(0.05)) {
            row[2] = Value::Null;
        }
        let table = |columns: &[&str]| {
            Table::new("t", columns.iter().copied(), key.len(), b"").expect("a table")
        };
        // Some records were written before the column of the other index was added.
        let mut tables = vec![table(&["k", "l", "b"])];
        tables.extend(random.random_bool(0.2).then(|| table(&["k", "l"])));
        let batch = part_of(&tables, &all, &mut random, 40);
        let second = Second {
            column: "B".into(),
            collation: how(&mut random),
        };
        let second = Some(second).filter(|_| random.random_bool(0.8));
        let together = random.random_range(1..=2 * count);
        let by = Order {
            key: &key,
            second: second.as_ref(),
        };
        let look = |kept: Kept<'_>| {
            let rows = rows(&batch, kept, &by);
            let buckets = by.buckets(&batch, kept, together);
            let permutation = permutation(&batch, kept, &key, second.as_ref(), together);
            let found = permutation
                .as_ref()
                .map(|permutation| super::order(&batch, permutation));
            assert_eq!(found, expected(&rows, &key, &buckets), "{what}");
            if let Some(found) = &found {
                // Whatever the order is, rows of one key stay in the order of the log.
                let sorted = |mut all: Vec<usize>| {
                    all.sort_by(|a, b| compare(&key, &rows[*a].key, &rows[*b].key));
                    all
                };
                let log = (0..rows.len()).collect();
                assert_eq!(sorted(found.clone()), sorted(log), "{what}");
            }
            let logged = super::order(&batch, &log_order(&batch, kept));
            let left = (0..rows.len())
                .filter(|i| rows[*i].kept.is_none())
                .collect();
            assert_eq!(logged, behind_kept(&rows, left), "{what}");
            permutation
        };
        let Some(permutation) = look(Kept::default()) else {
            in_log_order += 1;
            continue;
        };
        in_turn += 1;
        look(Kept {
            permutation: &permutation,
            done: random.random_range(0..=count as u32),
        });
    }
    println!("{in_turn} in turn, {in_log_order} in the order of the log");
    assert!(in_turn > 100 && in_log_order > 10, "seed {seed}");
}

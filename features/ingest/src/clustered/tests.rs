//! Equal keys have equal hashes under every collation. Otherwise rows of one key could change
//! places.

use super::key::hash;
use crate::schema::affinity::from_log;
use crate::schema::collation::Collation;
use densite_log::{Batch, Op, Table, Value};
use densite_sqlite::ValueRef;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::cmp::Ordering;

const HOW: [Collation; 5] = [
    Collation::Binary,
    Collation::BinaryUtf16Le,
    Collation::BinaryUtf16Be,
    Collation::NoCase,
    Collation::RTrim,
];

fn value(random: &mut StdRng, texts: &'static [&'static [u8]]) -> Value<'static> {
    match random.random_range(0..6) {
        0 => Value::Int([0, 1, -1, i64::MAX, i64::MIN, 1 << 53][random.random_range(0..6)]),
        1 => {
            let some = [
                0.0,
                -0.0,
                1.0,
                0.5,
                -1.0,
                9_223_372_036_854_775_808.0,
                9e300,
            ];
            Value::Real(some[random.random_range(0..7)])
        }
        2 => Value::Real(-9_223_372_036_854_775_808.0),
        3 => Value::Blob(texts[random.random_range(0..texts.len())]),
        _ => Value::Text(texts[random.random_range(0..texts.len())]),
    }
}

#[test]
fn one_key_has_one_hash() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let texts: &[&[u8]] = &[
        b"a",
        b"A",
        b"a ",
        b"a  ",
        b"",
        b" ",
        b"ab",
        b"aB",
        b"a\0b",
        b"A\0c",
        b"\xff",
        b"\xfe",
        b"\xef\xbf\xbd",
        b"\0",
    ];
    let table = Table::new("t", ["a", "b"], 2, b"").expect("a table");
    let mut batch = Batch::new(&table, Op::Insert);
    for _ in 0..300 {
        let row = [value(&mut random, texts), value(&mut random, texts)];
        batch.push(&row).expect("a row");
    }
    let rows = batch.rows().expect("rows");
    let at = |row, column| rows.get(row, column).map_or(ValueRef::Null, from_log);
    for how in HOW {
        let key = [how, Collation::Binary];
        let mut alike = 0;
        for a in 0..rows.len() {
            for b in 0..a {
                let is_one = (0..2).all(|c| key[c].compare(at(a, c), at(b, c)) == Ordering::Equal);
                if is_one {
                    alike += 1;
                    assert_eq!(
                        hash(&rows, a, &key),
                        hash(&rows, b, &key),
                        "seed {seed}, {how:?}: {:?} and {:?}",
                        (at(a, 0), at(a, 1)),
                        (at(b, 0), at(b, 1))
                    );
                }
            }
        }
        assert!(alike > 0);
    }
}

//! Codes order keys as the comparison of values does.

use super::*;
use densite_sqlite::Value;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::cmp::Ordering;

const ALL: [Collation; 5] = [
    Collation::Binary,
    Collation::BinaryUtf16Le,
    Collation::BinaryUtf16Be,
    Collation::NoCase,
    Collation::RTrim,
];

fn value(random: &mut StdRng) -> Value {
    let edges = [
        0,
        1,
        FAR - 1,
        FAR,
        FAR + 1,
        -FAR,
        -FAR - 1,
        -FAR + 1,
        i64::MAX,
        i64::MIN,
        i64::MIN + 7,
        i64::MIN + 8,
        1 << 53,
    ];
    let near = random.random_range(-3..4i64);
    let n = edges[random.random_range(0..edges.len())].saturating_add(near);
    match random.random_range(0..8) {
        0 => Value::Null,
        1..3 => Value::Integer(n),
        3 => Value::Real(n as f64 + f64::from(random.random_range(0..4)) / 4.0),
        4 => Value::Real(
            [
                f64::INFINITY,
                f64::NEG_INFINITY,
                -1e19,
                1e19,
                -0.0,
                0.3,
                0.30000001,
            ][random.random_range(0..7)],
        ),
        kind => {
            let len = random.random_range(0..18);
            let letters = ["a", "A", " ", "\0", "b", "\u{e9}", "\u{1f600}", "\u{ffee}"];
            let some = if random.random_bool(0.7) { 2 } else { 8 };
            let text: String = (0..len)
                .map(|_| letters[random.random_range(0..some)])
                .collect();
            match kind {
                7 => Value::Blob(text.into_bytes()),
                _ => Value::Text(text),
            }
        }
    }
}

/// The invariants of the module, for keys that are close to each other and to every bound.
#[test]
fn codes_order_keys() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut exact = 0;
    for round in 0..300_000 {
        let columns = random.random_range(1..4);
        let key: Vec<Collation> = (0..columns)
            .map(|_| ALL[random.random_range(0..5)])
            .collect();
        let a: Vec<Value> = (0..columns).map(|_| value(&mut random)).collect();
        let b: Vec<Value> = a
            .iter()
            .map(|v| match random.random_bool(0.6) {
                true => v.clone(),
                false => value(&mut random),
            })
            .collect();
        let order = (0..columns).fold(Ordering::Equal, |so_far, i| {
            so_far.then_with(|| key[i].compare(a[i].as_ref(), b[i].as_ref()))
        });
        let code = |v: &[Value]| Code::of(&key, |i| v[i].as_ref());
        let (x, y) = (code(&a), code(&b));
        let what = format!("seed {seed}, round {round}: {key:?} {a:?} {b:?} {x:x?} {y:x?}");
        match order {
            Ordering::Less => assert!(x <= y, "{what}"),
            Ordering::Greater => assert!(x >= y, "{what}"),
            Ordering::Equal => assert_eq!(x, y, "{what}"),
        }
        if x == y && x.is_exact() {
            exact += 1;
            assert_eq!(order, Ordering::Equal, "{what}");
        }
        for (place, value) in a.iter().enumerate() {
            if let Some(n) = x.integer(columns, place) {
                let order = key[place].compare(ValueRef::Integer(n), value.as_ref());
                assert_eq!(order, Ordering::Equal, "{what}, {place}: {n}");
            }
        }
        // Keys that begin with these values are in the range.
        let some = random.random_range(0..=columns);
        let values: Vec<ValueRef<'_>> = a.iter().take(some).map(Value::as_ref).collect();
        let (low, high) = Code::range(&key, &values);
        assert!(low <= x && x <= high, "{what}");
    }
    assert!(exact > 10_000, "{exact}");
}

#[test]
fn usual_keys_are_exact() {
    let code = |key: &[Collation], v: &[Value]| Code::of(key, |i| v[i].as_ref());
    let one = [Collation::Binary];
    let two = [Collation::Binary, Collation::NoCase];
    assert!(code(&one, &[Value::Integer(FAR + 12_345)]).is_exact());
    assert!(code(&one, &[Value::from("thirteen byte")]).is_exact());
    assert!(!code(&one, &[Value::from("fourteen bytes")]).is_exact());
    assert!(code(&two, &[Value::Integer(-7), Value::Integer(1 << 58)]).is_exact());
    assert!(code(&two, &[Value::from("tenant"), Value::from("DE")]).is_exact());
    for n in [i64::MAX, i64::MIN + 8, FAR, FAR + 5, -FAR - 1, -FAR - 6] {
        for key in [&one[..], &two[..]] {
            let code = code(key, &[Value::Integer(n), Value::Null]);
            assert_eq!(code.integer(key.len(), 0), Some(n));
            assert_eq!(code.integer(key.len(), 1), None);
        }
    }
    for n in [0, 1, -1, 1 << 40, FAR - 1, -FAR] {
        let (n, other) = (Value::Integer(n), n / 2 - 7);
        let both = code(&two, &[n.clone(), Value::Integer(other)]);
        assert_eq!(both.integer(2, 0).map(Value::Integer), Some(n.clone()));
        assert_eq!(both.integer(2, 1), Some(other));
        let one = code(&one, std::slice::from_ref(&n));
        assert_eq!(one.integer(1, 0).map(Value::Integer), Some(n));
    }
}

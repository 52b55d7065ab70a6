//! Encoded rows decode to the same rows, and damaged bytes only make the decoder return `None`.

use super::{Payload, Rows, RowsBuilder, Value, encode_row};
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq)]
enum Owned {
    Null,
    Int(i64),
    Real(u64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl Owned {
    fn value(&self) -> Value<'_> {
        match self {
            Owned::Null => Value::Null,
            Owned::Int(v) => Value::Int(*v),
            Owned::Real(v) => Value::Real(f64::from_bits(*v)),
            Owned::Text(v) => Value::Text(v),
            Owned::Blob(v) => Value::Blob(v),
        }
    }

    fn of(value: Value<'_>) -> Owned {
        match value {
            Value::Null => Owned::Null,
            Value::Int(v) => Owned::Int(v),
            Value::Real(v) => Owned::Real(v.to_bits()),
            Value::Text(v) => Owned::Text(v.to_vec()),
            Value::Blob(v) => Owned::Blob(v.to_vec()),
        }
    }
}

fn value(kind: u8) -> BoxedStrategy<Owned> {
    let bytes = || {
        prop_oneof![4 => proptest::collection::vec(any::<u8>(), 0..9),
        1 => proptest::collection::vec(any::<u8>(), 250..400)]
    };
    match kind {
        0 => Just(Owned::Null).boxed(),
        1 => (0i64..200).prop_map(Owned::Int).boxed(),
        2 => any::<i64>().prop_map(Owned::Int).boxed(),
        3 => any::<u64>().prop_map(Owned::Real).boxed(),
        4 => bytes().prop_map(Owned::Text).boxed(),
        5 => bytes().prop_map(Owned::Blob).boxed(),
        6 => prop_oneof![Just(Owned::Null), any::<i64>().prop_map(Owned::Int)].boxed(),
        7 => prop_oneof![Just(Owned::Null), bytes().prop_map(Owned::Text)].boxed(),
        _ => (0u8..8).prop_flat_map(value).boxed(),
    }
}

/// Rows with one kind of values for each column.
fn rows() -> impl Strategy<Value = Vec<Vec<Owned>>> {
    proptest::collection::vec(0u8..9, 0..5).prop_flat_map(|kinds| {
        let row = kinds.into_iter().map(value).collect::<Vec<_>>();
        proptest::collection::vec(row, 1..40)
    })
}

fn build(rows: &[Vec<Owned>]) -> RowsBuilder {
    let mut builder = RowsBuilder::new(rows.first().map_or(0, Vec::len));
    for row in rows {
        builder.push(&row.iter().map(Owned::value).collect::<Vec<_>>());
    }
    builder
}

proptest! {
    #[test]
    fn rows_come_back(rows in rows(), keep in 0usize..40) {
        let mut builder = build(&rows);
        // Truncating leaves no trace of the dropped rows.
        let keep = keep.clamp(1, rows.len());
        builder.truncate(keep);
        let bytes = builder.encode();
        prop_assert_eq!(&bytes, &build(&rows[..keep]).encode());
        prop_assert!(bytes.len() as u64 <= builder.bytes_max() + 2, "{} > {}", bytes.len(), builder.bytes_max());
        let got = Rows::decode(Payload::Own(bytes), keep).expect("what was encoded");
        for (i, row) in rows[..keep].iter().enumerate() {
            let values: Vec<Owned> = got.row(i).map(Owned::of).collect();
            prop_assert_eq!(&values, row);
        }
        prop_assert_eq!(got.get(keep, 0), None);
        prop_assert_eq!(got.row(keep).count(), 0);
        for left_out in 0..=got.columns() {
            let rest = got.without_first(left_out).expect("as many columns");
            for (i, row) in rows[..keep].iter().enumerate() {
                let values: Vec<Owned> = rest.row(i).map(Owned::of).collect();
                prop_assert_eq!(&values, &row[left_out..]);
            }
        }
        prop_assert!(got.without_first(got.columns() + 1).is_none());
    }

    #[test]
    fn a_row_by_itself_is_encoded_alike(rows in rows()) {
        for row in &rows {
            let values: Vec<Value<'_>> = row.iter().map(Owned::value).collect();
            prop_assert_eq!(encode_row(&values), build(std::slice::from_ref(row)).encode());
        }
    }

    #[test]
    fn damaged_rows_are_refused_or_read(rows in rows(), at in any::<prop::sample::Index>(), with in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = build(&rows).encode();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = with }
        if let Some(got) = Rows::decode(Payload::Own(bytes), rows.len()) {
            for i in 0..got.len() {
                got.row(i).for_each(drop);
            }
        }
    }
}

#[test]
fn small_numbers_take_few_bytes() {
    let mut builder = RowsBuilder::new(2);
    for i in 0..400i64 {
        builder.push(&[Value::Int(1_000_000 + i * 37 % 100), Value::Int(-5 + i)]);
    }
    let bytes = builder.encode();
    assert_eq!(bytes.len(), 2 + 2 * 10 + 400 + 800);
}

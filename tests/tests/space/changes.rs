//! The expected content of the database, the changes to it, and its real content.

use std::collections::BTreeMap;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rusqlite::Connection;

pub(crate) const TABLES: [&str; 3] = ["t0", "t1", "t2"];

/// A row without its bytes, which depend on tag and length.
pub(crate) type Row = (i64, i64);
/// Tables and their rows.
pub(crate) type Model = BTreeMap<&'static str, BTreeMap<i64, Row>>;

/// The bytes of a row.
pub(crate) fn noise(key: i64, tag: i64, len: i64) -> Vec<u8> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(key as u64 ^ (tag as u64) << 32);
    (0..len).map(|_| rng.random()).collect()
}

/// One change.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Create(&'static str),
    Drop(&'static str),
    /// Keys from a first to a last one with a fixed step; tag and length.
    Put(&'static str, i64, i64, i64, Row),
    /// Keys in a range with the given remainder.
    Delete(&'static str, i64, i64, i64, i64),
}

impl Change {
    pub(crate) fn random(rng: &mut Xoshiro256PlusPlus, model: &Model, large: bool) -> Change {
        let table = TABLES[rng.random_range(0..3usize)];
        let Some(rows) = model.get(table) else {
            return Change::Create(table);
        };
        let first = rows.keys().next().copied().unwrap_or(0);
        let last = rows.keys().next_back().copied().unwrap_or(0);
        match rng.random_range(0..10) {
            0 => Change::Drop(table),
            1..=3 if !rows.is_empty() => {
                let (from, to) = match rng.random_range(0..3) {
                    0 => (first, first + (last - first) / 2),
                    1 => (first + (last - first) / 3, last),
                    _ => (first, last),
                };
                let modulus = rng.random_range(1..=7);
                Change::Delete(table, from, to, modulus, rng.random_range(0..modulus))
            }
            4..=5 if !rows.is_empty() => {
                let from = rng.random_range(first..=last);
                let len = rng.random_range(0..1500);
                let to = from + rng.random_range(0..200);
                Change::Put(
                    table,
                    from,
                    to,
                    rng.random_range(1..9),
                    (rng.random_range(0..1 << 30), len),
                )
            }
            _ => {
                let count = if large {
                    rng.random_range(200..2500)
                } else {
                    rng.random_range(1..80)
                };
                let len = rng.random_range(0..1200);
                Change::Put(
                    table,
                    last + 1,
                    last + count,
                    1,
                    (rng.random_range(0..1 << 30), len),
                )
            }
        }
    }

    pub(crate) fn sql(&self) -> String {
        match self {
            Change::Create(t) => format!("CREATE TABLE {t}(a INTEGER PRIMARY KEY, tag, b)"),
            Change::Drop(t) => format!("DROP TABLE {t}"),
            Change::Put(t, from, to, step, (tag, len)) => format!(
                "WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + {step} FROM n WHERE i + {step} <= {to})
                 INSERT OR REPLACE INTO {t} SELECT i, {tag}, noise(i, {tag}, {len}) FROM n"
            ),
            Change::Delete(t, from, to, modulus, rest) => {
                format!("DELETE FROM {t} WHERE a BETWEEN {from} AND {to} AND a % {modulus} = {rest}")
            }
        }
    }

    pub(crate) fn apply(&self, model: &mut Model) {
        match self {
            Change::Create(t) => drop(model.insert(t, BTreeMap::new())),
            Change::Drop(t) => drop(model.remove(t)),
            Change::Put(t, from, to, step, row) => {
                let keys = (*from..=*to).step_by(usize::try_from(*step).expect("small"));
                model
                    .get_mut(t)
                    .expect("is there")
                    .extend(keys.map(|k| (k, *row)));
            }
            Change::Delete(t, from, to, modulus, rest) => {
                let rows = model.get_mut(t).expect("is there");
                rows.retain(|k, _| k < from || k > to || k % modulus != *rest);
            }
        }
    }
}

/// The content of the database. The bytes of every row are compared.
pub(crate) fn content(db: &Connection) -> rusqlite::Result<Model> {
    let mut model = Model::new();
    for table in TABLES {
        let there: i64 = db.query_row(
            "SELECT count(*) FROM sqlite_schema WHERE name = ?",
            [table],
            |r| r.get(0),
        )?;
        if there == 0 {
            continue;
        }
        let mut statement = db.prepare(&format!(
            "SELECT a, tag, length(b), b = noise(a, tag, length(b)) FROM {table}"
        ))?;
        let rows = statement.query_map([], |r| {
            let (key, row, same): (i64, Row, bool) = (r.get(0)?, (r.get(1)?, r.get(2)?), r.get(3)?);
            assert!(same, "{table}: the bytes of row {key} differ");
            Ok((key, row))
        })?;
        model.insert(table, rows.collect::<rusqlite::Result<_>>()?);
    }
    Ok(model)
}

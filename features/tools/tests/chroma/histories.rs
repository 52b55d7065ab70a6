//! Random histories. After any order of writes, persists, losses and prunes, a Chroma that starts
//! again finds the same records.

use crate::made::{AGES, Coll, Made, Op};
use std::collections::BTreeMap;

/// Steps of one history.
const STEPS: u32 = 120;
/// Histories of each age.
const RUNS: u64 = 12;

/// A small generator (xorshift). It only has to give the same history for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// The content of the vector segment after a start of Chroma: the index on disk, then the queue
/// from its position.
fn started(made: &Made, coll: &Coll) -> BTreeMap<String, ()> {
    let mut held = made.held(coll);
    made.replay(coll, made.taken(coll), i64::MAX, &mut held);
    held
}

fn run(age: crate::made::Age, seed: u64) {
    let mut dice = Dice(seed);
    let mut made = Made::new(age);
    let mut colls: Vec<(Coll, BTreeMap<String, ()>)> = (0..3)
        .map(|i| (made.collection(&format!("c{i}")), BTreeMap::new()))
        .collect();
    let mut pruned = 0;
    for step in 0..STEPS {
        let which = dice.roll(colls.len() as u64) as usize;
        match dice.roll(20) {
            0 | 1 => {
                let newest = made.rows().last().copied().unwrap_or(0);
                let (coll, truth) = &colls[which];
                let own: i64 = made
                    .db
                    .query_row(
                        "SELECT ifnull(max(seq_id), -1) FROM embeddings_queue WHERE topic = ?",
                        [coll.topic()],
                        |r| r.get(0),
                    )
                    .expect("a row");
                let behind = dice.roll(5) as i64;
                let upto = (own - behind).min(newest);
                // The index never goes back. Without records no index is written here, because an
                // empty index is not a position.
                if upto > made.taken(coll) && !truth.is_empty() {
                    made.persist(coll, upto);
                }
            }
            2 => {
                pruned += made
                    .prune()
                    .unwrap_or_else(|e| panic!("seed {seed:#x}, step {step}: {e}"))
                    .rows;
            }
            3 if dice.roll(4) == 0 => {
                // Deletes a collection, completely or halfway. Chroma's own deletion also removes
                // its rows; a killed one does not.
                let (coll, _) = colls.remove(which);
                made.sql(&format!("DELETE FROM collections WHERE id = '{}'", coll.id));
                if dice.roll(2) == 0 {
                    made.sql(&format!(
                        "DELETE FROM segments WHERE collection = '{}'",
                        coll.id
                    ));
                }
                let coll = made.collection(&format!("c{step}"));
                colls.push((coll, BTreeMap::new()));
            }
            roll => {
                let (coll, truth) = &mut colls[which];
                let id = format!("id{}", dice.roll(12));
                let op = match roll % 4 {
                    0 => Op::Add,
                    1 => Op::Upsert,
                    2 => Op::Update,
                    _ => Op::Delete,
                };
                made.write(coll, op, &id);
                match op {
                    Op::Add | Op::Upsert => drop(truth.insert(id, ())),
                    Op::Delete => drop(truth.remove(&id)),
                    Op::Update => {}
                }
            }
        }
        for (coll, truth) in &colls {
            assert_eq!(
                &started(&made, coll),
                truth,
                "seed {seed:#x}, step {step}, {age:?}, {coll:?}"
            );
        }
    }
    // Otherwise the test could pass without pruning.
    assert!(
        pruned > 0 || STEPS < 100,
        "seed {seed:#x}: nothing was ever pruned"
    );
}

#[test]
fn a_chroma_that_starts_again_finds_the_same_records() {
    let base = match std::env::var("DENSITE_SEED") {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => 0x5EED_C0DE,
    };
    for age in AGES {
        for i in 0..RUNS {
            run(age, base + i * 0x9E37_79B9);
        }
    }
}

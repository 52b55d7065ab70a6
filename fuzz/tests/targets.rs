//! Runs every target on its seeds: unchanged, repaired, and with limits in each field.

use std::sync::Arc;

/// A repair changes no valid input, so a mutant that is repaired has only the damage of its
/// mutation.
#[test]
fn repairs_do_not_change_valid_seeds() {
    for target in densite_fuzz::all() {
        for (name, bytes) in (target.seeds)() {
            let before = (target.run)(&bytes);
            let mut repaired = bytes.clone();
            (target.repair)(&mut repaired);
            let what = format!("{} {name}", target.name);
            // The seed `sqlite` of `header` is a file of another program.
            if name != "sqlite" {
                assert!(repaired == bytes, "{what}: a repair changed a valid input");
            }
            assert_eq!((target.run)(&repaired), before, "{what}");
        }
    }
}

/// The most inputs of one target. If there are more, some are left out.
const MOST: usize = 1500;

/// With valid checksums, too, any value of a field leads to a result, never to a panic.
#[test]
fn limits_in_any_field_cause_no_panic() {
    for target in densite_fuzz::all() {
        let mut inputs = Vec::new();
        for (name, seed) in (target.seeds)() {
            let mut fields = (target.fields)(&seed);
            fields.sort_unstable();
            fields.dedup();
            // Hashes and the head of page 1 are not numbers.
            fields.retain(|(at, size)| *size <= 8 && at + size <= seed.len());
            let seed = Arc::new(seed);
            for (at, size) in fields {
                let most = u64::MAX >> (64 - 8 * size);
                let powers = [7, 15, 16, 31, 32, 47, 48, 63].map(|bits| 1 << bits);
                let near = powers.into_iter().flat_map(|p: u64| [p - 1, p]);
                let mut values: Vec<u64> = near.chain([0, 1, most - 1, most]).collect();
                values.retain(|value| *value <= most);
                inputs.extend(
                    values
                        .into_iter()
                        .map(|v| (name, seed.clone(), at, size, v)),
                );
            }
        }
        let step = inputs.len().div_ceil(MOST).max(1);
        for (name, seed, at, size, value) in inputs.iter().step_by(step) {
            let mut bytes = seed.to_vec();
            bytes[*at..at + size].copy_from_slice(&value.to_le_bytes()[..*size]);
            (target.repair)(&mut bytes);
            let ran = std::panic::catch_unwind(|| (target.run)(&bytes));
            assert!(ran.is_ok(), "{} {name}: {value} at {at}", target.name);
        }
    }
}

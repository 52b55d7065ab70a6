//! The decoders as functions of bytes, for the fuzzer (`fuzz/`) and for tests. Not part of the library: there only with the feature `fuzz`.
//!
//! Every [`Target`] takes any bytes, panics if an invariant is broken, and returns a number that stands for what happened, so that
//! the fuzzer can tell new behaviour from old. The invariants are stated with each target. Common to all: no panic for
//! any bytes, no page that is refused only because it did not come back (after [`be_loud`]: a panic), no allocation beyond some hundred times the input (the fuzzer sets a limit), an end in reasonable time.

mod codecs;
mod fields;
mod file;
mod mem;
mod parts;
mod repair;
mod sample;
mod seeds;
mod typed;

#[cfg(feature = "fuzz")]
pub use densite_typed::fuzz::{be_loud, spoiled};
pub use mem::MemFile;

/// One decoder under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is also that of its corpus.
    pub name: &'static str,
    /// Decodes and checks invariants; what is returned stands for the outcome.
    pub run: fn(&[u8]) -> u64,
    /// Makes checksums right where the bytes have any.
    pub repair: fn(&mut [u8]),
    /// Where fields lie: (offset, size). Fields that do not lie within the bytes may be named too.
    pub fields: fn(&[u8]) -> Vec<(usize, usize)>,
    /// Valid inputs, with names.
    pub seeds: fn() -> Vec<(&'static str, Vec<u8>)>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "header",
        run: parts::header,
        repair: repair::header,
        fields: fields::header,
        seeds: seeds::header,
    },
    Target {
        name: "slot",
        run: parts::slot,
        repair: repair::slot,
        fields: fields::slot,
        seeds: seeds::slot,
    },
    Target {
        name: "tip",
        run: parts::tip,
        repair: repair::tip,
        fields: fields::tip,
        seeds: seeds::tip,
    },
    Target {
        name: "record",
        run: parts::record,
        repair: repair::record,
        fields: fields::record,
        seeds: seeds::record,
    },
    Target {
        name: "trailer",
        run: parts::trailer,
        repair: repair::none,
        fields: fields::trailer,
        seeds: seeds::trailer,
    },
    Target {
        name: "node",
        run: parts::node,
        repair: repair::none,
        fields: fields::none,
        seeds: seeds::node,
    },
    Target {
        name: "chunk",
        run: parts::chunk,
        repair: repair::none,
        fields: fields::none,
        seeds: seeds::chunk,
    },
    Target {
        name: "index",
        run: parts::index,
        repair: repair::none,
        fields: fields::none,
        seeds: seeds::index,
    },
    Target {
        name: "frame",
        run: codecs::frame,
        repair: repair::none,
        fields: fields::frame,
        seeds: seeds::frame,
    },
    Target {
        name: "dictionary",
        run: codecs::dictionary,
        repair: repair::none,
        fields: fields::none,
        seeds: seeds::dictionary,
    },
    Target {
        name: "page",
        run: codecs::page,
        repair: repair::none,
        fields: fields::none,
        seeds: seeds::page,
    },
    Target {
        name: "btree",
        run: typed::btree,
        repair: repair::btree,
        fields: fields::btree,
        seeds: seeds::btree,
    },
    Target {
        name: "model",
        run: typed::model,
        repair: repair::none,
        fields: fields::model,
        seeds: seeds::model,
    },
    Target {
        name: "defaults",
        run: typed::defaults,
        repair: repair::none,
        fields: fields::defaults,
        seeds: seeds::defaults,
    },
    Target {
        name: "typed",
        run: typed::typed,
        repair: repair::none,
        fields: fields::typed,
        seeds: seeds::typed,
    },
    Target {
        name: "symbols",
        run: typed::symbols,
        repair: repair::none,
        fields: fields::symbols,
        seeds: seeds::symbols,
    },
    Target {
        name: "file",
        run: file::file,
        repair: repair::file,
        fields: fields::file,
        seeds: seeds::file,
    },
];

/// The salt with which targets below the level of a file check tips and records.
const SALT: u64 = 0x5EED_5EED_0BAD_CAFE;
/// The offset at which a record under test is taken to lie.
const OFFSET: u64 = 65536;

/// A number that stands for an outcome described by a text; digits do not count, so that places and lengths make no difference.
fn outcome(text: &str) -> u64 {
    let plain: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
    densite_disk::hash::xxh3_64(plain.as_bytes())
}

/// The target of this name.
#[cfg(feature = "fuzz")]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}

/// A page of a table, for other tests.
#[cfg(test)]
pub(crate) fn sample_rows(len: usize, salt: u64) -> Vec<u8> {
    sample::rows(len, false, sample::Tidy::Yes, salt)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed that is refused teaches the fuzzer nothing: all but those meant to be are decoded, as they are and repaired.
    #[test]
    fn seeds_are_valid_and_stay_so_when_repaired() {
        for target in TARGETS {
            for (name, bytes) in (target.seeds)() {
                let before = (target.run)(&bytes);
                let mut repaired = bytes.clone();
                (target.repair)(&mut repaired);
                let what = format!("{} {name}", target.name);
                if !["sqlite"].contains(&name) {
                    assert!(
                        repaired == bytes,
                        "{what}: the repair changed a valid input"
                    );
                }
                assert_eq!((target.run)(&repaired), before, "{what}");
            }
        }
    }

    /// Without checksums in the way, what lies behind them is reached: a changed trailer is an accepted one.
    #[test]
    fn a_repaired_file_opens() {
        let target = TARGETS
            .iter()
            .find(|t| t.name == "file")
            .expect("it is there");
        for (name, bytes) in (target.seeds)() {
            let found = repair::scan(&bytes);
            let Some(last) = found
                .iter()
                .rfind(|f| f.record.kind == crate::format::record::Kind::Trailer)
            else {
                continue;
            };
            let mut changed = bytes.clone();
            // The epoch, which may be anything.
            changed[last.at + crate::format::record::RECORD_LEN + 8] ^= 0xFF;
            assert_ne!(
                (target.run)(&changed),
                (target.run)(&bytes),
                "{name}: damage is noticed"
            );
            (target.repair)(&mut changed);
            assert_eq!(
                (target.run)(&changed),
                (target.run)(&bytes),
                "{name}: repaired it is like before"
            );
        }
    }

    /// Most inputs of one target with a field at a limit: beyond, some are left out.
    const MOST: usize = 1500;

    /// Every field of every seed with the numbers at which arithmetic goes wrong, and checksums made right: an answer, whichever, and no panic.
    #[test]
    fn every_field_at_its_limits() {
        for target in TARGETS {
            let mut inputs = Vec::new();
            for (name, seed) in (target.seeds)() {
                let mut fields = (target.fields)(&seed);
                fields.sort_unstable();
                fields.dedup();
                // Hashes and the head of page 1 are no numbers.
                fields.retain(|(at, size)| *size <= 8 && at + size <= seed.len());
                let seed = std::sync::Arc::new(seed);
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
}

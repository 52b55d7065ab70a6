//! How much tests do that try one seed after another, or many rows.
//!
//! `DENSITE_EFFORT` is `quick` for an eighth of the usual amount, or a number of times it. Nothing
//! else changes the amount. `DENSITE_SEED` runs one seed alone, to replay a failure.

use std::ops::Range;
use std::time::SystemTime;

/// A part of the usual amount, or a multiple of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort(f64);

impl Effort {
    /// What `DENSITE_EFFORT` asks for; 1 if it is not set or empty.
    ///
    /// # Panics
    /// If it is neither `quick` nor a number above zero.
    pub fn wanted() -> Effort {
        let given = std::env::var("DENSITE_EFFORT").ok();
        Effort::parse(given.as_deref().unwrap_or_default())
    }

    fn parse(given: &str) -> Effort {
        let wrong = || panic!("DENSITE_EFFORT={given}: use quick, or a number of times");
        match given {
            "" => Effort(1.0),
            "quick" => Effort(1.0 / 8.0),
            number => match number.parse() {
                Ok(times) if times > 0.0 && f64::is_finite(times) => Effort(times),
                _ => wrong(),
            },
        }
    }

    /// Whether it is at least the usual amount. Tests that take long and that few changes break do
    /// nothing otherwise: `make test-all` runs them.
    pub fn is_full(self) -> bool {
        self.0 >= 1.0
    }

    /// So much of the usual amount, at least 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "amounts are small, and a rounded one is as good"
    )]
    pub fn of(self, usual: u64) -> u64 {
        ((usual as f64 * self.0).round() as u64).max(1)
    }

    /// The least that must have been done if usually at least `usual` is: a tenth less than this part
    /// of it, because few seeds differ more than many.
    pub fn least(self, usual: u64) -> u64 {
        match one_seed() {
            Some(_) => 0,
            None if self.0 < 1.0 => self.of(usual) * 9 / 10,
            None => self.of(usual),
        }
    }
}

/// The seed of `DENSITE_SEED` alone, or as many as [`Effort::wanted`] says if `usual` is usual, from
/// 0 on.
///
/// # Panics
/// As [`Effort::wanted`], or if `DENSITE_SEED` is not a number.
pub fn seeds(usual: u64) -> Range<u64> {
    match one_seed() {
        Some(seed) => seed..seed + 1,
        None => 0..Effort::wanted().of(usual),
    }
}

/// As [`seeds`], from a first seed on that differs from run to run.
///
/// # Panics
/// As [`seeds`].
pub fn fresh_seeds(usual: u64) -> Range<u64> {
    match one_seed() {
        Some(seed) => seed..seed + 1,
        None => {
            let first = fresh();
            first..first + Effort::wanted().of(usual)
        }
    }
}

/// `DENSITE_SEED`, or else one that differs from run to run. It is printed.
///
/// # Panics
/// If `DENSITE_SEED` is not a number.
pub fn fresh_seed() -> u64 {
    seed(fresh())
}

/// `DENSITE_SEED`, or else `usual`. It is printed.
///
/// # Panics
/// If `DENSITE_SEED` is not a number.
pub fn seed(usual: u64) -> u64 {
    let seed = one_seed().unwrap_or(usual);
    println!("DENSITE_SEED={seed}");
    seed
}

/// No test takes a million seeds a second, so two runs have no seed in common.
fn fresh() -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or_default()
}

fn one_seed() -> Option<u64> {
    let given = std::env::var("DENSITE_SEED").ok();
    let given = given.filter(|text| !text.is_empty())?;
    let seed = given.parse();
    Some(seed.unwrap_or_else(|_| panic!("DENSITE_SEED={given} is not a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_is_an_eighth_and_at_least_one() {
        assert_eq!(Effort::parse("").of(40), 40);
        assert_eq!(Effort::parse("quick").of(40), 5);
        assert_eq!(Effort::parse("quick").of(3), 1);
        assert_eq!(Effort::parse("2.5").of(40), 100);
        assert_eq!(Effort::parse("2").least(800), 1600);
        assert_eq!(Effort::parse("quick").least(800), 90);
    }

    #[test]
    #[should_panic(expected = "DENSITE_EFFORT=some: use quick")]
    fn another_word_is_an_error() {
        Effort::parse("some");
    }
}

//! One part of `make crash`: runs one seed after another until its time is over, and ends with one
//! line of results.
//!
//! A part is an ignored test whose name begins with `long_` (not `long_fuzz`). `tests/long` finds
//! these tests, gives each its share of the time, and collects their last lines. `DENSITE_MINUTES`
//! is the time of this part in minutes (1 unless set), `DENSITE_SEED` its first seed. Without
//! `DENSITE_SEED` every run begins with another seed. With `DENSITE_TRIES`, a part ends after so
//! many tries, however long they take.

use std::time::{Duration, Instant, SystemTime};

/// Runs `once` with one seed after another until the time is over or the tries are done, at least
/// once.
///
/// `once` returns how many `things` ("power cuts", "kills") it tried. The last line on standard
/// output is `long run: R runs, N things, continue with SEED=S`.
///
/// # Panics
/// If `once` panics, after a last line that names the failed seed. If an environment variable is
/// not a number.
pub fn long_run(things: &str, mut once: impl FnMut(u64) -> u64) {
    let minutes = number("DENSITE_MINUTES").unwrap_or(1.0);
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let tries: Option<u64> = number("DENSITE_TRIES");
    let mut progress = Progress {
        things,
        seed: first_seed(),
        runs: 0,
        tried: 0,
    };
    loop {
        progress.tried += once(progress.seed);
        progress.runs += 1;
        progress.seed += 1;
        let is_over = match tries {
            Some(tries) => progress.tried >= tries,
            None => Instant::now() >= end,
        };
        if is_over {
            break;
        }
    }
}

/// What was done so far; dropping it prints the last line, also while a panic unwinds.
struct Progress<'a> {
    things: &'a str,
    /// The seed that runs, or the next one.
    seed: u64,
    runs: u64,
    tried: u64,
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        let Progress {
            things,
            seed,
            runs,
            tried,
        } = self;
        if std::thread::panicking() {
            println!("long run: FAILED with SEED={seed} after {runs} runs, {tried} {things}");
        } else {
            println!("long run: {runs} runs, {tried} {things}, continue with SEED={seed}");
        }
    }
}

fn first_seed() -> u64 {
    // No part takes a thousand seeds a second, so two runs have no seed in common.
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    number("DENSITE_SEED").unwrap_or(now.as_secs() * 1000)
}

/// A number from the environment; an empty variable counts as not set.
fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok().filter(|v| !v.is_empty())?;
    let number = value.parse().ok();
    Some(number.unwrap_or_else(|| panic!("{name}={value} is not a number")))
}

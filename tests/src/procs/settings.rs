//! What the environment says about a run.

use std::time::Duration;

/// The seed of a random test: `DENSITE_SEED` if that is set, `default` otherwise. It is printed.
///
/// # Panics
/// When `DENSITE_SEED` is no number.
pub fn seed(what: &str, default: u64) -> u64 {
    let given = std::env::var("DENSITE_SEED").ok().filter(|s| !s.is_empty());
    let seed = given.map_or(default, |s| s.parse().expect("DENSITE_SEED is a number"));
    println!("{what}: DENSITE_SEED={seed}");
    seed
}

/// How long a run under `make crash` is to take: `DENSITE_MINUTES`, 60 unless set, divided among `parts`.
///
/// # Panics
/// When `DENSITE_MINUTES` is no number.
pub fn long_run(parts: u32) -> Duration {
    let given = std::env::var("DENSITE_MINUTES")
        .ok()
        .filter(|s| !s.is_empty());
    let minutes: f64 = given.map_or(60.0, |s| s.parse().expect("DENSITE_MINUTES is a number"));
    Duration::from_secs_f64(minutes * 60.0 / f64::from(parts))
}

//! Settings of a run from the environment.

/// The seed of a random test: `DENSITE_SEED` if set, otherwise `default`. It is printed.
///
/// # Panics
/// If `DENSITE_SEED` is not a number.
pub fn seed(what: &str, default: u64) -> u64 {
    let given = std::env::var("DENSITE_SEED").ok().filter(|s| !s.is_empty());
    let seed = given.map_or(default, |s| s.parse().expect("DENSITE_SEED is a number"));
    println!("{what}: DENSITE_SEED={seed}");
    seed
}
